//! Where checkpoints are.

use std::path::{Path, PathBuf};

use espalier_drafter::Config as DrafterConfig;

use crate::args::SystemArgs;
use crate::error::CliError;

/// Who drafts unless told otherwise.
pub(crate) const DEFAULT_DRAFTER: &str = "small";

/// The folder name that holds checkpoints.
const MODELS: &str = "models";

/// Who proposes trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DrafterChoice {
    /// A checkpoint, cut to its first layers or whole.
    Model { folder: PathBuf, layers: Option<usize> },
    /// The text itself.
    Ngram,
    /// Nobody.
    None,
}

impl DrafterChoice {
    /// Reads `NAME`, `NAME:LAYERS`, `ngram` or `none`.
    pub(crate) fn parse(given: &str, system: &SystemArgs) -> Result<Self, CliError> {
        match given {
            "ngram" => return Ok(Self::Ngram),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let Some((name, layers)) = given.rsplit_once(':') else {
            return Ok(Self::Model { folder: checkpoint(given, system)?, layers: None });
        };
        let layers = layers.parse().ok().filter(|&layers: &usize| layers > 0);
        let layers = layers.ok_or_else(|| CliError::Drafter { given: given.to_owned() })?;
        Ok(Self::Model { folder: checkpoint(name, system)?, layers: Some(layers) })
    }

    /// How requests name it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Model { folder, layers } => DrafterConfig::default_name(folder, *layers),
            Self::Ngram => "ngram".to_owned(),
            Self::None => "none".to_owned(),
        }
    }
}

/// The folder of the checkpoint `name`: one of the folder of models, or a path.
pub(crate) fn checkpoint(name: &str, system: &SystemArgs) -> Result<PathBuf, CliError> {
    let path = Path::new(name);
    if path.join("config.json").is_file() {
        // A name for `.` and `..` too.
        return path.canonicalize().map_err(|source| CliError::Read { path: path.to_owned(), source });
    }
    let tried = folder(system)?.join(name);
    if tried.join("config.json").is_file() {
        return Ok(tried);
    }
    Err(CliError::NoCheckpoint { name: name.to_owned(), tried })
}

/// The folder of models: as told, in the working directory, or beside the program or above it.
fn folder(system: &SystemArgs) -> Result<PathBuf, CliError> {
    if let Some(models) = &system.models {
        return Ok(models.clone());
    }
    let program = std::env::current_exe().unwrap_or_default();
    let here = std::iter::once(PathBuf::from(MODELS));
    let mut places = here.chain(program.ancestors().skip(1).map(|folder| folder.join(MODELS)));
    places.find(|place| place.is_dir()).ok_or(CliError::NoModels)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shipped() -> SystemArgs {
        let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models");
        SystemArgs { models: Some(models), threads: None }
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
            assert!(matches!(parse(wrong), Err(CliError::Drafter { .. })), "{wrong}");
        }
        let refusal = parse("huge").unwrap_err().to_string();
        assert!(refusal.starts_with("there is no checkpoint `huge`"), "{refusal}");
    }
}
