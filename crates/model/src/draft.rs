//! The drafters of the papers behind one face: a stack of layers, where rows may leave it, and what it needs of a target.

mod config;
mod folder;
mod kind;
mod model;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::checkpoint::{CONFIG, Checkpoint};
use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::load_options::LoadOptions;
use config::Probe;
pub use config::{DraftConfig, DraftFault, TargetCard};
pub use folder::DraftFolder;
pub use kind::DraftKind;
pub use model::DraftModel;

impl DraftModel {
    /// Loads the drafter in a folder, of whatever kind its `config.json` says it is, or in a GGUF file. `target` is the folder of the model
    /// that it will draft for, as far as it is at hand: an early exit shares its layers, and a drafter that is of use to
    /// one target only is held against it.
    ///
    /// # Errors
    /// Whatever is wrong with the folders; a target that is needed and not given, or not the drafter's own; options that
    /// cut a drafter which cannot be.
    pub fn open(dir: &Path, target: Option<&Path>, options: &LoadOptions) -> Result<Self> {
        Self::open_with_progress(DraftFolder { dir, target }, options, |_, _| {})
    }

    /// [`Self::open`], reporting `(layers packed, layers in all)` as it goes.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_with_progress(
        folder: DraftFolder<'_>,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let dir = folder.dir;
        let text = Checkpoint::describe(dir)?;
        let malformed = |fault| ModelError::Json { path: dir.join(CONFIG), fault };
        let probe: Probe = serde_json::from_str(&text).map_err(malformed)?;
        if !probe.is_of_one_target() {
            let checkpoint = Checkpoint::open(dir)?;
            return Self::load_whole(&checkpoint, probe.exits, options, progress);
        }
        let config = serde_json::from_str(&text).map_err(malformed)?;
        folder.load(config, options, progress)
    }

    /// A model that stands on its own, with several exits or with one.
    fn load_whole(
        checkpoint: &Checkpoint,
        exits: Option<Vec<usize>>,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let kind = if exits.is_some() { DraftKind::Sorted } else { DraftKind::Independent };
        let mut exits = exits.unwrap_or_else(|| vec![checkpoint.config.layers]);
        check_exits(&exits, checkpoint.config.layers)?;
        if let Some(layers) = options.layers {
            exits.retain(|exit| *exit < layers);
            exits.push(layers);
        }
        let options = LoadOptions { layers: exits.last().copied(), ..*options };
        let decoder = Decoder::load_with_progress(checkpoint, &options, progress)?;
        Ok(Self { decoder, kind, exits })
    }
}

fn check_exits(exits: &[usize], layers: usize) -> Result<()> {
    let rises = exits.is_sorted_by(|a, b| a < b) && exits.first().is_some_and(|first| *first > 0);
    if rises && exits.last().is_some_and(|last| *last <= layers) {
        return Ok(());
    }
    Err(ModelError::Exits { exits: exits.to_vec(), layers })
}
