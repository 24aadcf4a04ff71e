//! Products with keys and values in bf16, in the order of a matrix unit.
//!
//! Values are added up in groups of [`GROUP`] *positions*, from a multiple of it on, so a row's sum depends on its path
//! alone. A group whose positions fill the slots of the same number is multiplied as a tile; values of any other are added
//! up one by one where they lie, in the same order.

use std::ops::Range;

use super::products::{Groups, Products, Summed, Weights};
use crate::kernels::{Bf16Line, BlockProduct, GROUP, Kernels, LANES, TILE_BYTES, ValueGroup, ValueRun};
use crate::kv_cache::{BLOCK, GROUPS, Head, Tiles};

/// The queries at hand, rounded, and what is worked on.
#[derive(Default)]
pub(super) struct TileProducts {
    /// Groups of dimensions, those of all queries side by side.
    queries: Vec<Bf16Line>,
    /// How many queries there are.
    count: usize,
    /// Groups of positions, those of all queries side by side.
    weights: Vec<Bf16Line>,
    runs: Vec<ValueRun>,
}

impl TileProducts {
    /// Rounds the weights of groups of positions.
    fn round(&mut self, kernels: &Kernels, summed: &Summed<'_>, weights: Weights<'_>, groups: Range<usize>) {
        self.weights.clear();
        for group in groups {
            let positions = summed.group(group);
            for query in 0..weights.queries {
                let rounded = self.weights.len();
                self.weights.resize(rounded + kernels.tile_lines, Bf16Line::ZERO);
                let elements = &weights.elements[query * weights.stride..][positions.clone()];
                kernels.round_for_tiles(elements, &mut self.weights[rounded..]);
            }
        }
    }

    /// Adds the values at `w` times the weights that were rounded last.
    fn product(&self, kernels: &Kernels, values: &Values, queries: usize, sums: &mut [f32]) {
        let stride = values.strips * LANES;
        assert!(
            sums.len() >= queries * stride && self.weights.len() == queries * values.groups * kernels.tile_lines,
            "all that is read"
        );
        // SAFETY: `values` are valid; lengths are checked above.
        unsafe {
            kernels.product_bf16_tiles(BlockProduct {
                x: self.weights.as_ptr(),
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
    fn add_one_by_one(
        &mut self,
        kernels: &Kernels,
        summed: &Summed<'_>,
        weights: Weights<'_>,
        group: usize,
        sums: &mut [f32],
    ) {
        let positions = summed.group(group);
        let strips = Tiles::value_strips(summed.head_dim);
        let acc_stride = strips * LANES;
        let weighed = &weights.elements[positions.start..];
        assert!(weighed.len() >= (weights.queries - 1) * weights.stride + positions.len(), "weights of all queries");
        assert!(sums.len() >= weights.queries * acc_stride, "sums of all queries");
        let parts = summed.located.iter().filter_map(|located| located.among(&positions));
        self.runs.clear();
        self.runs.extend(parts.flat_map(|located| located.cut(BLOCK)).map(|part| ValueRun {
            block: summed.cache.head(summed.kv_head, part.run.slot / BLOCK).values.cast(),
            row: part.run.slot % BLOCK,
            position: part.position - positions.start,
            len: part.run.len,
        }));
        // SAFETY: runs lie inside blocks, which nobody writes while a layer attends; lengths are checked above.
        unsafe {
            kernels.add_values(&ValueGroup {
                runs: &self.runs,
                weights: weighed.as_ptr(),
                weights_stride: weights.stride,
                positions: positions.len(),
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

impl Products for TileProducts {
    const QUERIES: usize = 16;
    const POSITIONS: usize = GROUP;

    fn sum_stride(head_dim: usize) -> usize {
        Tiles::value_strips(head_dim) * LANES
    }

    fn take(&mut self, kernels: &Kernels, queries: &[f32], head_dim: usize) {
        let groups = Tiles::key_groups(head_dim);
        self.count = queries.len() / head_dim;
        self.queries.clear();
        let lines = kernels.tile_lines;
        self.queries.resize(groups * self.count * lines, Bf16Line::ZERO);
        for (query, values) in queries.chunks_exact(head_dim).enumerate() {
            for (group, values) in values.chunks(GROUP).enumerate() {
                kernels.round_for_tiles(values, &mut self.queries[(group * self.count + query) * lines..][..lines]);
            }
        }
    }

    unsafe fn score(&self, kernels: &Kernels, head: Head, _: usize, scores: *mut f32, stride: usize) {
        let groups = Tiles::key_groups(head.dim);
        // SAFETY: a block's keys are strips of so many groups; the scores are the caller's promise.
        unsafe {
            kernels.product_bf16_tiles(BlockProduct {
                x: self.queries.as_ptr(),
                x_stride: self.count,
                rows: self.count,
                groups,
                w: head.keys,
                strip_stride: groups * TILE_BYTES,
                strips: BLOCK / LANES,
                acc: scores,
                acc_stride: stride,
                onto_zeros: true,
                prefetch: false,
            });
        }
    }

    fn add(&mut self, kernels: &Kernels, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]) {
        let strips = Tiles::value_strips(summed.head_dim);
        for groups in summed.groups(false) {
            match groups {
                Groups::InPlace(groups) => {
                    let head = summed.cache.head(summed.kv_head, groups.start / GROUPS);
                    let start = head.values.cast_const().wrapping_add(groups.start % GROUPS * TILE_BYTES);
                    let values = Values { start, groups: groups.len(), strips, strip_stride: GROUPS * TILE_BYTES };
                    self.round(kernels, summed, weights, groups);
                    self.product(kernels, &values, weights.queries, sums);
                }
                Groups::Apart(group) => self.add_one_by_one(kernels, summed, weights, group, sums),
            }
        }
    }
}
