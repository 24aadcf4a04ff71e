//! One forward pass over rows of many sequences.
//!
//! Every row is computed by the same operations in the same order however many share the pass, so its logits are the
//! same bits alone, in a tree, or in a batch.

use std::time::Duration;

use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::pass::{Pass, Placed, RowsInLayer, sized};
use crate::rows::{Depth, ROWS_MAX, Segment};
use crate::workspace::{Buffers, Workspace};

/// Where a segment begins in a pass.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// Its first row among those that want logits.
    pub(crate) logits: usize,
    /// Its first row among all.
    pub(crate) row: usize,
}

/// The result of a forward pass, borrowed from its workspace.
pub struct Output<'w> {
    vocab: usize,
    hidden: usize,
    /// Of each segment.
    starts: Vec<Start>,
    logits: &'w [f32],
    taps: &'w [Vec<f32>],
    waited: Duration,
}

impl Workspace {
    /// What a pass of `decoder` left behind.
    pub(crate) fn output(&self, decoder: &Decoder, starts: Vec<Start>, taps: usize) -> Output<'_> {
        let Buffers { logits, taps: tapped, .. } = &self.buffers;
        let ModelConfig { vocab, hidden, .. } = *decoder.config();
        Output { vocab, hidden, starts, logits, taps: &tapped[..taps], waited: self.waited }
    }
}

impl Output<'_> {
    /// How long the pass waited while its team computed for others.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Logits (vocab) of the `row`-th row of `segment` that wanted some.
    pub fn logits(&self, segment: usize, row: usize) -> &[f32] {
        &self.logits[(self.starts[segment].logits + row) * self.vocab..][..self.vocab]
    }

    /// The residual stream (hidden) of `row` of `segment` after the layer that `tap` names: an index into
    /// [`Depth::taps`].
    pub fn tap(&self, tap: usize, segment: usize, row: usize) -> &[f32] {
        &self.taps[tap][(self.starts[segment].row + row) * self.hidden..][..self.hidden]
    }
}

impl Decoder {
    /// Runs the rows of all segments and appends them to their caches' tails.
    ///
    /// # Errors
    /// [`ModelError`] for a token outside the vocabulary, an unknown parent, one that left at an earlier exit, a full
    /// context, too many rows or layers. Tails may then hold rows that were not run: roll them back.
    pub fn forward<'w>(
        &self,
        work: &'w mut Workspace,
        segments: &mut [Segment<'_>],
        depth: Depth<'_>,
    ) -> Result<Output<'w>> {
        check_rows(segments.iter().map(|segment| segment.rows.len()).sum())?;
        let layers = depth.exit_after.unwrap_or(self.layers());
        depth.taps.iter().chain([&layers]).try_for_each(|&asked| self.check_layer(asked))?;
        let mut pass = Pass::new(self, work);
        let placed = pass.embed(segments, layers)?;
        let taps = &mut pass.buffers.taps;
        taps.resize_with(depth.taps.len().max(taps.len()), Vec::new);
        for i in 0..layers {
            if i + 1 < layers || depth.taps.contains(&layers) {
                pass.layer(i, segments, &placed);
            } else {
                pass.last_layer(i, segments, &placed);
            }
            for (tap, _) in depth.taps.iter().enumerate().filter(|(_, after)| **after == i + 1) {
                pass.buffers.taps[tap].clone_from(&pass.buffers.x);
            }
        }
        for (segment, placed) in segments.iter_mut().zip(&placed) {
            placed.slots().for_each(|slot| segment.cache.advance(slot, layers, &[]));
        }
        if depth.taps.contains(&layers) {
            pass.keep_wanting(segments, &placed);
        }
        let starts = pass.answer(segments, &placed);
        drop(pass);
        Ok(work.output(self, starts, depth.taps.len()))
    }

    /// Refuses a layer, counted from 1, that there is not.
    pub(crate) fn check_layer(&self, asked: usize) -> Result<()> {
        let available = self.layers();
        if (1..=available).contains(&asked) { Ok(()) } else { Err(ModelError::Layers { asked, available }) }
    }
}

