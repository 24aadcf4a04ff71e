//! The drafters of the papers behind one face: a stack of layers, where rows may leave it, and what it needs of a target.

mod config;
mod folder;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::checkpoint::{CONFIG, Checkpoint};
use crate::decoder::{Decoder, LoadOptions};
use crate::error::{ModelError, Result};
use crate::exits::AtExit;
use crate::forward::{Depth, Output, Segment, Workspace};
use config::Probe;
pub use config::{DraftConfig, DraftFault, TargetCard};
use folder::Folder;

/// What a drafter is, and what it needs of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftKind {
    /// Any model of the target's vocabulary.
    Independent,
    /// A model with several exits (S2D), for any target of its vocabulary.
    Sorted,
    /// One layer over the target's hidden states: committed positions are known by [`Decoder::append_states`], by them
    /// alone or beside their tokens; the root and what is drafted below it by their tokens.
    Edd {
        /// Its only target.
        target: TargetCard,
        /// The layer of the target, counted from 1, after which the hidden states are read.
        tapped_layer: usize,
        /// Whether it reads the tokens of committed positions too.
        tokens_beside_states: bool,
    },
    /// One layer on top of the target's first ones, run over tokens.
    EarlyExit {
        /// Its only target.
        target: TargetCard,
        /// Layers that are the target's own.
        shared_layers: usize,
    },
}

impl DraftKind {
    /// The name of the kind: `independent`, `sorted`, `edd` or `early-exit`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Sorted => "sorted",
            Self::Edd { .. } => "edd",
            Self::EarlyExit { .. } => "early-exit",
        }
    }

    /// The only target that it serves; none if it serves any of its vocabulary.
    pub fn target(&self) -> Option<&TargetCard> {
        match self {
            Self::Independent | Self::Sorted => None,
            Self::Edd { target, .. } | Self::EarlyExit { target, .. } => Some(target),
        }
    }

    /// The layer of the target, counted from 1, whose hidden states it reads; none if it reads tokens alone.
    pub fn tapped_layer(&self) -> Option<usize> {
        match self {
            Self::Edd { tapped_layer, .. } => Some(*tapped_layer),
            _ => None,
        }
    }
}

/// A drafter ready to run.
pub struct DraftModel {
    decoder: Decoder,
    kind: DraftKind,
    /// Layers, counted from 1 and rising, after which rows may leave; the last is the decoder's last.
    exits: Vec<usize>,
}

impl DraftModel {
    /// Loads the drafter in a folder, of whatever kind its `config.json` says it is. `target` is the folder of the model
    /// that it will draft for, as far as it is at hand: an early exit shares its layers, and a drafter that is of use to
    /// one target only is held against it.
    ///
    /// # Errors
    /// Whatever is wrong with the folders; a target that is needed and not given, or not the drafter's own; options that
    /// cut a drafter which cannot be.
    pub fn open(dir: &Path, target: Option<&Path>, options: &LoadOptions) -> Result<Self> {
        Self::open_with_progress((dir, target), options, |_, _| {})
    }

    /// [`Self::open`] with the folders of drafter and target, reporting `(layers packed, layers in all)` as it goes.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_with_progress(
        (dir, target): (&Path, Option<&Path>),
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let text = Checkpoint::read_config(dir)?;
        let malformed = |fault| ModelError::Json { path: dir.join(CONFIG), fault };
        let probe: Probe = serde_json::from_str(&text).map_err(malformed)?;
        if !probe.is_of_one_target() {
            let checkpoint = Checkpoint::of_config(dir.to_owned(), &text)?;
            return Self::load_whole(&checkpoint, probe.exits, options, progress);
        }
        let config = serde_json::from_str(&text).map_err(malformed)?;
        Folder { dir, target }.load(config, options, progress)
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

    /// What it is.
    pub fn kind(&self) -> &DraftKind {
        &self.kind
    }

    /// The model itself: caches come from here.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The model without what is known of it.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }

    /// The layers, counted from 1 and rising, after which rows may leave: at least one.
    pub fn exits(&self) -> &[usize] {
        &self.exits
    }

    /// Runs rows and appends them to their caches' tails. Where there are several exits, rows that want logits run on from
    /// one to the next as long as `goes_on` says so; see [`Decoder::forward_exits`]. Tap 0 is the residual stream where
    /// each row that wanted logits left.
    ///
    /// # Errors
    /// As for [`Decoder::forward`].
    pub fn forward<'w>(
        &self,
        work: &'w mut Workspace,
        segments: &mut [Segment<'_>],
        goes_on: impl FnMut(AtExit<'_>) -> bool,
    ) -> Result<Output<'w>> {
        match &self.exits[..] {
            [_] => self.decoder.forward(work, segments, Depth { exit_after: None, taps: &self.exits }),
            exits => self.decoder.forward_exits(work, segments, exits, goes_on),
        }
    }
}

fn check_exits(exits: &[usize], layers: usize) -> Result<()> {
    let rises = exits.is_sorted_by(|a, b| a < b) && exits.first().is_some_and(|first| *first > 0);
    if rises && exits.last().is_some_and(|last| *last <= layers) {
        return Ok(());
    }
    Err(ModelError::Exits { exits: exits.to_vec(), layers })
}
