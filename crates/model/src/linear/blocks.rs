//! Panels of weights in blocks.
//!
//! A panel is cut into strips of outputs, a strip into blocks of one group of inputs each. So a panel is read from front to
//! back.

use std::mem::MaybeUninit;

use super::layout::PANEL;
use super::stored_rows::StoredRows;
use crate::arena::{Arena, Slab};
use crate::disjoint::Disjoint;
use crate::error::ModelError;
use crate::kernels::{BlockProduct, GROUP};
use crate::pool::Pool;
use crate::raw_matrix::{PIECE, Piece};

/// How the weights of some outputs for a group of inputs are kept.
pub(super) trait Block {
    /// Outputs of a block.
    const OUTPUTS: usize;
    /// Bytes of all their weights.
    const BYTES: usize;

    /// Keeps the weights of the output in `lane`, those of one block after the other, as they are stored. Says whether it
    /// can: if not, nothing is written.
    fn keep(_blocks: &mut [u8], _lane: usize, _stored: Piece<'_>) -> bool {
        false
    }

    /// Rounds up to [`GROUP`] weights of the output in `lane`, zeros being what is missing.
    fn set(block: &mut [u8], lane: usize, weights: &[f32]);

    /// The weight of the output in `lane` for an input, as it was rounded.
    fn get(block: &[u8], lane: usize, input: usize) -> f32;
}

/// A packed matrix.
pub(super) struct BlockPanels<B> {
    slab: Slab<u8>,
    /// Groups of an output's inputs, the last one filled up with zeros.
    groups: usize,
    format: std::marker::PhantomData<B>,
}

impl<B: Block> BlockPanels<B> {
    /// Panels of zeros for so many outputs.
    pub(super) fn new(arena: &mut Arena, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        let groups = inputs.div_ceil(GROUP);
        let strips = outputs.div_ceil(PANEL) * (PANEL / B::OUTPUTS);
        let slab = arena.slab(strips * groups * B::BYTES)?;
        Ok(Self { slab, groups, format: std::marker::PhantomData })
    }

    /// Bytes of all panels.
    pub(super) fn bytes(&self) -> usize {
        self.slab.as_slice().len()
    }

    /// With the weights of all outputs, as they are stored or rounded.
    pub(super) fn filled(mut self, pool: &mut Pool, rows: &StoredRows<'_>) -> Self {
        let len = self.groups * B::BYTES;
        let strips = self.slab.as_slice().len() / len.max(1);
        let blocks = Disjoint::new(self.slab.as_mut_slice());
        pool.run(strips, &|strip| {
            // SAFETY: each strip belongs to one task.
            let blocks = unsafe { blocks.slice(strip * len, len) };
            for (at, blocks) in blocks.chunks_mut(PIECE / GROUP * B::BYTES).enumerate() {
                for lane in 0..B::OUTPUTS {
                    if let Some(stored) = rows.piece(strip * B::OUTPUTS + lane, at * PIECE) {
                        put::<B>(blocks, lane, stored);
                    }
                }
            }
        });
        self
    }

    /// The weights of an output, as they were rounded.
    pub(super) fn row(&self, output: usize, out: &mut [f32]) {
        for (group, out) in out.chunks_mut(GROUP).enumerate() {
            let block = &self.slab.as_slice()[self.block(output, group)..][..B::BYTES];
            out.iter_mut().enumerate().for_each(|(input, out)| *out = B::get(block, output % B::OUTPUTS, input));
        }
    }

    /// Where the block of an output's strip and of a group lies.
    fn block(&self, output: usize, group: usize) -> usize {
        (output / B::OUTPUTS * self.groups + group) * B::BYTES
    }

    /// Rounded rows times a panel, into rows of [`PANEL`].
    pub(super) fn product<X>(
        &self,
        panel: usize,
        x: &RoundedRows<'_, X>,
        acc: &mut [MaybeUninit<f32>],
    ) -> BlockProduct<X> {
        let (rows, strips) = (x.count, PANEL / B::OUTPUTS);
        let strip_stride = self.groups * B::BYTES;
        let w = &self.slab.as_slice()[panel * strips * strip_stride..][..strips * strip_stride];
        assert!(
            acc.len() >= rows * PANEL && x.groups.len() == self.groups * x.stride * x.lines,
            "rows and sums are whole"
        );
        assert!(x.first + rows <= x.stride, "rows are among those that were rounded");
        BlockProduct {
            x: x.groups[(x.first * x.lines).min(x.groups.len())..].as_ptr(),
            x_stride: x.stride,
            rows,
            groups: self.groups,
            w: w.as_ptr(),
            strip_stride,
            strips,
            acc: acc.as_mut_ptr().cast(),
            acc_stride: PANEL,
            onto_zeros: true,
            prefetch: true,
        }
    }
}

/// Puts weights of the output in `lane` into blocks.
fn put<B: Block>(blocks: &mut [u8], lane: usize, stored: Piece<'_>) {
    if !B::keep(blocks, lane, stored) {
        let mut weights = [0.0; PIECE];
        let groups = stored.read(&mut weights).chunks(GROUP);
        blocks.chunks_exact_mut(B::BYTES).zip(groups).for_each(|(block, weights)| B::set(block, lane, weights));
    }
}

/// Some of the rows that were rounded together.
pub(super) struct RoundedRows<'a, X> {
    /// Groups of inputs, those of all rows side by side.
    pub(super) groups: &'a [X],
    /// Elements of a group.
    pub(super) lines: usize,
    /// Rows from a group to the next one: all of them, and places between.
    pub(super) stride: usize,
    /// The first one meant.
    pub(super) first: usize,
    /// How many are meant.
    pub(super) count: usize,
}
