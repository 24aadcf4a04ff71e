//! A GGUF file that is a whole model.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use espalier_gguf::GgufFile;

use super::architecture::Architecture;
use super::config::describe;
use super::fault::GgufFault;
use super::keys::Keys;
use super::places::places;
use super::rope::FREQUENCY_FACTORS;
use crate::config::ModelConfig;
use crate::error::{ModelError, Result};

/// A GGUF file whose header has been read.
#[derive(Debug)]
pub(crate) struct GgufModel {
    file: Arc<GgufFile>,
    architecture: Architecture,
}

impl GgufModel {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = Arc::new(GgufFile::open(path)?);
        let architecture = architecture(&file).map_err(|fault| refusal(&file, fault))?;
        Ok(Self { file, architecture })
    }

    pub(super) fn file(&self) -> &Arc<GgufFile> {
        &self.file
    }

    /// What `config.json` would say of the model.
    pub(crate) fn describe(&self) -> Result<String> {
        let keys = Keys { metadata: self.file.metadata(), architecture: self.architecture };
        let config = describe(&keys, &self.file).map_err(|fault| refusal(&self.file, fault))?;
        Ok(config.to_string())
    }

    /// The model's configuration, after a check that nothing in the file would be left out.
    pub(crate) fn config(&self) -> Result<ModelConfig> {
        let config = ModelConfig::parse(&self.describe()?, None);
        let config = config.map_err(|fault| ModelError::Config { path: self.file.path().to_owned(), fault })?;
        self.check_tensors(&config)?;
        Ok(config)
    }

    fn check_tensors(&self, config: &ModelConfig) -> Result<()> {
        let known: HashSet<String> = places(config).into_iter().map(|place| place.name).collect();
        let stray = |name: &str| name != FREQUENCY_FACTORS && !known.contains(name);
        match self.file.header().tensors().find(|(name, _)| stray(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let (name, architecture) = (name.to_owned(), self.architecture.name());
                Err(refusal(&self.file, GgufFault::StrayTensor { name, architecture }))
            }
        }
    }
}

/// The architecture of a file that is a whole model.
fn architecture(file: &GgufFile) -> Result<Architecture, GgufFault> {
    match file.metadata().optional("split.count")? {
        Some(files) if files > 1 => Err(GgufFault::Split { files }),
        _ => Architecture::parse(file.metadata().required("general.architecture")?),
    }
}

fn refusal(file: &GgufFile, fault: GgufFault) -> ModelError {
    ModelError::Gguf { path: file.path().to_owned(), fault: Box::new(fault) }
}
