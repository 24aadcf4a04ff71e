//! A checkpoint as a user brings it.

use std::path::{Path, PathBuf};

use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::files::{read_text, required};
use crate::gguf::GgufModel;
use crate::inventory::{Listed, inventory};
use crate::names::Names;
use crate::source::Source;
use crate::weights::Weights;

pub(crate) const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// A folder in Hugging Face format or a GGUF file, whose configuration has been read and checked.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The folder or the file.
    pub path: PathBuf,
    /// Its configuration.
    pub config: ModelConfig,
}

impl Checkpoint {
    /// Reads the metadata of a GGUF file; or else `config.json`, and `generation_config.json` where there is one. The
    /// weights are not touched yet.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let config = match Source::of(&path)? {
            Source::Folder(folder) => folder_config(&folder, &read_config(&folder)?)?,
            Source::Gguf(file) => GgufModel::open(&file)?.config()?,
        };
        Ok(Self { path, config })
    }

    /// The text of a folder's `config.json`, or what it would be for a GGUF file, without any check of what it says.
    pub fn describe(path: &Path) -> Result<String> {
        match Source::of(path)? {
            Source::Folder(folder) => read_config(&folder),
            Source::Gguf(file) => GgufModel::open(&file)?.describe(),
        }
    }

    /// Whether something at `path` calls itself a model: a GGUF file, or a folder with a `config.json`.
    pub fn is_at(path: &Path) -> bool {
        // What is wrong with a folder is said when it is opened.
        path.join(CONFIG).is_file() || !matches!(espalier_gguf::find(path), Ok(None))
    }

    /// A folder whose model is described by this text.
    pub(crate) fn of_config(folder: PathBuf, config: &str) -> Result<Self> {
        let config = folder_config(&folder, config)?;
        Ok(Self { path: folder, config })
    }

    /// Opens the weights.
    pub fn weights(&self) -> Result<Weights> {
        Weights::open(&self.path)
    }

    /// Checks that the files of weights are whole, and hold every tensor that the configuration asks for, in its shape. Matrices
    /// are not read for it.
    ///
    /// # Errors
    /// The first file that is missing or cut short, or the first tensor that is missing or of another shape.
    pub fn check_weights(&self) -> Result<()> {
        let weights = self.weights()?;
        for Listed { name, shape, .. } in inventory(&self.config, Names::of(self.config.family)) {
            match shape[..] {
                [outputs, inputs] => drop(weights.matrix(&name, [outputs, inputs])?),
                _ => drop(weights.tensor(&name, &shape)?),
            }
        }
        Ok(())
    }

    /// The name of the folder, or of the file without `.gguf`, for messages.
    pub fn name(&self) -> &str {
        espalier_gguf::model_name(&self.path).unwrap_or("model")
    }
}

impl AsRef<Path> for Checkpoint {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

fn read_config(folder: &Path) -> Result<String> {
    required(read_text(&folder.join(CONFIG), CONFIG_BYTES_MAX)?, folder, CONFIG)
}

fn folder_config(folder: &Path, config: &str) -> Result<ModelConfig> {
    let generation = read_text(&folder.join(GENERATION), CONFIG_BYTES_MAX)?;
    let config = ModelConfig::parse(config, generation.as_deref());
    config.map_err(|fault| ModelError::Config { path: folder.join(CONFIG), fault })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn golden(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
    }

    #[test]
    fn whole_checkpoints_are_found_to_be_whole_and_others_are_told_by_what_is_missing() {
        for name in ["gpt-neox", "llama3-rope-scaling", "qwen3"] {
            Checkpoint::open(golden(name)).unwrap().check_weights().unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = |file: &str| fs::copy(golden("qwen3").join(file), folder.path().join(file)).unwrap();
        copy(CONFIG);
        let fault = || Checkpoint::open(folder.path()).unwrap().check_weights().unwrap_err();
        assert!(matches!(fault(), ModelError::MissingFile { .. }));
        let bytes = copy("model.safetensors");
        let weights = folder.path().join("model.safetensors");
        fs::OpenOptions::new().write(true).open(&weights).unwrap().set_len(bytes - 1).unwrap();
        assert!(matches!(fault(), ModelError::Truncated { .. }));
        copy("model.safetensors");
        let text = fs::read_to_string(golden("qwen3").join(CONFIG)).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["num_hidden_layers"] = serde_json::Value::from(99);
        config.as_object_mut().unwrap().remove("layer_types");
        fs::write(folder.path().join(CONFIG), config.to_string()).unwrap();
        let missing = fault();
        assert!(matches!(missing, ModelError::MissingTensor { .. }), "{missing}");
    }
}
