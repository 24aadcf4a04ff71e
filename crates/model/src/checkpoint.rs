//! A checkpoint folder as a user brings it.

use std::path::{Path, PathBuf};

use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::files::{read_text, required};
use crate::weights::Weights;

pub(crate) const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// A folder in Hugging Face format whose configuration has been read and checked.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The folder.
    pub dir: PathBuf,
    /// Its configuration.
    pub config: ModelConfig,
}

impl Checkpoint {
    /// Reads `config.json`, and `generation_config.json` where there is one. The weights are not touched yet.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        let config = Self::read_config(&dir)?;
        Self::of_config(dir, &config)
    }

    /// The text of a folder's `config.json`.
    pub(crate) fn read_config(dir: &Path) -> Result<String> {
        required(read_text(&dir.join(CONFIG), CONFIG_BYTES_MAX)?, dir, CONFIG)
    }

    /// A folder whose model is described by this text.
    pub(crate) fn of_config(dir: PathBuf, config: &str) -> Result<Self> {
        let generation = read_text(&dir.join(GENERATION), CONFIG_BYTES_MAX)?;
        let config = ModelConfig::parse(config, generation.as_deref());
        let config = config.map_err(|fault| ModelError::Config { path: dir.join(CONFIG), fault })?;
        Ok(Self { dir, config })
    }

    /// Opens the weights.
    pub fn weights(&self) -> Result<Weights> {
        Weights::open(&self.dir)
    }

    /// The name of the folder, for messages.
    pub fn name(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or("model")
    }
}

impl AsRef<Path> for Checkpoint {
    fn as_ref(&self) -> &Path {
        &self.dir
    }
}
