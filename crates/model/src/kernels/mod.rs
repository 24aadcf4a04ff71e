//! CPU kernels, written once over [`simd::Simd`] and compiled for each instruction set.
//!
//! [`Kernels`] is a table of entry points for one set, chosen once at run time. Results are the same bits whatever the
//! set, the number of rows, and the number of threads.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod ahead;
mod bf16;
mod bf16_kernels;
mod blocks;
mod byte_values;
pub(crate) mod claim;
mod elementwise;
mod entries;
mod int8;
mod portable;
mod q8_group;
mod rounding;
mod sets;
mod simd;
pub(crate) mod streaming;
mod tables;
mod tile;
mod values;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use bf16::{Bf16Line, TILE_BYTES, TILE_STRIPS, place_in_tile, round as round_to_bf16};
pub(crate) use bf16_kernels::{Bf16Kernels, Bf16Order};
pub(crate) use blocks::{BlockProduct, GROUP};
pub(crate) use byte_values::ByteValues;
pub(crate) use elementwise::CHAINS;
pub(crate) use entries::{Kernels, PORTABLE_NAME};
pub(crate) use int8::{InputGroup, LARGEST, OUTPUTS, Q4_BYTES, Q8_BYTES, QUAD, SCALES_BYTES};
pub(crate) use q8_group::{Q8Group, extreme, f16_at, integer, largest, place_in_q8, put_f16, quants, whole_group};
pub(crate) use rounding::{GroupsAt, Unrounded};
pub use sets::InstructionSet;
pub(crate) use sets::instruction_sets;
pub(crate) use simd::{LANES, Product};
pub(crate) use values::{ValueAt, ValueGroup};
#[cfg(target_arch = "x86_64")]
use x86::{Dot, Sets};

impl Kernels {
    /// The tables that this processor can run, the fastest first.
    pub(crate) fn available() -> Vec<&'static Kernels> {
        let mut tables: Vec<&'static Kernels> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let sets = Sets::detect();
            let (fast_dots, slow_dots) = (sets.bf16 == Dot::Fast, sets.bf16 == Dot::Slow);
            let offered = [
                (sets.amx, &tables::AMX),
                (fast_dots, &tables::AVX512_BF16),
                (sets.vnni, &tables::AVX512_VNNI),
                (slow_dots, &tables::AVX512_BF16),
                (sets.avx512, &tables::AVX512),
                (sets.avx_vnni, &tables::AVX_VNNI),
                (sets.avx2, &tables::AVX2),
            ];
            tables.extend(offered.into_iter().filter_map(|(has, table)| has.then_some(table)));
        }
        #[cfg(target_arch = "aarch64")]
        {
            tables.extend(aarch64::has_dots().then_some(&tables::NEON_DOTS));
            tables.push(&tables::NEON);
        }
        tables.push(&tables::PORTABLE);
        tables
    }

    /// The fastest table of this processor.
    pub(crate) fn detect() -> &'static Kernels {
        Self::available()[0]
    }
}