/// Refuses a number of rows that one pass does not run.
pub(crate) fn check_rows(rows: usize) -> Result<()> {
    match rows {
        0 => Err(ModelError::NoTokens),
        1..=ROWS_MAX => Ok(()),
        _ => Err(ModelError::Rows { rows, limit: ROWS_MAX }),
    }
}

impl Pass<'_> {
    /// Appends the rows to the caches and embeds them. Those that they follow must have been through `layers`.
    fn embed(&mut self, segments: &mut [Segment<'_>], layers: usize) -> Result<Vec<Placed>> {
        let hidden = self.decoder.config().hidden;
        let total: usize = segments.iter().map(|segment| segment.rows.len()).sum();
        sized(&mut self.buffers.x, total * hidden);
        let mut placed = Vec::with_capacity(segments.len());
        let mut first_row = 0;
        for Segment { cache, rows, .. } in segments {
            let first = cache.slots();
            cache.append(rows.iter().map(|row| (row.parent, Some(row.token))))?;
            let x = self.buffers.x[first_row * hidden..].chunks_exact_mut(hidden);
            rows.iter().zip(x).try_for_each(|(row, x)| self.decoder.embed(row.token, x))?;
            let new = first..cache.slots();
            cache.check_ancestors(new.clone(), layers)?;
            placed.push(Placed::new(cache, new, first_row));
            first_row += rows.len();
        }
        self.rotations(&placed);
        Ok(placed)
    }

    /// Runs the last layer for the rows that want logits, which then are the residual stream; of all others only as much
    /// as other rows can see.
    fn last_layer(&mut self, index: usize, segments: &mut [Segment<'_>], placed: &[Placed]) {
        if segments.iter().all(|segment| segment.logits.wanted(segment.rows.len()) == segment.rows.len()) {
            return self.layer(index, segments, placed);
        }
        let layer = &self.decoder.layers[index];
        let caches: Vec<_> = segments.iter_mut().map(|segment| segment.cache.layer(index)).collect();
        self.keys_and_values(layer, &layer.input, RowsInLayer { caches: &caches, placed });
        let wanting = self.keep_wanting(segments, placed);
        if !self.buffers.x.is_empty() {
            self.rotations(&wanting);
            self.layer(index, segments, &wanting);
        }
    }

    /// Makes the rows that want logits the residual stream, and says where they stand.
    fn keep_wanting(&mut self, segments: &[Segment<'_>], placed: &[Placed]) -> Vec<Placed> {
        let hidden = self.decoder.config().hidden;
        let x = &mut self.buffers.x;
        let (mut wanting, mut kept) = (Vec::with_capacity(placed.len()), 0);
        for (segment, placed) in segments.iter().zip(placed) {
            let wanted = segment.logits.wanted(placed.rows());
            // They are the last ones that the cache has.
            let (end, slots) = (placed.first_row + placed.rows(), segment.cache.slots());
            wanting.push(Placed::new(segment.cache, slots - wanted..slots, kept));
            x.copy_within((end - wanted) * hidden..end * hidden, kept * hidden);
            kept += wanted;
        }
        x.truncate(kept * hidden);
        wanting
    }

    /// The logits of the residual stream; returns where each segment's rows begin among those that want some and among all.
    fn answer(&mut self, segments: &[Segment<'_>], placed: &[Placed]) -> Vec<Start> {
        let hidden = self.decoder.config().hidden;
        let Buffers { x, normed, .. } = &mut *self.buffers;
        normed.clear();
        x.chunks_exact(hidden).for_each(|x| self.decoder.final_norm.append(self.kernels, x, normed));
        let rows: Vec<usize> = (0..normed.len() / hidden).collect();
        sized(&mut self.buffers.logits, rows.len() * self.decoder.config().vocab);
        self.head(&rows);
        let mut answers = 0;
        let start = |(segment, placed): (&Segment<'_>, &Placed)| {
            let start = Start { logits: answers, row: placed.first_row };
            answers += segment.logits.wanted(placed.rows());
            start
        };
        segments.iter().zip(placed).map(start).collect()
    }
}
