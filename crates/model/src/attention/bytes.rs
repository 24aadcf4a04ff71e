//! Products with keys and values in bytes: exact integers within a group, as in all products of bytes.
//!
//! Queries are rounded in groups of dimensions, weights, each times the scale of its value, in groups of [`GROUP`]
//! *positions*, from a multiple of it on: so a row's sum depends on its path alone. A group whose positions lie in the slots
//! of the same number is multiplied as a block; values of any other are added up where they lie, to the same integers.

use std::ops::Range;

use super::products::{Groups, Products, Summed, Weights};
use crate::kernels::{
    BlockProduct, ByteValues, GROUP, GroupsAt, InputGroup, Kernels, OUTPUTS, Q8_BYTES, QUAD, Unrounded,
};
use crate::kv_cache::{BLOCK, Bytes, GROUPS, Head};

/// Products of bytes.
pub(super) struct ByteProducts<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) buffers: &'a mut ByteBuffers,
}

/// The queries at hand, rounded, and what is worked on.
#[derive(Default)]
pub(super) struct ByteBuffers {
    /// Groups of dimensions, those of all queries side by side.
    queries: Vec<InputGroup>,
    /// How many queries there are.
    count: usize,
    /// Groups of weights, those of all queries side by side; or those of each query side by side.
    weights: Vec<InputGroup>,
    /// A group of weights of each query, before they are spread over the slots of their values.
    rounded: Vec<InputGroup>,
    path: Path,
}

impl<'a> Weights<'a> {
    /// Those of some positions, each to be multiplied by the scale of its value.
    fn of(self, positions: &Range<usize>, scales: &'a [f32]) -> Unrounded<'a> {
        let Self { elements, stride, queries } = self;
        Unrounded {
            values: &elements[positions.start..],
            stride,
            rows: queries,
            width: positions.len(),
            factors: Some(scales),
        }
    }
}

/// Where the values of up to [`GROUP`] positions lie.
#[derive(Default)]
struct Path {
    /// Quads of slots that have one of them at least.
    quads: Vec<*const u8>,
    /// Of each position: which place among those of the quads is its, and the scale of its value.
    places: Vec<usize>,
    scales: Vec<f32>,
}

impl Path {
    fn find(&mut self, summed: &Summed<'_>, positions: &Range<usize>) {
        self.quads.clear();
        self.places.clear();
        self.scales.clear();
        let parts = summed.located.iter().filter_map(|located| located.among(positions));
        for run in parts.flat_map(|located| located.cut(BLOCK)).map(|part| part.run) {
            let (head, first) = (summed.head(run.slot / BLOCK), run.slot % BLOCK);
            // SAFETY: the run lies inside one block, which nobody writes while a layer attends.
            self.scales.extend_from_slice(unsafe { Bytes::value_scales(head, first, run.len) });
            for row in first..first + run.len {
                let quad = head.values.cast_const().wrapping_add(Bytes::value_quad(row));
                if self.quads.last() != Some(&quad) {
                    self.quads.push(quad);
                }
                self.places.push((self.quads.len() - 1) * QUAD + row % QUAD);
            }
        }
    }
}

impl ByteProducts<'_> {
    /// Adds the values of groups of positions that lie in the slots of the same number in one block.
    fn add_block(&mut self, summed: &Summed<'_>, weights: Weights<'_>, groups: Range<usize>, sums: &mut [f32]) {
        let queries = weights.queries;
        let head = summed.head(groups.start / GROUPS);
        // All of them are written.
        self.buffers.weights.resize(queries * groups.len(), InputGroup::ZERO);
        let positions = summed.group(groups.start).start..summed.group(groups.end - 1).end;
        // SAFETY: rows of one block, which nobody writes while a layer attends.
        let scales = unsafe { Bytes::value_scales(head, positions.start % BLOCK, positions.len()) };
        let rounded = GroupsAt { first: self.buffers.weights.as_mut_ptr(), step: queries };
        // SAFETY: there is a group for each of the queries, and these side by side.
        unsafe { self.kernels.round_to_int8(weights.of(&positions, scales), rounded) };
        let sum_stride = Self::sum_stride(summed.head_dim);
        assert!(sums.len() >= queries * sum_stride, "sums of all queries");
        // SAFETY: a block's values are strips of so many groups; lengths are checked above.
        unsafe {
            self.kernels.product_q8(BlockProduct {
                x: self.buffers.weights.as_ptr(),
                x_stride: queries,
                rows: queries,
                groups: groups.len(),
                w: head.values.cast_const().wrapping_add(groups.start % GROUPS * Q8_BYTES),
                strip_stride: Bytes::value_strip(),
                strips: Bytes::value_strips(summed.head_dim),
                acc: sums.as_mut_ptr(),
                acc_stride: sum_stride,
                onto_zeros: false,
                prefetch: false,
            });
        }
    }

