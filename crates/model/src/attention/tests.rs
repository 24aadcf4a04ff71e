#![allow(clippy::unwrap_used)]

use super::{AttentionShape, Context, Task};
use crate::kernels::{Bf16Order, GROUP, Kernels, LARGEST};
use crate::kv_cache::{BLOCK, CacheShape, KvCache, KvFormat, KvPlace, LayerCache, Run};

const DIM: usize = 48;
const HEADS: usize = 3;
const SLOTS: usize = 3 * BLOCK;
const SHARED: usize = 70;

const FORMATS: [KvFormat; 4] =
    [KvFormat::Floats, KvFormat::Bf16(Bf16Order::Tiles), KvFormat::Bf16(Bf16Order::Dots), KvFormat::Bytes];

fn noise(seed: usize) -> Vec<f32> {
    let mix = |i: usize| ((i + 1) as u32).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
    (0..DIM).map(|d| mix(seed * DIM + d) as f32 / 2_f32.powi(31) - 1.0).collect()
}

/// Keys and values of all slots, other ones in each.
fn cache(format: KvFormat) -> (KvCache, LayerCache) {
    let shape = CacheShape { layers: 1, kv_heads: 1, head_dim: DIM, context: SLOTS, format };
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
    let mut found = Vec::new();
    let task = Task { context: &context, kv_head: 0, first_row: 0, queries: &[&queries] };
    task.run(kernels, &shape, |means| found.extend(means.chunks(DIM).map(<[f32]>::to_vec)));
    found
}

/// The definition: the mean of values, each weighted by its key, and how far off the rounding of weights may take it.
mod definition {
    use super::*;

    /// What is kept of keys and of values, and what is made of a query.
    struct Kept {
        query: Vec<f64>,
        key: fn(&[f32]) -> Vec<f64>,
        value: fn(&[f32]) -> Vec<f64>,
    }

    /// What a head sees, and the bound of its error, for each dimension.
    pub(super) fn of(format: KvFormat, query: &[f32], slots: &[usize]) -> Vec<(f64, f64)> {
        let Kept { query, key, value } = kept(format, query);
        let score = |slot: &usize| key(&noise(*slot)).iter().zip(&query).map(|(k, q)| k * q).sum::<f64>();
        let weights: Vec<f64> = slots.iter().map(|slot| score(slot).exp()).collect();
        let values: Vec<Vec<f64>> = slots.iter().map(|slot| value(&noise(SLOTS + slot))).collect();
        let (total, errors) = (weights.iter().sum::<f64>(), errors(format, &weights, &values));
        let mean = |d: usize| {
            let sum: f64 = weights.iter().zip(&values).map(|(w, v)| w * v[d]).sum();
            let off: f64 = errors.iter().zip(&values).map(|(error, v)| error * v[d].abs()).sum();
            (sum / total, off / total)
        };
        (0..DIM).map(mean).collect()
    }

    fn kept(format: KvFormat, query: &[f32]) -> Kept {
        match format {
            KvFormat::Floats => Kept { query: wide(query), key: wide, value: wide },
            KvFormat::Bf16(_) => Kept { query: bf16(query), key: bf16, value: bf16 },
            KvFormat::Bytes => Kept {
                query: query.chunks(GROUP).flat_map(|group| bytes(group, |scale| scale)).collect(),
                // Of each group of dimensions, with a scale of 16 bits.
                key: |key| {
                    let of_16_bits = |scale| half::f16::from_f32(scale).to_f32();
                    key.chunks(GROUP).flat_map(|group| bytes(group, of_16_bits)).collect()
                },
                value: |value| bytes(value, |scale| scale),
            },
        }
    }

    /// How far off each weight may be.
    fn errors(format: KvFormat, weights: &[f64], values: &[Vec<f64>]) -> Vec<f64> {
        match format {
            KvFormat::Floats => vec![0.0; weights.len()],
            // Half of what the last of eight bits is worth.
            KvFormat::Bf16(_) => weights.iter().map(|weight| weight / 256.0).collect(),
            // Half a step of its group of positions, where each weight is times its value's scale.
            KvFormat::Bytes => {
                let scale = |v: &Vec<f64>| v.iter().fold(0.0_f64, |largest, v| largest.max(v.abs())) / 127.0;
                let scaled: Vec<f64> = weights.iter().zip(values).map(|(w, v)| w * scale(v)).collect();
                let steps = scaled.chunks(GROUP).map(|group| group.iter().fold(0.0, |a, b| b.max(a)) / 127.0);
                let steps: Vec<f64> = steps.collect();
                values.iter().enumerate().map(|(i, v)| steps[i / GROUP] / 2.0 / scale(v)).collect()
            }
        }
    }

    fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().map(|value| f64::from(*value)).collect()
    }

    fn bf16(values: &[f32]) -> Vec<f64> {
        values.iter().map(|value| half::bf16::from_f32(*value).to_f64()).collect()
    }

    /// Numbers of 8 bits times a scale, the largest being 127, unless the scale becomes another number first.
    fn bytes(values: &[f32], of_scale: impl Fn(f32) -> f32) -> Vec<f64> {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = f64::from(of_scale(largest / LARGEST));
        let quant = |value: f32| (f64::from(value) / scale).round_ties_even().clamp(-127.0, 127.0);
        values.iter().map(|value| quant(*value) * scale).collect()
    }
}

#[test]
fn what_a_row_sees_is_what_the_definition_says() {
    let path = [Run { slot: SHARED, len: 2 }, Run { slot: 75, len: 30 }, Run { slot: 120, len: 15 }];
    let slots: Vec<usize> = (0..SHARED).chain(path.iter().flat_map(|run| run.slot..run.slot + run.len)).collect();
    for format in FORMATS {
        let (_whole, cache) = cache(format);
        let found = attended(Kernels::detect(), &cache, &path);
        for (head, found) in found.iter().enumerate() {
            for (found, (exact, off)) in found.iter().zip(definition::of(format, &query(head), &slots)) {
                let error = (f64::from(*found) - exact).abs();
                assert!(error <= off + 1e-5, "{format:?}: {found} for {exact}, {off} at most");
                assert!(off < 0.02, "a bound that means something: {off}");
            }
        }
    }
}

#[test]
fn it_is_the_same_bits_by_all_tables_and_wherever_the_path_lies() {
    // Of the pairs of positions from 72 on some lie in one pair of slots, some in two, in order or across it.
    let path = [Run { slot: 81, len: 1 }, Run { slot: 83, len: 3 }, Run { slot: 130, len: 40 }];
    let slots: Vec<usize> = path.iter().flat_map(|run| run.slot..run.slot + run.len).collect();
    let tables = Kernels::available();
    for format in FORMATS {
        let (_whole, cache) = cache(format);
        let by = |kernels: &Kernels, path: &[Run]| {
            attended(kernels, &cache, path).concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let expected = by(tables.last().unwrap(), &path);
        for kernels in &tables {
            assert!(by(kernels, &path) == expected, "{format:?}, {}", kernels.name);
        }
        // The same keys and values where they would lie had they been committed.
        for (to, from) in (SHARED..).zip(&slots) {
            // SAFETY: nobody else has this cache.
            unsafe { cache.store(0, to, &noise(*from), &noise(SLOTS + from)) };
        }
        let committed = [Run { slot: SHARED, len: slots.len() }];
        for kernels in &tables {
            assert!(by(kernels, &committed) == expected, "{format:?}, {}: committed", kernels.name);
        }
    }
}
