//! A drafter that runs.

use super::kind::DraftKind;
use crate::decoder::Decoder;
use crate::error::Result;
use crate::exits::AtExit;
use crate::forward::Output;
use crate::rows::{Asked, Segment};
use crate::workspace::Workspace;

/// A drafter ready to run.
pub struct DraftModel {
    pub(super) decoder: Decoder,
    pub(super) kind: DraftKind,
    /// Layers, counted from 1 and rising, after which rows may leave; the last is the decoder's last.
    pub(super) exits: Vec<usize>,
}

impl DraftModel {
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
            [_] => self.decoder.forward(work, segments, Asked { taps: &self.exits, ..Asked::default() }),
            exits => self.decoder.forward_exits(work, segments, exits, goes_on),
        }
    }
}
