//! Products with keys and values in bf16.
//!
//! Values are added up in groups of [`GROUP`] *positions*, from a multiple of it on, so a row's sum depends on its path
//! alone. A group whose positions fill the slots of the same number is multiplied as a block; values of any other are added
//! up one by one where they lie, in the same order.

use std::ops::Range;

use super::products::{Groups, Products, Summed, Weights};
use crate::kernels::{Bf16Kernels, Bf16Line, BlockProduct, GROUP, LANES, TILE_BYTES, TILE_STRIPS, ValueAt, ValueGroup};
use crate::kv_cache::{BLOCK, GROUPS, Head, Tiles};

/// Products in one order.
pub(super) struct Bf16Products<'a> {
    pub(super) kernels: &'a Bf16Kernels,
    pub(super) buffers: &'a mut Bf16Buffers,
}

/// The queries at hand, rounded, and what is worked on.
#[derive(Default)]
pub(super) struct Bf16Buffers {
    /// Groups of dimensions, those of all queries side by side.
    queries: Vec<Bf16Line>,
    /// How many queries there are.
    count: usize,
    /// Groups of positions, those of all queries side by side.
    weights: Vec<Bf16Line>,
    /// Where the values of a group lie.
    values: Vec<ValueAt>,
}

impl Bf16Products<'_> {
    /// Rounds the weights of groups of positions.
    fn round(&mut self, summed: &Summed<'_>, weights: Weights<'_>, groups: Range<usize>) {
        let rounded = &mut self.buffers.weights;
        rounded.clear();
        for group in groups {
            let positions = summed.group(group);
            for query in 0..weights.queries {
                let at = rounded.len();
                rounded.resize(at + self.kernels.lines, Bf16Line::ZERO);
                self.kernels.round(&weights.elements[query * weights.stride..][positions.clone()], &mut rounded[at..]);
            }
        }
    }

    /// Adds the values at `w` times the weights that were rounded last.
    fn product(&self, values: &Values, queries: usize, sums: &mut [f32]) {
        let (weights, stride) = (&self.buffers.weights, values.strips * LANES);
        assert!(
            sums.len() >= queries * stride && weights.len() == queries * values.groups * self.kernels.lines,
            "all that is read"
        );
        // SAFETY: `values` are valid; lengths are checked above.
        unsafe {
            self.kernels.product(BlockProduct {
                x: weights.as_ptr(),
                x_stride: queries,
                rows: queries,
                groups: values.groups,
                w: values.start,
                strip_stride: values.strip_stride,
                strips: values.strips,
                acc: sums.as_mut_ptr(),
                acc_stride: stride,
                onto_zeros: false,
                prefetch: false,
            });
        }
    }

    /// Adds the values of a group of positions.
    fn add_one_by_one(&mut self, summed: &Summed<'_>, weights: Weights<'_>, group: usize, sums: &mut [f32]) {
        let positions = summed.group(group);
        let acc_stride = Tiles::value_strips(summed.head_dim) * LANES;
        let weighed = &weights.elements[positions.start..];
        assert!(weighed.len() >= (weights.queries - 1) * weights.stride + positions.len(), "weights of all queries");
        assert!(sums.len() >= weights.queries * acc_stride, "sums of all queries");
        let values = &mut self.buffers.values;
        values.clear();
        values.extend(summed.slots(&positions).map(|slot| Tiles::value_of(summed.head(slot / BLOCK), slot % BLOCK)));
        assert!(values.len() == positions.len(), "a value for each position");
        // SAFETY: the values lie in blocks, which nobody writes while a layer attends; lengths are checked above.
        unsafe {
            self.kernels.add_values(&ValueGroup {
                values,
                weights: weighed.as_ptr(),
                weights_stride: weights.stride,
                queries: weights.queries,
                strips: summed.head_dim.div_ceil(LANES),
                strip_stride: Tiles::value_strip(),
                acc: sums.as_mut_ptr(),
                acc_stride,
            });
        }
    }
}

/// Values as the kernel takes them: `strips` of dimensions, `strip_stride` bytes apart, each of `groups` of positions.
struct Values {
    start: *const u8,
    groups: usize,
    strips: usize,
    strip_stride: usize,
}

impl Products for Bf16Products<'_> {
    const QUERIES: usize = 16;
    const POSITIONS: usize = GROUP;

    fn sum_stride(head_dim: usize) -> usize {
        Tiles::value_strips(head_dim) * LANES
    }

    fn take(&mut self, queries: &[f32], head_dim: usize) {
        let (groups, lines, count) = (Tiles::key_groups(head_dim), self.kernels.lines, queries.len() / head_dim);
        let rounded = &mut self.buffers.queries;
        self.buffers.count = count;
        rounded.clear();
        rounded.resize(groups * count * lines, Bf16Line::ZERO);
        for (query, values) in queries.chunks_exact(head_dim).enumerate() {
            for (group, values) in values.chunks(GROUP).enumerate() {
                self.kernels.round(values, &mut rounded[(group * count + query) * lines..][..lines]);
            }
        }
    }

    unsafe fn score(&self, head: Head, filled: usize, scores: *mut f32, stride: usize) {
        let (groups, count) = (Tiles::key_groups(head.dim), self.buffers.count);
        // SAFETY: a block's keys are strips of so many groups; the scores are the caller's promise.
        unsafe {
            self.kernels.product(BlockProduct {
                x: self.buffers.queries.as_ptr(),
                x_stride: count,
                rows: count,
                groups,
                w: head.keys,
                strip_stride: groups * TILE_BYTES,
                strips: filled.div_ceil(LANES).next_multiple_of(TILE_STRIPS),
                acc: scores,
                acc_stride: stride,
                onto_zeros: true,
                prefetch: false,
            });
        }
    }

    fn add(&mut self, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]) {
        let strips = Tiles::value_strips(summed.head_dim);
        for groups in summed.groups(false) {
            match groups {
                Groups::InPlace(groups) => {
                    let head = summed.head(groups.start / GROUPS);
                    let start = head.values.cast_const().wrapping_add(groups.start % GROUPS * TILE_BYTES);
                    let values = Values { start, groups: groups.len(), strips, strip_stride: GROUPS * TILE_BYTES };
                    self.round(summed, weights, groups);
                    self.product(&values, weights.queries, sums);
                }
                Groups::Apart(group) => self.add_one_by_one(summed, weights, group, sums),
            }
        }
    }
}
