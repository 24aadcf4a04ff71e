//! Dot products of bf16: AVX512-BF16.

// One argument holds for every function below: the set is offered only where the processor has it, and pointers hold what
// `BlockProduct` says.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::x86_64::*;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use espalier_speculation::SplitMix64;

use super::super::bf16::{self, Bf16Group, Dots, Floats, TILE_BYTES};
use super::super::blocks::{self, BlockProduct, Format, GROUP, TileProduct};
use super::super::portable::Portable;
use super::super::simd::LANES;
use super::avx512::Avx512;
use super::bits::Bits;
use super::denormals;

/// What the instruction is worth on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Dot {
    /// There is none, or none that has the bits of [`Dots`].
    None,
    /// It takes longer than multiply-adds of floats.
    Slow,
    /// It does not.
    Fast,
}

/// Blocks that are multiplied by the instruction.
struct Native;

/// [`Bits`] that are rounded by the instruction for it, which has the bits of [`bf16::round`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in super::super) struct NativeBits(Bits);

impl Bf16Group for NativeBits {
    const ZERO: Self = Self(Bits::ZERO);

    #[inline(always)]
    fn set(&mut self, values: &[f32]) {
        match <&[f32; GROUP]>::try_from(values) {
            Ok(values) => unsafe {
                let (first, second) = (_mm512_loadu_ps(values.as_ptr()), _mm512_loadu_ps(values.as_ptr().add(LANES)));
                let rounded = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
                _mm512_storeu_si512(self.0.as_mut_ptr().cast(), rounded);
            },
            Err(_) => self.0.set(values),
        }
    }
}

/// `acc += x * w`.
#[inline(always)]
pub(in super::super) unsafe fn product_bf16(p: BlockProduct<Bits>) {
    unsafe { blocks::product::<Avx512, Native>(p) }
}

impl Format<Avx512> for Native {
    type Input = Bits;
    const BYTES: usize = TILE_BYTES;
    const VECTORS: usize = 1;
    // 16 of 32 registers: enough sums that no instruction waits for the one before.
    const ROWS: usize = 16;

    #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512vl,avx2,fma")]
    unsafe fn tile<const R: usize>(p: TileProduct<Bits>) {
        let BlockProduct { acc, acc_stride, groups, .. } = p.part;
        unsafe {
            let mut sums: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(acc.add(r * acc_stride)));
            for group in 0..groups {
                let at = p.block::<Avx512, Self>(group);
                for pair in 0..GROUP / 2 {
                    let weights = at.block.cast::<__m512i>().add(pair);
                    at.ask::<Avx512>(weights.cast());
                    let weights = _mm512_loadu_si512(weights);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = dot(*sum, at.x.add(r).cast::<i32>().add(pair), weights);
                    }
                }
            }
            sums.into_iter().enumerate().for_each(|(r, sum)| _mm512_storeu_ps(acc.add(r * acc_stride), sum));
        }
    }
}

/// Adds to each lane the products of its two weights with the two inputs at `inputs`.
#[inline]
#[target_feature(enable = "avx512bf16,avx512f")]
unsafe fn dot(sums: __m512, inputs: *const i32, weights: __m512i) -> __m512 {
    // SAFETY: the same 512 bits.
    let bits = |vector: __m512i| unsafe { std::mem::transmute::<__m512i, __m512bh>(vector) };
    let inputs = _mm512_set1_epi32(unsafe { inputs.read_unaligned() });
    // In this order the instruction itself reads and spreads the inputs.
    _mm512_dpbf16_ps(sums, bits(weights), bits(inputs))
}

/// What a processor's instruction is worth that has AVX-512.
pub(super) fn tried() -> Dot {
    static TRIED: OnceLock<Dot> = OnceLock::new();
    *TRIED
        .get_or_init(|| if is_x86_feature_detected!("avx512bf16") { unsafe { Trial::new().run() } } else { Dot::None })
}

/// A product of random numbers, tried before it is relied on: manuals leave the order of sums open.
struct Trial {
    /// Inputs of each group, those of all rows side by side: as the instruction takes them, and as floats.
    bits: Vec<Bits>,
    floats: Vec<Floats>,
    weights: Vec<u16>,
}

