//! Where checkpoints are.

use std::path::{Path, PathBuf};

use espalier_drafter::Config as DrafterConfig;
use espalier_model::{Checkpoint, DraftConfig, fingerprint};

use crate::args::SystemArgs;
use crate::error::LocalError;
use crate::unique::unique;

/// The targets that are served unless told otherwise.
pub const DEFAULT_TARGETS: [&str; 2] = ["small", "medium"];

/// Who drafts unless told otherwise: one drafter for all targets.
pub const DEFAULT_DRAFTER: &str = "sorted";

/// The folder name that holds checkpoints.
const MODELS: &str = "models";

/// The folder among a user's data that is this program's.
const PROGRAM: &str = "espalier";

/// Who proposes trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrafterChoice {
    /// A drafter's folder, cut to its first layers or whole.
    Model {
        /// The drafter's checkpoint, a folder or a GGUF file.
        folder: PathBuf,
        /// How many of its first layers; all when absent.
        layers: Option<usize>,
    },
    /// The text itself.
    Ngram,
    /// Nobody.
    None,
}

impl DrafterChoice {
    /// Reads `NAME`, `NAME:LAYERS`, `ngram` or `none`.
    ///
    /// # Errors
    /// A name that stands for no checkpoint, and no number of layers.
    pub fn parse(given: &str, system: &SystemArgs) -> Result<Self, LocalError> {
        match given {
            "ngram" => return Ok(Self::Ngram),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let Some((name, layers)) = given.rsplit_once(':') else {
            return Ok(Self::Model { folder: checkpoint(given, system)?, layers: None });
        };
        let layers = layers.parse().ok().filter(|&layers: &usize| layers > 0);
        let layers = layers.ok_or_else(|| LocalError::NoDrafter { given: given.to_owned() })?;
        Ok(Self::Model { folder: checkpoint(name, system)?, layers: Some(layers) })
    }

    /// Reads several.
    ///
    /// # Errors
    /// As for [`Self::parse`], and two that requests would call by the same name.
    pub fn parse_all(given: &[String], system: &SystemArgs) -> Result<Vec<Self>, LocalError> {
        let choices = given.iter().map(|text| Self::parse(text, system)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = choices.iter().map(Self::name).collect();
        unique("drafter", names.iter().map(String::as_str))?;
        Ok(choices)
    }

    /// How many exits the drafter has: 1 where it is no model with several, or where its folder does not say.
    pub fn exits(&self) -> usize {
        let Self::Model { folder, layers } = self else { return 1 };
        // What is wrong with it is said when the drafter is loaded.
        let text = Checkpoint::describe(folder).unwrap_or_default();
        let config: Exits = serde_json::from_str(&text).unwrap_or_default();
        let mut exits = config.exits.unwrap_or_default();
        if let Some(layers) = layers {
            // A model that is cut answers after its last layer.
            exits.retain(|exit| exit < layers);
            exits.push(*layers);
        }
        exits.len().max(1)
    }

    /// How requests name it.
    pub fn name(&self) -> String {
        match self {
            Self::Model { folder, layers } => DrafterConfig::default_name(folder, *layers),
            Self::Ngram => "ngram".to_owned(),
            Self::None => "none".to_owned(),
        }
    }
}

/// A drafter's `config.json`, as far as its exits go.
#[derive(Default, serde::Deserialize)]
struct Exits {
    /// The layers after which it may answer; none for a model with one exit.
    #[serde(rename = "espalier_exits")]
    exits: Option<Vec<usize>>,
}

/// The folder or the GGUF file of the checkpoint `name`: one of the folder of models, or a path.
///
/// # Errors
/// A name that stands for no checkpoint.
pub fn checkpoint(name: &str, system: &SystemArgs) -> Result<PathBuf, LocalError> {
    let path = Path::new(name);
    if Checkpoint::is_at(path) {
        // A name for `.` and `..` too.
        return path.canonicalize().map_err(|source| LocalError::Read { path: path.to_owned(), source });
    }
    let models = models_folder(system)?.path;
    let tried = models.join(name);
    let places = [tried.clone(), models.join(format!("{name}.gguf"))];
    let found = places.into_iter().find(|place| Checkpoint::is_at(place));
    found.ok_or_else(|| LocalError::NoCheckpoint { name: name.to_owned(), tried })
}

/// The folder of the target whose layers the drafter in `folder` shares, if it shares any: one of `targets`, or else the
/// checkpoint of the name that it had when the drafter was made.
///
/// # Errors
/// Weights that cannot be read, and a target that is nowhere to be found.
pub fn shared_target(folder: &Path, targets: &[PathBuf], system: &SystemArgs) -> Result<Option<PathBuf>, LocalError> {
    // What is wrong with the file is said when the drafter is loaded.
    let Some(DraftConfig::EarlyExit { target, .. }) = draft_config(folder) else { return Ok(None) };
    for candidate in targets {
        if fingerprint(candidate)? == target.fingerprint {
            return Ok(Some(candidate.clone()));
        }
    }
    checkpoint(&target.name, system).map(Some)
}

/// What the drafter in a folder says of itself, if it is of use to one target only.
fn draft_config(folder: &Path) -> Option<DraftConfig> {
    serde_json::from_str(&Checkpoint::describe(folder).ok()?).ok()
}

/// How a folder of models was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// It was named.
    Argument,
    /// It is in the working directory.
    WorkingDirectory,
    /// It is beside the program, or above it.
    Program,
    /// It is the folder for data of whoever runs the program.
    UserData,
}

/// The folder that holds checkpoints by name, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelsFolder {
    /// Where it is.
    pub path: PathBuf,
    /// How it was found.
    pub found_by: FoundBy,
}

