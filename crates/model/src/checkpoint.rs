//! A checkpoint as a user brings it.

use std::path::{Path, PathBuf};

use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::files::{read_text, required};
use crate::gguf::GgufModel;
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
