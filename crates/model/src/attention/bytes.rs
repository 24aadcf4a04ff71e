//! Products with keys and values in bytes: exact integers within a group, as in all products of bytes.
//!
//! Queries are rounded in groups of dimensions, weights, each times the scale of its value, in groups of [`GROUP`]
//! *positions*, from a multiple of it on: so a row's sum depends on its path alone. A group whose positions lie in the slots
//! of the same number is multiplied as a block; values of any other are added up where they lie, to the same integers.

use std::ops::Range;

use super::products::{Groups, Products, Summed, Weights};
use crate::kernels::{BlockProduct, ByteValues, GROUP, InputGroup, Kernels, OUTPUTS, Q8_BYTES, QUAD};
use crate::kv_cache::{BLOCK, Bytes, GROUPS, Head};

/// The queries at hand, rounded, and what is worked on.
#[derive(Default)]
pub(super) struct ByteProducts {
    /// Groups of dimensions, those of all queries side by side.
    queries: Vec<InputGroup>,
    /// How many queries there are.
    count: usize,
    /// Groups of weights, those of all queries side by side; or those of each query side by side.
    weights: Vec<InputGroup>,
    path: Path,
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
            let (head, first) = (summed.cache.head(summed.kv_head, run.slot / BLOCK), run.slot % BLOCK);
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

impl ByteProducts {
    /// Adds the values of groups of positions that lie in the slots of the same number in one block.
    fn add_block(
        &mut self,
        kernels: &Kernels,
        summed: &Summed<'_>,
        weights: Weights<'_>,
        groups: Range<usize>,
        sums: &mut [f32],
    ) {
        let Weights { elements, stride, queries } = weights;
        let head = summed.cache.head(summed.kv_head, groups.start / GROUPS);
        // All of them are written.
        self.weights.resize(queries * groups.len(), InputGroup::ZERO);
        for (group, rounded) in groups.clone().zip(self.weights.chunks_exact_mut(queries)) {
            let positions = summed.group(group);
            // SAFETY: rows of one block, which nobody writes while a layer attends.
            let scales = unsafe { Bytes::value_scales(head, positions.start % BLOCK, positions.len()) };
            for (query, rounded) in rounded.iter_mut().enumerate() {
                kernels.round_products_to_int8(&elements[query * stride..][positions.clone()], scales, rounded);
            }
        }
        let sum_stride = Self::sum_stride(summed.head_dim);
        assert!(sums.len() >= queries * sum_stride, "sums of all queries");
        // SAFETY: a block's values are strips of so many groups; lengths are checked above.
        unsafe {
            kernels.product_q8(BlockProduct {
                x: self.weights.as_ptr(),
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
    fn add_path(
        &mut self,
        kernels: &Kernels,
        summed: &Summed<'_>,
        weights: Weights<'_>,
        group: usize,
        sums: &mut [f32],
    ) {
        let Weights { elements, stride, queries } = weights;
        let positions = summed.group(group);
        self.path.find(summed, &positions);
        let Path { quads, places, scales } = &self.path;
        let groups = quads.len().div_ceil(GROUP / QUAD);
        self.weights.clear();
        self.weights.resize(queries * groups, InputGroup::ZERO);
        for (query, spread) in self.weights.chunks_exact_mut(groups).enumerate() {
            let mut rounded = InputGroup::ZERO;
            kernels.round_products_to_int8(&elements[query * stride..][positions.clone()], scales, &mut rounded);
            spread[0] = InputGroup { quants: [0; GROUP], ..rounded };
            for (place, quant) in places.iter().zip(rounded.quants) {
                spread[place / GROUP].quants[place % GROUP] = quant;
            }
        }
        let acc_stride = Self::sum_stride(summed.head_dim);
        assert!(sums.len() >= queries * acc_stride, "sums of all queries");
        // SAFETY: quads lie inside blocks, which nobody writes while a layer attends; lengths are checked above.
        unsafe {
            kernels.add_byte_values(&ByteValues {
                quads,
                weights: self.weights.as_ptr(),
                queries,
                strips: Bytes::value_strips(summed.head_dim),
                strip_stride: Bytes::value_strip(),
                acc: sums.as_mut_ptr(),
                acc_stride,
            });
        }
    }
}

impl Products for ByteProducts {
    const QUERIES: usize = 12;
    const POSITIONS: usize = GROUP;

    fn sum_stride(head_dim: usize) -> usize {
        Bytes::value_strips(head_dim) * OUTPUTS
    }

    fn take(&mut self, kernels: &Kernels, queries: &[f32], head_dim: usize) {
        self.count = queries.len() / head_dim;
        // All of them are written.
        self.queries.resize(Bytes::key_groups(head_dim) * self.count, InputGroup::ZERO);
        for (query, values) in queries.chunks_exact(head_dim).enumerate() {
            // SAFETY: there are as many groups for each query, `count` apart.
            unsafe { kernels.round_to_int8(values, self.queries[query..].as_mut_ptr(), self.count) };
        }
    }

    unsafe fn score(&self, kernels: &Kernels, head: Head, filled: usize, scores: *mut f32, stride: usize) {
        let groups = Bytes::key_groups(head.dim);
        // SAFETY: a block's keys are strips of so many groups; the scores are the caller's promise.
        unsafe {
            kernels.product_q8(BlockProduct {
                x: self.queries.as_ptr(),
                x_stride: self.count,
                rows: self.count,
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

    fn add(&mut self, kernels: &Kernels, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]) {
        // What no weight is for counts as nothing: the last group need not be whole.
        for groups in summed.groups(true) {
            match groups {
                Groups::InPlace(groups) => self.add_block(kernels, summed, weights, groups, sums),
                Groups::Apart(group) => self.add_path(kernels, summed, weights, group, sums),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{AttentionShape, Context, Task};
    use crate::kernels::{GROUP, Kernels, LARGEST};
    use crate::kv_cache::{BLOCK, CacheShape, KvCache, KvFormat, KvPlace, LayerCache, Run};

    const DIM: usize = 48;
    const HEADS: usize = 3;
    const SLOTS: usize = 3 * BLOCK;
    const SHARED: usize = 70;

    fn noise(seed: usize) -> Vec<f32> {
        let mix = |i: usize| ((i + 1) as u32).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        (0..DIM).map(|d| mix(seed * DIM + d) as f32 / 2_f32.powi(31) - 1.0).collect()
    }

    /// Keys and values of all slots, other ones in each.
    fn cache() -> (KvCache, LayerCache) {
        let shape = CacheShape { layers: 1, kv_heads: 1, head_dim: DIM, context: SLOTS, format: KvFormat::Bytes };
        let mut cache = KvCache::alone(shape, &KvPlace::Host);
        cache.reserve(SLOTS).unwrap();
        let layer = cache.block_table().layer(0);
        for slot in 0..SLOTS {
            // SAFETY: nobody else has this cache.
            unsafe { layer.store(0, slot, &noise(slot), &noise(SLOTS + slot)) };
        }
        (cache, layer)
    }

    /// The query of a head, scaled as for any of so many dimensions.
    fn query(head: usize) -> Vec<f32> {
        noise(2 * SLOTS + head).iter().map(|value| value / (DIM as f32).sqrt()).collect()
    }

    /// What the heads of a row with this path see.
    fn attended(kernels: &Kernels, cache: &LayerCache, path: &[Run]) -> Vec<Vec<f32>> {
        let shape = AttentionShape { heads: HEADS, kv_heads: 1, head_dim: DIM, window: None };
        let paths = [path.to_vec()];
        let context = Context { cache, beside: None, shared: SHARED, slots: SLOTS, paths: &paths };
        let queries: Vec<f32> = (0..HEADS).flat_map(query).collect();
        let mut found = vec![Vec::new(); HEADS];
        let task = Task { context: &context, kv_head: 0, first_row: 0, queries: &[&queries] };
        task.run(kernels, &shape, |_, head, values| found[head] = values.to_vec());
        found
    }

    /// Numbers of 8 bits times a scale, the largest being 127, unless the scale becomes another number first.
    fn rounded(values: &[f32], of_scale: impl Fn(f32) -> f32) -> Vec<f64> {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = f64::from(of_scale(largest / LARGEST));
        let quant = |value: f32| (f64::from(value) / scale).round_ties_even().clamp(-127.0, 127.0);
        values.iter().map(|value| quant(*value) * scale).collect()
    }

    /// A group of a key's dimensions, whose scale has 16 bits.
    fn of_key(group: &[f32]) -> Vec<f64> {
        rounded(group, |scale| half::f16::from_f32(scale).to_f32())
    }

    /// The definition: what a head sees but for the rounding of weights, and how far off that may take it.
    fn definition(query: &[f32], slots: &[usize]) -> Vec<(f64, f64)> {
        let query: Vec<f64> = query.chunks(GROUP).flat_map(|group| rounded(group, |scale| scale)).collect();
        let key = |slot: usize| noise(slot).chunks(GROUP).flat_map(of_key).collect::<Vec<f64>>();
        let score = |slot: &usize| key(*slot).iter().zip(&query).map(|(k, q)| k * q).sum::<f64>();
        let weights: Vec<f64> = slots.iter().map(|slot| score(slot).exp()).collect();
        let total: f64 = weights.iter().sum();
        let values: Vec<Vec<f64>> = slots.iter().map(|slot| rounded(&noise(SLOTS + slot), |scale| scale)).collect();
        let largest = |v: &Vec<f64>| v.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
        // Of each group of positions half a step of its weights, each times its value's scale.
        let scaled: Vec<f64> = weights.iter().zip(&values).map(|(w, v)| w * largest(v) / 127.0).collect();
        let steps: Vec<f64> =
            scaled.chunks(GROUP).map(|group| group.iter().fold(0.0, |a, b| b.max(a)) / 127.0).collect();
        let mean = |d: usize| {
            let sum: f64 = weights.iter().zip(&values).map(|(w, v)| w * v[d]).sum();
            let off: f64 = values
                .iter()
                .enumerate()
                .map(|(i, v)| steps[i / GROUP] / 2.0 * (v[d] / largest(v)).abs() * 127.0)
                .sum();
            (sum / total, off / total)
        };
        (0..DIM).map(mean).collect()
    }

    #[test]
    fn what_a_row_sees_is_what_the_definition_says() {
        let (_whole, cache) = cache();
        let path = [Run { slot: SHARED, len: 2 }, Run { slot: 75, len: 30 }, Run { slot: 120, len: 15 }];
        let slots: Vec<usize> = (0..SHARED).chain(path.iter().flat_map(|run| run.slot..run.slot + run.len)).collect();
        let found = attended(Kernels::detect(), &cache, &path);
        for (head, found) in found.iter().enumerate() {
            for (found, (exact, off)) in found.iter().zip(definition(&query(head), &slots)) {
                assert!((f64::from(*found) - exact).abs() <= off + 1e-5, "{found} for {exact}, {off} at most");
                assert!(off < 0.02, "a bound that means something: {off}");
            }
        }
    }

    #[test]
    fn it_is_the_same_bits_by_all_tables_and_wherever_the_path_lies() {
        let (_whole, cache) = cache();
        let path = [Run { slot: 81, len: 1 }, Run { slot: 83, len: 3 }, Run { slot: 130, len: 40 }];
        let by = |kernels: &Kernels, path: &[Run]| {
            attended(kernels, &cache, path).concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let tables = Kernels::available();
        let expected = by(tables.last().unwrap(), &path);
        assert!(tables.iter().all(|kernels| by(kernels, &path) == expected));
        // The same keys and values where they would lie had they been committed.
        let slots: Vec<usize> = path.iter().flat_map(|run| run.slot..run.slot + run.len).collect();
        for (to, from) in (SHARED..).zip(&slots) {
            // SAFETY: nobody else has this cache.
            unsafe { cache.store(0, to, &noise(*from), &noise(SLOTS + from)) };
        }
        let committed = [Run { slot: SHARED, len: slots.len() }];
        assert!(tables.iter().all(|kernels| by(kernels, &committed) == expected));
    }
}
