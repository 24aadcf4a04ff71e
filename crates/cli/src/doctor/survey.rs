//! Looks at checkpoints: their configurations, the headers of their weights, their tokenizers and, where one names
//! another, their fingerprints.

use std::path::{Path, PathBuf};

use espalier_local::{DrafterChoice, LocalError, SystemArgs, checkpoint, models_folder};
use espalier_model::{
    Checkpoint, Compute, Decoder, DeviceKind, DraftConfig, LoadOptions, ModelConfig, PredictorConfig, Weights,
    fingerprint, model_name,
};
use espalier_service_kit::chain;
use espalier_text::Tokenizer;
use serde_json::Value;

use super::facts::{Facts, Kind, Part, Seen, Size, Tokens, Unusable};
use crate::error::CliError;
use crate::serve::Layout;

/// How the `model_type` begins of what is no model by itself.
const OURS: &str = "espalier_";

/// A checkpoint that is to be looked at.
struct Wanted {
    name: String,
    part: Part,
    path: Result<PathBuf, LocalError>,
    /// Only the first so many layers.
    layers: Option<usize>,
    compute: Compute,
    device: DeviceKind,
}

/// All that a system of this layout would use, then what else is in the folder of models. Fingerprints are of whole
/// weights; without `thorough` none is taken.
pub(crate) fn survey(layout: &Layout, system: &SystemArgs, thorough: bool) -> Result<Vec<Seen>, CliError> {
    let mut wanted = asked_for(layout, system)?;
    let known: Vec<PathBuf> =
        wanted.iter().filter_map(|wanted| wanted.path.as_ref().ok()?.canonicalize().ok()).collect();
    let beside = beside(system).into_iter().filter(|path| path.canonicalize().is_ok_and(|path| !known.contains(&path)));
    wanted.extend(beside.map(|path| Wanted {
        name: model_name(&path).unwrap_or_default().to_owned(),
        part: Part::Beside,
        path: Ok(path),
        layers: None,
        compute: system.target_compute().unwrap_or_default(),
        device: DeviceKind::Cpu,
    }));
    let mut seen: Vec<Seen> = wanted.iter().map(Wanted::look).collect();
    if thorough && seen.iter().any(names_another) {
        for (seen, wanted) in seen.iter_mut().zip(&wanted) {
            add_fingerprint(seen, wanted);
        }
    }
    Ok(seen)
}

/// Looks at a checkpoint by itself, as a target would be loaded.
pub(crate) fn examine(path: &Path) -> Result<Facts, CliError> {
    let (compute, device) = (Compute::default(), DeviceKind::default());
    let name = path.display().to_string();
    Wanted { name, part: Part::Target, path: Ok(path.to_owned()), layers: None, compute, device }.read(path)
}

fn asked_for(layout: &Layout, system: &SystemArgs) -> Result<Vec<Wanted>, CliError> {
    let compute = system.target_compute().map_err(LocalError::from)?;
    let target = |name: &String| {
        let path = checkpoint(name, system);
        Wanted { name: shown(&path, name), part: Part::Target, path, layers: None, compute, device: system.device }
    };
    let drafter = |given: &String| {
        let (path, layers) = match DrafterChoice::parse(given, system) {
            Ok(DrafterChoice::Ngram | DrafterChoice::None) => return None,
            Ok(DrafterChoice::Model { folder, layers }) => (Ok(folder), layers),
            Err(error) => (Err(error), None),
        };
        let (compute, device) = (system.draft_compute(), system.draft_device());
        Some(Wanted { name: given.clone(), part: Part::Drafter, path, layers, compute, device })
    };
    let predictor = |name: &String| {
        let path = checkpoint(name, system);
        Wanted { name: name.clone(), part: Part::Beside, path, layers: None, compute, device: DeviceKind::Cpu }
    };
    let targets = layout.targets.iter().map(target);
    let drafters = layout.drafter.iter().filter_map(drafter);
    Ok(targets.chain(drafters).chain(system.predictors.iter().map(predictor)).collect())
}

/// How requests would name what is at a path.
fn shown(path: &Result<PathBuf, LocalError>, given: &str) -> String {
    path.as_deref().ok().and_then(model_name).unwrap_or(given).to_owned()
}

