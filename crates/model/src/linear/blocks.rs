//! Panels of weights in blocks.
//!
//! A panel is cut into strips of [`LANES`] outputs, a strip into blocks of one group of inputs each. So a panel is read
//! from front to back.

use super::layout::PANEL;
use crate::arena::{Arena, Slab};
use crate::disjoint::Disjoint;
use crate::error::ModelError;
use crate::kernels::{BlockProduct, GROUP, LANES};
use crate::pool::Pool;

/// How the weights of [`LANES`] outputs for a group of inputs are kept.
pub(super) trait Block {
    /// Bytes of all of them.
    const BYTES: usize;

    /// Rounds up to [`GROUP`] weights of the output in `lane`, zeros being what is missing.
    fn set(block: &mut [u8], lane: usize, weights: &[f32]);

    /// The weight of the output in `lane` for an input, as it was rounded.
    fn get(block: &[u8], lane: usize, input: usize) -> f32;
}

/// Writes the weights of an output, and says whether there is one.
pub(super) type Row<'a> = dyn Fn(usize, &mut [f32]) -> bool + Sync + 'a;

/// A packed matrix.
pub(super) struct BlockPanels<B> {
    slab: Slab<u8>,
    inputs: usize,
    /// Groups of an output's inputs, the last one filled up with zeros.
    groups: usize,
    format: std::marker::PhantomData<B>,
}

impl<B: Block> BlockPanels<B> {
    /// Panels of zeros for so many outputs.
    pub(super) fn new(arena: &mut Arena, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        let groups = inputs.div_ceil(GROUP);
        let strips = outputs.div_ceil(PANEL) * (PANEL / LANES);
        let slab = arena.slab(strips * groups * B::BYTES)?;
        Ok(Self { slab, inputs, groups, format: std::marker::PhantomData })
    }

    /// Bytes of all panels.
    pub(super) fn bytes(&self) -> usize {
        self.slab.as_slice().len()
    }

    /// With the weights of all outputs, rounded.
    pub(super) fn filled(mut self, pool: &mut Pool, row: &Row<'_>) -> Self {
        let len = self.groups * B::BYTES;
        let strips = self.slab.as_slice().len() / len.max(1);
        let blocks = Disjoint::new(self.slab.as_mut_slice());
        pool.run(strips, &|strip| {
            // SAFETY: each strip belongs to one task.
            let blocks = unsafe { blocks.slice(strip * len, len) };
            let mut weights = vec![0.0; self.inputs];
            for lane in 0..LANES {
                if row(strip * LANES + lane, &mut weights) {
                    let groups = blocks.chunks_exact_mut(B::BYTES).zip(weights.chunks(GROUP));
                    groups.for_each(|(block, weights)| B::set(block, lane, weights));
                }
            }
        });
        self
    }

    /// The weights of an output, as they were rounded.
    pub(super) fn row(&self, output: usize, out: &mut [f32]) {
        for (group, out) in out.chunks_mut(GROUP).enumerate() {
            let block = &self.slab.as_slice()[self.block(output, group)..][..B::BYTES];
            out.iter_mut().enumerate().for_each(|(input, out)| *out = B::get(block, output % LANES, input));
        }
    }

    /// Where the block of an output's strip and of a group lies.
    fn block(&self, output: usize, group: usize) -> usize {
        (output / LANES * self.groups + group) * B::BYTES
    }

    /// Rounded rows times a panel, into rows of [`PANEL`].
    pub(super) fn product<X>(&self, panel: usize, x: &RoundedRows<'_, X>, acc: &mut [f32]) -> BlockProduct<X> {
        let (rows, strips) = (x.count, PANEL / LANES);
        let strip_stride = self.groups * B::BYTES;
        let w = &self.slab.as_slice()[panel * strips * strip_stride..][..strips * strip_stride];
        assert!(acc.len() >= rows * PANEL && x.groups.len() == self.groups * x.stride, "rows and sums are whole");
        assert!(x.first + rows <= x.stride, "rows are among those that were rounded");
        BlockProduct {
            x: x.groups[x.first.min(x.groups.len())..].as_ptr(),
            x_stride: x.stride,
            rows,
            groups: self.groups,
            w: w.as_ptr(),
            strip_stride,
            strips,
            acc: acc.as_mut_ptr(),
            acc_stride: PANEL,
            prefetch: true,
        }
    }
}

/// Some of the rows that were rounded together.
pub(super) struct RoundedRows<'a, X> {
    /// Groups of inputs, those of all rows side by side.
    pub(super) groups: &'a [X],
    /// The number of all rows.
    pub(super) stride: usize,
    /// The first one meant.
    pub(super) first: usize,
    /// How many are meant.
    pub(super) count: usize,
}