/// What decides where models are looked for.
#[derive(Debug, Default)]
struct Whereabouts {
    program: Option<PathBuf>,
    user_data: Option<PathBuf>,
}

impl Whereabouts {
    /// Those of this process.
    fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let of_home = || Some(variable("HOME")?.join(".local/share"));
        let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute()).or_else(of_home);
        Self { program: std::env::current_exe().ok(), user_data: data.map(|data| data.join(PROGRAM).join(MODELS)) }
    }

    /// Where a folder of models is looked for that nobody has named, first place first.
    fn places(&self) -> Vec<ModelsFolder> {
        let here = (PathBuf::from(MODELS), FoundBy::WorkingDirectory);
        let above = self.program.iter().flat_map(|program| program.ancestors().skip(1));
        let above = above.map(|folder| (folder.join(MODELS), FoundBy::Program));
        let data = self.user_data.iter().map(|data| (data.clone(), FoundBy::UserData));
        let places = std::iter::once(here).chain(above).chain(data);
        places.map(|(path, found_by)| ModelsFolder { path, found_by }).collect()
    }

    fn find(&self) -> Result<ModelsFolder, LocalError> {
        let places = self.places();
        let found = places.iter().find(|place| place.path.is_dir()).cloned();
        found.ok_or_else(|| LocalError::NoModels { tried: places.into_iter().map(|place| place.path).collect() })
    }
}

/// The folder of models: as told, in the working directory, beside the program or above it, or among the user's data.
///
/// # Errors
/// There is none in any of these places.
pub fn models_folder(system: &SystemArgs) -> Result<ModelsFolder, LocalError> {
    match &system.models {
        Some(path) => Ok(ModelsFolder { path: path.clone(), found_by: FoundBy::Argument }),
        None => Whereabouts::of_process().find(),
    }
}

