//! Products of 8-bit weights with 8-bit inputs: exact integers within a group of [`GROUP`] inputs, scaled in f32.
//!
//! Weights and inputs are cut into groups along the inner dimension, each with a scale of its own. An output is
//! `sum over groups of (sum of products) * (input scale * weight scale)`: the inner sum is an integer and the same however
//! it is computed; the outer one adds groups in their order, by one fused multiply-add each. So all instruction sets have
//! the same bits, and a row's bits do not depend on other rows.
//!
//! Weights are stored with [`OFFSET`] added, as unsigned bytes: what processors multiply is an unsigned with a signed byte.
//! The input's part of it, `OFFSET * sum of inputs`, is taken away first ([`InputGroup::offset`]).

use super::simd::{LANES, Simd, to_array};

/// Inputs that share a scale.
pub(crate) const GROUP: usize = 32;

/// Inputs of one output that lie side by side: as many products as one 32-bit sum takes at once.
pub(crate) const QUAD: usize = 4;

/// What is added to a weight of -128..=127 where it is stored.
pub(crate) const OFFSET: i32 = 128;

/// The largest weight and input, in size: both are scaled so that the largest of a group becomes this.
pub(crate) const LARGEST: f32 = 127.0;

/// Bytes of [`LANES`] outputs for one group of inputs: a scale of 16 bits for each output, and then for each four inputs
/// the four weights of each output.
pub(crate) const BLOCK_BYTES: usize = LANES * size_of::<u16>() + LANES * GROUP;

/// A group of inputs of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(8))]
pub(crate) struct InputGroup {
    /// The inputs over the scale, rounded: -127..=127.
    pub(crate) quants: [i8; GROUP],
    /// The same for sets that multiply 16-bit numbers: of each four first those at even places, then those at odd ones.
    pub(crate) halves: [i16; GROUP],
    /// What the quants were divided by.
    pub(crate) scale: f32,
    /// What the sums of products begin with, for the offset of the weights: `-OFFSET * sum of quants`.
    pub(crate) offset: i32,
}

impl InputGroup {
    /// A group of zeros.
    pub(crate) const ZERO: Self = Self { quants: [0; GROUP], halves: [0; GROUP], scale: 0.0, offset: 0 };
}

/// What a product reads and writes. `x`: rows of groups, `x_stride` apart; `w`: `strips` of [`LANES`] outputs,
/// `strip_stride` bytes apart, each of `groups` blocks of [`BLOCK_BYTES`]; `acc`: rows of `acc_stride` elements, which are
/// added to.
#[derive(Clone, Copy)]
pub(crate) struct Int8Product {
    pub(crate) x: *const InputGroup,
    pub(crate) x_stride: usize,
    pub(crate) rows: usize,
    pub(crate) groups: usize,
    pub(crate) w: *const u8,
    pub(crate) strip_stride: usize,
    pub(crate) strips: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
}

/// How far ahead of its use a weight is asked for.
const PREFETCH_BYTES: usize = 8192;

/// Bytes that memory hands out at a time.
const CACHE_LINE: usize = 64;

/// Groups that all rows take before the next ones, whose weights come from memory meanwhile.
const GROUPS_AT_ONCE: usize = 8;

/// Sixteen sums of products of bytes, on top of the lanes of [`Simd`].
pub(crate) trait Int8: Simd {
    /// Sixteen 32-bit integers.
    type Sums: Copy;
    /// Four weights of each of sixteen outputs, ready to be multiplied.
    type Quads: Copy;
    /// Rows of a register tile, at most 12.
    const INT8_ROWS: usize;

    /// All lanes `x`.
    unsafe fn splat_sum(x: i32) -> Self::Sums;
    /// [`LANES`] times [`QUAD`] weights from memory.
    unsafe fn load_quads(from: *const u8) -> Self::Quads;
    /// Adds to each lane the products of its four weights with the four inputs of `x` from `quad * QUAD` on.
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums;
    /// As floats: exact, as the sums of a group are below 2^24.
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V;
    /// [`LANES`] 16-bit floats from memory.
    unsafe fn load_f16(from: *const u16) -> Self::V;
    /// [`register_tile`] compiled for this set, as a function of its own.
    unsafe fn int8_tile<const R: usize>(p: Int8Product);
}

