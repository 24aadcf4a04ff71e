//! Loading what is of use to one target only.

use std::path::Path;

use serde_json::Value;

use super::config::{DraftConfig, DraftFault, TargetCard};
use super::kind::DraftKind;
use super::model::DraftModel;
use crate::checkpoint::Checkpoint;
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::fingerprint::fingerprint;
use crate::load_options::LoadOptions;
use crate::raw_parts::{Part, RawParts};
use crate::weights::Weights;

/// Where a drafter lies.
#[derive(Clone, Copy, Debug)]
pub struct DraftFolder<'a> {
    /// Its own folder, or its GGUF file.
    pub dir: &'a Path,
    /// That of the model it will draft for, where it is at hand.
    pub target: Option<&'a Path>,
}

impl DraftFolder<'_> {
    /// Loads what `config` describes.
    pub(super) fn load(
        &self,
        config: DraftConfig,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<DraftModel> {
        if let Some(layers) = options.layers {
            return Err(self.fault(DraftFault::Cut { layers }));
        }
        match config {
            DraftConfig::Edd { target, tapped_layer, tokens_beside_states, decoder, .. } => {
                self.check_layer("tapped_layer", tapped_layer, target.layers)?;
                let Checkpoint { config, path } = self.own(&target, &decoder)?;
                self.open_target(&target)?;
                let own = Part { config: config.clone(), weights: Weights::open(&path)? };
                let raw = RawParts::new(own, None)?.with_states(tokens_beside_states);
                let decoder = Decoder::pack(config, &raw, options, progress)?;
                let kind = DraftKind::Edd { target, tapped_layer, tokens_beside_states };
                Ok(DraftModel { decoder, kind, exits: vec![1] })
            }
            DraftConfig::EarlyExit { target, shared_layers, decoder } => {
                self.check_layer("shared_layers", shared_layers, target.layers.saturating_sub(1))?;
                let own = self.own(&target, &decoder)?;
                let (config, raw) = self.on_top(&target, shared_layers, &own)?;
                let exits = vec![config.layers];
                let decoder = Decoder::pack(config, &raw, options, progress)?;
                Ok(DraftModel { decoder, kind: DraftKind::EarlyExit { target, shared_layers }, exits })
            }
        }
    }

    fn fault(&self, fault: DraftFault) -> ModelError {
        ModelError::Draft { folder: self.dir.to_owned(), fault }
    }

    fn check_layer(&self, field: &'static str, found: usize, max: usize) -> Result<()> {
        if (1..=max).contains(&found) { Ok(()) } else { Err(self.fault(DraftFault::Layer { field, found, max })) }
    }

    /// The drafter's own part: one layer as wide as the target.
    fn own(&self, target: &TargetCard, decoder: &Value) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::of_config(self.dir.to_owned(), &decoder.to_string())?;
        let ModelConfig { layers, hidden, .. } = checkpoint.config;
        let expected = [("number of layers", layers, 1), ("width", hidden, target.hidden_size)];
        match expected.into_iter().find(|(_, found, expected)| found != expected) {
            Some((what, found, expected)) => Err(self.fault(DraftFault::Decoder { what, found, expected })),
            None => Ok(checkpoint),
        }
    }

    /// The target's checkpoint, if its folder is at hand, found to be the right one.
    fn open_target(&self, card: &TargetCard) -> Result<Option<Checkpoint>> {
        let Some(dir) = self.target else { return Ok(None) };
        let checkpoint = Checkpoint::open(dir)?;
        let found = fingerprint(dir)?;
        if found == card.fingerprint {
            return Ok(Some(checkpoint));
        }
        let (target, expected) = (card.name.clone(), card.fingerprint.clone());
        Err(self.fault(DraftFault::OtherTarget { target, expected, found }))
    }

    /// The target's first layers with the drafter's own layer, norm and head on top.
    fn on_top(&self, card: &TargetCard, shared: usize, own: &Checkpoint) -> Result<(ModelConfig, RawParts)> {
        let fault = |fault: fn(String) -> DraftFault| self.fault(fault(card.name.clone()));
        let target = self.open_target(card)?.ok_or_else(|| fault(|target| DraftFault::NoTarget { target }))?;
        let config = stacked(&target.config, shared, &own.config);
        let config = config.ok_or_else(|| fault(|target| DraftFault::Foreign { target }))?;
        let part = |of: &Checkpoint| Ok::<_, ModelError>(Part { config: of.config.clone(), weights: of.weights()? });
        let raw = RawParts::stacked(part(&target)?, shared, part(own)?);
        Ok((config, raw))
    }
}

/// The model of the first `shared` layers of one and the only layer of another, whose head it has; none if they differ in
/// more than their layers and their heads.
fn stacked(below: &ModelConfig, shared: usize, top: &ModelConfig) -> Option<ModelConfig> {
    let windows = [below.windows.get(..shared)?, &top.windows].concat();
    let whole = ModelConfig { layers: shared + 1, windows: windows.clone(), tied: false, ..below.clone() };
    let of_top = ModelConfig { layers: shared + 1, windows, tied: false, ..top.clone() };
    let ends = |config: ModelConfig| ModelConfig { eos: Vec::new(), bos: None, ..config };
    (ends(whole.clone()) == ends(of_top)).then_some(whole)
}