/// Where element `i` of a group of 32 bf16 values is stored, so that one load and two cheap instructions give two
/// vectors: the first sixteen in the even halves, the others in the odd ones.
pub(crate) fn interleave(i: usize) -> usize {
    2 * (i % LANES) + i / LANES % 2 + i / (2 * LANES) * (2 * LANES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values in -1..1 that no two places share.
    fn noise(len: usize, seed: u32) -> Vec<f32> {
        let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        (0..len as u32).map(|i| mix(i) as f32 / 2_f32.powi(31) - 1.0).collect()
    }

    /// Sizes of a product.
    #[derive(Clone, Copy)]
    struct Sizes {
        rows: usize,
        depth: usize,
        vectors: usize,
    }

    /// `x` (rows, depth) times `w` (depth, vectors * LANES), by the kernel.
    fn product(kernels: &Kernels, x: &[f32], w: &[f32], Sizes { rows, depth, vectors }: Sizes) -> Vec<f32> {
        let mut acc = vec![0.0; rows * vectors * LANES];
        // SAFETY: all three slices are as long as the strides say.
        unsafe {
            kernels.product_f32(Product {
                x: x.as_ptr(),
                x_stride: depth,
                rows,
                w: w.as_ptr(),
                w_stride: vectors * LANES,
                pair_stride: 2 * LANES,
                depth,
                vectors,
                acc: acc.as_mut_ptr(),
                acc_stride: vectors * LANES,
            });
        }
        acc
    }

    #[test]
    fn products_are_right_and_have_the_same_bits_for_any_number_of_rows() {
        // The second depth is walked in several steps.
        for (kernels, depth) in Kernels::available().into_iter().flat_map(|kernels| [(kernels, 37), (kernels, 300)]) {
            for vectors in 1..=5 {
                let width = vectors * LANES;
                let (x, w) = (noise(30 * depth, 1), noise(depth * width, 2));
                let one = Sizes { rows: 1, depth, vectors };
                let alone: Vec<f32> = x.chunks(depth).flat_map(|x| product(kernels, x, &w, one)).collect();
                for rows in 1..=30 {
                    let together = product(kernels, &x[..rows * depth], &w, Sizes { rows, ..one });
                    assert_eq!(together, alone[..rows * width], "{}: {rows} rows, {vectors} vectors", kernels.name);
                }
                for (i, found) in alone.iter().enumerate() {
                    let (row, column) = (i / width, i % width);
                    let exact: f64 =
                        (0..depth).map(|d| f64::from(x[row * depth + d]) * f64::from(w[d * width + column])).sum();
                    assert!((f64::from(*found) - exact).abs() < 3e-5, "{}: {found} for {exact}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn a_product_with_bf16_has_the_bits_of_the_same_weights_in_f32() {
        let (depth, vectors, rows) = (300, 4, 30);
        let width = vectors * LANES;
        let x = noise(rows * depth, 1);
        let w: Vec<half::bf16> = noise(depth * width, 2).into_iter().map(half::bf16::from_f32).collect();
        let widened: Vec<f32> = w.iter().map(|w| w.to_f32()).collect();
        let mut interleaved = vec![0; w.len()];
        for (input, weights) in w.chunks(width).enumerate() {
            let at = |o: usize| input * width + interleave(o);
            weights.iter().enumerate().for_each(|(o, w)| interleaved[at(o)] = w.to_bits());
        }
        for kernels in Kernels::available() {
            for rows in 1..=rows {
                let sizes = Sizes { rows, depth, vectors };
                let expected = product(kernels, &x[..rows * depth], &widened, sizes);
                let mut acc = vec![0.0; rows * width];
                // SAFETY: all three slices are as long as the strides say.
                unsafe {
                    kernels.product_widened(Product {
                        x: x.as_ptr(),
                        x_stride: depth,
                        rows,
                        w: interleaved.as_ptr(),
                        w_stride: width,
                        pair_stride: 2 * LANES,
                        depth,
                        vectors,
                        acc: acc.as_mut_ptr(),
                        acc_stride: width,
                    });
                }
                assert_eq!(acc, expected, "{}: {rows} rows", kernels.name);
            }
        }
    }

    #[test]
    fn softmax_terms_are_exponentials_of_the_distance_to_the_largest() {
        for kernels in Kernels::available() {
            for len in [1, 5, 16, 17, 100] {
                let scores: Vec<f32> = noise(len, 3).iter().map(|v| v * 30.0).collect();
                let mut terms = scores.clone();
                let total = kernels.softmax_terms(&mut terms);
                let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let exact: Vec<f64> = scores.iter().map(|s| f64::from(s - top).exp()).collect();
                let close = |a: f32, b: f64| (f64::from(a) - b).abs() <= 3e-7 * b + 1e-30;
                assert!(terms.iter().zip(&exact).all(|(a, b)| close(*a, *b)), "{}", kernels.name);
                assert!((f64::from(total) / exact.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn norms_follow_their_formulas() {
        for kernels in Kernels::available() {
            for len in [1, 16, 50, 64] {
                let (x, w) = (noise(len, 4), noise(len, 5));
                let mut out = vec![0.0; len];
                let (n, eps) = (len as f64, 1e-5);
                let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
                let square = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n;
                let check = |out: &[f32], f: &dyn Fn(f64, f64) -> f64| {
                    for ((o, x), w) in out.iter().zip(&x).zip(&w) {
                        let exact = f(f64::from(*x), f64::from(*w));
                        assert!((f64::from(*o) - exact).abs() < 1e-5 * exact.abs() + 1e-6, "{}", kernels.name);
                    }
                };
                kernels.rms_norm(&x, &w, eps as f32, &mut out);
                check(&out, &|x, w| x / (square + eps).sqrt() * w);
                let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
                if len > 1 {
                    kernels.layer_norm(&x, &w, eps as f32, &mut out);
                    check(&out, &|x, w| (x - mean) / (variance + eps).sqrt() * w);
                }
            }
        }
    }

    #[test]
    fn gates_follow_their_formula() {
        let width = 2 * LANES;
        let given = noise(6 * width, 4);
        for kernels in Kernels::available() {
            let mut found = given.clone();
            kernels.silu_mul(&mut found, width);
            for (found, given) in found.chunks(2 * width).zip(given.chunks(2 * width)) {
                for i in 0..width {
                    let (gate, up) = (f64::from(given[i]), f64::from(given[width + i]));
                    let exact = gate / (1.0 + (-gate).exp()) * up;
                    assert!((f64::from(found[i]) - exact).abs() < 1e-5 * exact.abs() + 1e-6, "{}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn all_tables_have_the_same_bits() {
        let of = |kernels: &Kernels| {
            let (depth, vectors, rows, len) = (300, 5, 7, 83);
            let (x, w) = (noise(rows * depth, 1), noise(depth * vectors * LANES, 2));
            let mut found = product(kernels, &x, &w, Sizes { rows, depth, vectors });
            let (x, w) = (noise(len, 3).iter().map(|v| v * 20.0).collect::<Vec<_>>(), noise(len, 4));
            let mut out = vec![0.0; len];
            kernels.rms_norm(&x, &w, 1e-5, &mut out);
            found.extend(&out);
            kernels.layer_norm(&x, &w, 1e-5, &mut out);
            found.extend(&out);
            let mut gated = x[..4 * LANES].to_vec();
            kernels.silu_mul(&mut gated, LANES);
            found.extend(&gated);
            out.clone_from(&x);
            found.push(kernels.softmax_terms(&mut out));
            kernels.scale(&mut out, 0.37);
            found.extend(&out);
            kernels.add(&mut out, &x);
            found.extend(&out);
            kernels.rotate(&mut out[..len / 2 * 2], &x[..len / 2], &w[..len / 2]);
            found.extend(&out);
            found.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for kernels in Kernels::available() {
            assert!(of(kernels) == of(&tables::PORTABLE), "{}", kernels.name);
        }
    }

    /// Who emulates a processor names its tables: one that is not found there would not be compared with others.
    #[test]
    fn tables_are_those_that_the_emulated_processor_has() {
        let Ok(expected) = std::env::var("EMULATED_KERNELS") else { return };
        let found: Vec<&str> = Kernels::available().iter().map(|kernels| kernels.name).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn what_the_system_says_of_the_processor_is_used() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let said = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let used = |name: &str| Kernels::available().iter().any(|kernels| kernels.name == name);
        for (name, flag) in
            [("avx2", "avx2"), ("avxvnni", "avx_vnni"), ("avx512vnni", "avx512_vnni"), ("amx", "amx_bf16")]
        {
            assert_eq!(used(name), said(flag), "{name}");
        }
        assert!(
            said("avx512_bf16") || !used("avx512bf16"),
            "used only if it is there, and has the bits that it should"
        );
    }

    #[test]
    fn interleaving_is_a_permutation_of_each_group() {
        let mut places: Vec<usize> = (0..64).map(interleave).collect();
        assert!(places[..32].iter().all(|&place| place < 32));
        places.sort_unstable();
        assert!(places.into_iter().eq(0..64));
    }
}