/// One strip and `R` rows.
#[inline(always)]
pub(crate) unsafe fn register_tile<S: Int8, const R: usize>(p: Int8Product) {
    // SAFETY: `p` describes valid memory; see `Int8Product`.
    unsafe {
        for group in 0..p.groups {
            let block = p.w.add(group * BLOCK_BYTES);
            for line in 0..BLOCK_BYTES.div_ceil(CACHE_LINE) {
                S::prefetch(block.wrapping_add(PREFETCH_BYTES + line * CACHE_LINE));
            }
            let x = p.x.add(group);
            let mut sums = [S::splat_sum(0); R];
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = S::splat_sum((*x.add(r * p.x_stride)).offset);
            }
            let quants = block.add(LANES * size_of::<u16>());
            for quad in 0..GROUP / QUAD {
                let weights = S::load_quads(quants.add(quad * LANES * QUAD));
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = S::dot(*sum, weights, x.add(r * p.x_stride), quad);
                }
            }
            let scales = S::load_f16(block.cast());
            for (r, sum) in sums.into_iter().enumerate() {
                let acc = p.acc.add(r * p.acc_stride);
                let scale = S::mul(scales, S::splat((*x.add(r * p.x_stride)).scale));
                S::store(acc, S::fma(S::sums_to_f32(sum), scale, S::load(acc)));
            }
        }
    }
}

/// A strip over all rows, in register tiles of about equal height.
unsafe fn strip<S: Int8>(mut p: Int8Product) {
    let mut left = p.rows;
    while left > 0 {
        let height = left.div_ceil(left.div_ceil(S::INT8_ROWS));
        // SAFETY: the rows of `p` are walked once.
        unsafe {
            match height {
                1 => S::int8_tile::<1>(p),
                2 => S::int8_tile::<2>(p),
                3 => S::int8_tile::<3>(p),
                4 => S::int8_tile::<4>(p),
                5 => S::int8_tile::<5>(p),
                6 => S::int8_tile::<6>(p),
                7 => S::int8_tile::<7>(p),
                8 => S::int8_tile::<8>(p),
                9 => S::int8_tile::<9>(p),
                10 => S::int8_tile::<10>(p),
                11 => S::int8_tile::<11>(p),
                _ => S::int8_tile::<12>(p),
            }
            p.x = p.x.add(height * p.x_stride);
            p.acc = p.acc.add(height * p.acc_stride);
        }
        left -= height;
    }
}

/// `acc += x * w`.
pub(crate) unsafe fn product<S: Int8>(p: Int8Product) {
    for at in 0..p.strips {
        for from in (0..p.groups).step_by(GROUPS_AT_ONCE) {
            // SAFETY: these are strips and groups of the product.
            unsafe {
                strip::<S>(Int8Product {
                    x: p.x.add(from),
                    groups: GROUPS_AT_ONCE.min(p.groups - from),
                    w: p.w.add(at * p.strip_stride + from * BLOCK_BYTES),
                    acc: p.acc.add(at * LANES),
                    ..p
                });
            }
        }
    }
}

/// Rounds a row to bytes, group by group; what is missing in the last one counts as zeros. A group of numbers too small to
/// be divided by becomes zeros.
#[inline(always)]
pub(crate) unsafe fn quantize<S: Int8>(row: &[f32], out: &mut [InputGroup]) {
    for (chunk, group) in row.chunks(GROUP).zip(out) {
        let mut values = [0.0; GROUP];
        values[..chunk.len()].copy_from_slice(chunk);
        // SAFETY: both halves of the group are whole vectors.
        unsafe {
            let halves = [S::load(values.as_ptr()), S::load(values.as_ptr().add(LANES))];
            let zero = S::splat(0.0);
            let sizes = halves.map(|half| S::max(half, S::sub(zero, half)));
            let largest = to_array::<S>(S::max(sizes[0], sizes[1])).into_iter().fold(0.0, f32::max);
            let factor = if largest > SMALLEST { LARGEST / largest } else { 0.0 };
            for (half, values) in halves.into_iter().zip(values.chunks_exact_mut(LANES)) {
                S::store(values.as_mut_ptr(), S::round(S::mul(half, S::splat(factor))));
            }
            group.scale = largest / LARGEST;
        }
        let mut sum = 0;
        for (i, value) in values.into_iter().enumerate() {
            let quant = value as i8;
            group.quants[i] = quant;
            group.halves[halves_place(i)] = quant.into();
            sum += i32::from(quant);
        }
        group.offset = -OFFSET * sum;
    }
}

/// Below this a number is no divisor: what it gives could be infinite.
const SMALLEST: f32 = f32::MIN_POSITIVE * LARGEST;

/// Where input `i` lies among [`InputGroup::halves`].
fn halves_place(i: usize) -> usize {
    i / QUAD * QUAD + i % 2 * 2 + i / 2 % 2
}