    /// Adds the values of a group of positions, wherever they lie.
    fn add_path(&mut self, summed: &Summed<'_>, weights: Weights<'_>, group: usize, sums: &mut [f32]) {
        let queries = weights.queries;
        let positions = summed.group(group);
        self.buffers.path.find(summed, &positions);
        let Path { quads, places, scales } = &self.buffers.path;
        let groups = quads.len().div_ceil(GROUP / QUAD);
        self.buffers.weights.clear();
        self.buffers.weights.resize(queries * groups, InputGroup::ZERO);
        self.buffers.rounded.resize(queries, InputGroup::ZERO);
        let to = GroupsAt { first: self.buffers.rounded.as_mut_ptr(), step: queries };
        // SAFETY: there is a group for each of the queries, and no more than one.
        unsafe { self.kernels.round_to_int8(weights.of(&positions, scales), to) };
        for (rounded, spread) in self.buffers.rounded.iter().zip(self.buffers.weights.chunks_exact_mut(groups)) {
            spread[0] = InputGroup { quants: [0; GROUP], ..*rounded };
            for (place, quant) in places.iter().zip(rounded.quants) {
                spread[place / GROUP].quants[place % GROUP] = quant;
            }
        }
        let acc_stride = Self::sum_stride(summed.head_dim);
        assert!(sums.len() >= queries * acc_stride, "sums of all queries");
        // SAFETY: quads lie inside blocks, which nobody writes while a layer attends; lengths are checked above.
        unsafe {
            self.kernels.add_byte_values(&ByteValues {
                quads,
                weights: self.buffers.weights.as_ptr(),
                queries,
                strips: Bytes::value_strips(summed.head_dim),
                strip_stride: Bytes::value_strip(),
                acc: sums.as_mut_ptr(),
                acc_stride,
            });
        }
    }
}

impl Products for ByteProducts<'_> {
    const QUERIES: usize = 12;
    const POSITIONS: usize = GROUP;

    fn sum_stride(head_dim: usize) -> usize {
        Bytes::value_strips(head_dim) * OUTPUTS
    }

    fn take(&mut self, queries: &[f32], head_dim: usize) {
        self.buffers.count = queries.len() / head_dim;
        // All of them are written.
        self.buffers.queries.resize(Bytes::key_groups(head_dim) * self.buffers.count, InputGroup::ZERO);
        let (rows, to) = (self.buffers.count, self.buffers.queries.as_mut_ptr());
        let unrounded = Unrounded { values: queries, stride: head_dim, rows, width: head_dim, factors: None };
        // SAFETY: there are as many groups for each query, `rows` apart.
        unsafe { self.kernels.round_to_int8(unrounded, GroupsAt { first: to, step: rows }) };
    }

    unsafe fn score(&self, head: Head, filled: usize, scores: *mut f32, stride: usize) {
        let groups = Bytes::key_groups(head.dim);
        // SAFETY: a block's keys are strips of so many groups; the scores are the caller's promise.
        unsafe {
            self.kernels.product_q8(BlockProduct {
                x: self.buffers.queries.as_ptr(),
                x_stride: self.buffers.count,
                rows: self.buffers.count,
                groups,
                w: head.keys,
                strip_stride: groups * Q8_BYTES,
                strips: filled.div_ceil(OUTPUTS),
                acc: scores,
                acc_stride: stride,
                onto_zeros: false,
                prefetch: false,
            });
        }
    }

    fn add(&mut self, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]) {
        // What no weight is for counts as nothing: the last group need not be whole.
        for groups in summed.groups(true) {
            match groups {
                Groups::InPlace(groups) => self.add_block(summed, weights, groups, sums),
                Groups::Apart(group) => self.add_path(summed, weights, group, sums),
            }
        }
    }
}