/// What is in the folder of models.
fn beside(system: &SystemArgs) -> Vec<PathBuf> {
    let entries = models_folder(system).ok().and_then(|folder| folder.path.read_dir().ok());
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = paths.filter(|path| Checkpoint::is_at(path)).collect();
    found.sort();
    found
}

impl Wanted {
    fn look(&self) -> Seen {
        let found = match &self.path {
            Ok(path) => self.read(path).map_err(|error| broken(&error)),
            Err(error) => Err(missing(error)),
        };
        Seen { name: self.name.clone(), part: self.part, found }
    }

    fn read(&self, path: &Path) -> Result<Facts, CliError> {
        let text = Checkpoint::describe(path)?;
        // What is wrong with it is said by who reads it below.
        let described: Value = serde_json::from_str(&text).unwrap_or_default();
        let tokens = tokens(path)?;
        let (kind, size) = match described["model_type"].as_str().filter(|kind| kind.starts_with(OURS)) {
            None => {
                let checkpoint = Checkpoint::open(path)?;
                checkpoint.check_weights()?;
                (Kind::Model, Some(self.size(&checkpoint.config, self.layers, path)?))
            }
            Some("espalier_cali_ts") => {
                Weights::open(path)?;
                (Kind::Predictor { drafter: PredictorConfig::read(path)?.drafter }, None)
            }
            Some(_) => self.of_one_target(&text, path)?,
        };
        Ok(Facts { kind, size, tokens, fingerprint: None })
    }

    /// What serves one target alone.
    fn of_one_target(&self, text: &str, path: &Path) -> Result<(Kind, Option<Size>), CliError> {
        let malformed = |fault| espalier_model::ModelError::Json { path: path.join("config.json"), fault };
        let (kind, target, decoder, layers) = match serde_json::from_str(text).map_err(malformed)? {
            DraftConfig::Edd { target, decoder, .. } => ("edd", target, decoder, None),
            DraftConfig::EarlyExit { target, shared_layers, decoder } => {
                ("early-exit", target, decoder, Some(shared_layers + 1))
            }
        };
        let config = ModelConfig::parse(&decoder.to_string(), None);
        let config =
            config.map_err(|fault| espalier_model::ModelError::Config { path: path.join("config.json"), fault })?;
        let size = self.size(&config, layers, path)?;
        Ok((Kind::Only { kind, target }, Some(size)))
    }

    fn size(&self, config: &ModelConfig, layers: Option<usize>, path: &Path) -> Result<Size, CliError> {
        let arithmetic = self.compute.of(&Weights::open(path)?, self.device);
        let layers = layers.unwrap_or(config.layers);
        let config = ModelConfig { layers, ..config.clone() };
        let options = LoadOptions { arithmetic, ..LoadOptions::default() };
        Ok(Size {
            layers,
            parameters: config.parameters(),
            context: config.context,
            vocab: config.vocab,
            arithmetic,
            weights: Decoder::memory(&config, &options)?,
            of_context: config.context_memory(arithmetic),
        })
    }
}

/// What is there, and cannot be used.
fn broken(error: &dyn std::error::Error) -> Unusable {
    Unusable { why: chain(error), is_missing: false }
}

/// What is not there. Where folders of models are looked for is told once, and elsewhere.
fn missing(error: &LocalError) -> Unusable {
    let why = match error {
        LocalError::NoModels { .. } => "there is no folder of models that could have it".to_owned(),
        error => chain(error),
    };
    Unusable { why, is_missing: true }
}

fn tokens(path: &Path) -> Result<Tokens, CliError> {
    let tokenizer = Tokenizer::open(path)?;
    Ok(Tokens {
        fingerprint: tokenizer.fingerprint().to_owned(),
        count: tokenizer.vocab_size(),
        has_template: tokenizer.chat_template().is_some(),
    })
}

/// Whether a checkpoint says which other one it was made for.
fn names_another(seen: &Seen) -> bool {
    seen.found.as_ref().is_ok_and(|facts| facts.kind != Kind::Model)
}

fn add_fingerprint(seen: &mut Seen, wanted: &Wanted) {
    let (Ok(facts), Ok(path)) = (&mut seen.found, &wanted.path) else { return };
    match fingerprint(path) {
        Ok(fingerprint) => facts.fingerprint = Some(fingerprint),
        Err(error) => seen.found = Err(broken(&error)),
    }
}