const TRIAL_ROWS: usize = 12;
const TRIAL_GROUPS: usize = 8;

impl Trial {
    fn new() -> Self {
        let mut random = SplitMix64::new(1);
        let mut number = move || any_number(random.next_u64());
        let inputs: Vec<f32> = (0..TRIAL_GROUPS * TRIAL_ROWS * GROUP).map(|_| number()).collect();
        Self {
            bits: inputs.chunks(GROUP).map(Bits::of).collect(),
            floats: inputs.chunks(GROUP).map(Floats::of).collect(),
            weights: (0..TRIAL_GROUPS * GROUP * LANES).map(|_| bf16::round(number())).collect(),
        }
    }

    /// # Safety
    /// The processor has the instruction.
    unsafe fn run(&self) -> Dot {
        unsafe {
            if self.sums(&self.bits, product_bf16) != self.sums(&self.floats, bf16::product::<Portable, Dots>) {
                return Dot::None;
            }
            let by_floats = self.shortest(&self.floats, denormals::product_bf16::<Avx512, Dots>);
            if self.shortest(&self.bits, product_bf16) < by_floats { Dot::Fast } else { Dot::Slow }
        }
    }

    /// The bits of all sums.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn sums<X>(&self, inputs: &[X], product: unsafe fn(BlockProduct<X>)) -> Vec<u32> {
        let mut acc = vec![0.0_f32; TRIAL_ROWS * LANES];
        // SAFETY: all that the product reads and writes is as long as it says.
        unsafe {
            product(BlockProduct {
                x: inputs.as_ptr(),
                x_stride: TRIAL_ROWS,
                rows: TRIAL_ROWS,
                groups: TRIAL_GROUPS,
                w: self.weights.as_ptr().cast(),
                strip_stride: TRIAL_GROUPS * TILE_BYTES,
                strips: 1,
                acc: acc.as_mut_ptr(),
                acc_stride: LANES,
                onto_zeros: true,
                prefetch: false,
            });
        }
        acc.into_iter().map(f32::to_bits).collect()
    }

    /// The shortest of several times, as others only make one longer.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn shortest<X>(&self, inputs: &[X], product: unsafe fn(BlockProduct<X>)) -> Duration {
        let time = |_| {
            let begin = Instant::now();
            std::hint::black_box(unsafe { self.sums(inputs, product) });
            begin.elapsed()
        };
        (0..20).map(time).min().unwrap_or_default()
    }
}

/// A number of 8 bits and of any sign, most of the size of one, some so small that products of them are no normal numbers.
fn any_number(random: u64) -> f32 {
    let mantissa = (random % 511) as f32 - 255.0;
    let exponent = if random >> 32 & 7 == 0 { -64 - (random >> 40 & 7) as i32 } else { (random >> 40 & 7) as i32 - 11 };
    mantissa * 2.0_f32.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_rounds_like_the_definition() {
        if !is_x86_feature_detected!("avx512bf16") || !is_x86_feature_detected!("avx512bw") {
            return;
        }
        #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512vl")]
        unsafe fn native(values: &[f32]) -> NativeBits {
            NativeBits::of(values)
        }
        let mut random = SplitMix64::new(3);
        let any: Vec<f32> = (0..1 << 16).map(|_| f32::from_bits(random.next_u64() as u32)).collect();
        // Ties, the smallest normal numbers, those that are none, the largest, infinities, and what is no number.
        let bits = [0, 1, 0x3F80_8000, 0x3F81_8000, 0x007F_FFFF, 0x0080_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001];
        let special = bits.into_iter().flat_map(|bits| [bits, bits | 1 << 31]).map(f32::from_bits);
        let values: Vec<f32> = any.into_iter().chain(special).collect();
        for group in values.chunks(GROUP) {
            let mut whole = [0.0; GROUP];
            whole[..group.len()].copy_from_slice(group);
            let mut found = unsafe { native(&whole) };
            let mut expected = Bits::of(&whole);
            let of = |bits: &mut Bits| unsafe { *bits.as_mut_ptr().cast::<[u16; GROUP]>() };
            assert_eq!(of(&mut found.0), of(&mut expected), "{group:?}");
        }
    }
}