/// Where models go that are fetched: the folder of models; where there is none, that of the user's data, or else the one
/// that would be found in the working directory.
pub fn models_home(system: &SystemArgs) -> PathBuf {
    let none = || Whereabouts::of_process().user_data.unwrap_or_else(|| PathBuf::from(MODELS));
    models_folder(system).map_or_else(|_| none(), |folder| folder.path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::shipped;
    use crate::unique::Twice;

    #[test]
    fn models_are_looked_for_above_the_program_and_then_among_the_users_data() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let places = Whereabouts { program: Some(at("home/bin/espalier")), user_data: Some(at("data/models")) };
        let Err(LocalError::NoModels { tried }) = places.find() else { panic!("there is none") };
        assert_eq!(tried[..3], [PathBuf::from("models"), at("home/bin/models"), at("home/models")]);
        assert_eq!(tried.last(), Some(&at("data/models")));
        let refusal = LocalError::NoModels { tried }.to_string();
        let words = ["./models, ", "data/models; name one with --models", "`espalier pull URL`"];
        assert!(words.iter().all(|words| refusal.contains(words)), "{refusal}");
        for (path, found_by) in [("data/models", FoundBy::UserData), ("home/models", FoundBy::Program)] {
            std::fs::create_dir_all(at(path)).unwrap();
            assert_eq!(places.find().unwrap(), ModelsFolder { path: at(path), found_by });
        }
    }

    #[test]
    fn drafters_are_whole_cut_or_no_model_at_all() {
        let parse = |given| DrafterChoice::parse(given, &shipped());
        assert!(matches!(parse("small").unwrap(), DrafterChoice::Model { layers: None, .. }));
        assert!(matches!(parse("small:3").unwrap(), DrafterChoice::Model { layers: Some(3), .. }));
        assert_eq!(parse("ngram").unwrap(), DrafterChoice::Ngram);
        assert_eq!(
            ["small", "small:3", "ngram"].map(|given| parse(given).unwrap().name()),
            ["small", "small-3", "ngram"]
        );
        for wrong in ["small:0", "small:x", "small:"] {
            assert!(matches!(parse(wrong), Err(LocalError::NoDrafter { .. })), "{wrong}");
        }
        let twice = ["small", "small:3", "small"].map(str::to_owned);
        assert!(DrafterChoice::parse_all(&twice[..2], &shipped()).is_ok());
        assert!(matches!(
            DrafterChoice::parse_all(&twice, &shipped()),
            Err(LocalError::Twice(Twice { what: "drafter", .. }))
        ));
        let refusal = parse("huge").unwrap_err().to_string();
        assert!(refusal.starts_with("there is no checkpoint `huge`"), "{refusal}");
    }

    #[test]
    fn a_drafter_has_the_exits_that_its_folder_names_as_far_as_it_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), r#"{"espalier_exits": [2, 5, 8]}"#).unwrap();
        let exits = |layers| DrafterChoice::Model { folder: folder.path().to_owned(), layers }.exits();
        assert_eq!([None, Some(6), Some(5), Some(1)].map(exits), [3, 3, 2, 1]);
        assert_eq!(DrafterChoice::parse("small:3", &shipped()).unwrap().exits(), 1);
        assert_eq!(DrafterChoice::Ngram.exits(), 1);
    }

    /// The folder of a drafter that says it shares two layers of a target.
    fn sharing(name: &str, fingerprint: &str) -> tempfile::TempDir {
        let target = serde_json::json!({
            "name": name, "fingerprint": fingerprint, "tokenizer": "t", "layers": 8, "hidden_size": 256,
        });
        let config = serde_json::json!({
            "model_type": "espalier_early_exit", "target": target, "shared_layers": 2, "decoder": {},
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        folder
    }

    #[test]
    fn the_target_whose_layers_are_shared_is_known_by_its_fingerprint_or_else_by_its_name() {
        let system = shipped();
        let [small, medium] = ["small", "medium"].map(|name| checkpoint(name, &system).unwrap());
        let targets = [medium.clone(), small.clone()];
        let shared = |drafter: &Path| shared_target(drafter, &targets, &system);
        let renamed = sharing("renamed", &fingerprint(&small).unwrap());
        assert_eq!(shared(renamed.path()).unwrap(), Some(small));
        assert_eq!(shared(sharing("medium", "another").path()).unwrap(), Some(medium));
        assert!(matches!(shared(sharing("gone", "another").path()), Err(LocalError::NoCheckpoint { .. })));
        assert_eq!(shared(&targets[0]).unwrap(), None);
    }
}
