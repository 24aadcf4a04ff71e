//! Products of 8-bit weights with 8-bit inputs: exact integers within a group of [`GROUP`] inputs, scaled in f32.
//!
//! Weights and inputs are cut into groups along the inner dimension, each with a scale of its own. An output is
//! `sum over groups of (sum of products) * (input scale * weight scale)`: the inner sum is an integer and the same however
//! it is computed; the outer one adds groups in their order, by one fused multiply-add each. So all instruction sets have
//! the same bits, and a row's bits do not depend on other rows.
//!
//! Processors multiply an unsigned with a signed byte. So either the inputs are made positive and their signs given to the
//! weights, or [`OFFSET`] is added to the weights and the input's part of that, `OFFSET * sum of inputs`, taken away again.

use super::simd::{LANES, Simd, to_array};

/// Inputs that share a scale.
pub(crate) const GROUP: usize = 32;

/// Inputs of one output that lie side by side: as many products as one 32-bit sum takes at once.
pub(crate) const QUAD: usize = 4;

/// What makes a byte positive.
const OFFSET: i32 = 128;

/// The largest weight and input, in size: both are scaled so that the largest of a group becomes this. Two products of this
/// size fit 16 bits together; -128 is no weight.
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
    /// Their sizes.
    pub(crate) sizes: [u8; GROUP],
    /// What the quants were divided by.
    pub(crate) scale: f32,
    /// What sums of products with weights made positive begin with: `-OFFSET * sum of quants`.
    pub(crate) offset: i32,
}

impl InputGroup {
    /// A group of zeros.
    pub(crate) const ZERO: Self = Self { quants: [0; GROUP], sizes: [0; GROUP], scale: 0.0, offset: 0 };
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

    /// What the sums of a group of inputs begin with.
    unsafe fn begin(x: *const InputGroup) -> Self::Sums;
    /// [`LANES`] times [`QUAD`] weights from memory.
    unsafe fn load_quads(from: *const u8) -> Self::Quads;
    /// Adds to each lane the products of its four weights with the four inputs of `x` from `quad * QUAD` on.
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums;
    /// As floats: exact, as the sums of a group are below 2^24.
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V;
    /// [`LANES`] 16-bit floats from memory.
    unsafe fn load_f16(from: *const u16) -> Self::V;
    /// Integers of -127..=127 as bytes.
    unsafe fn to_bytes(values: [Self::V; 2]) -> [i8; GROUP];
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
            let mut sums = [S::begin(x); R];
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = S::begin(x.add(r * p.x_stride));
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
    let (whole, rest) = row.as_chunks::<GROUP>();
    for (values, group) in whole.iter().zip(&mut *out) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { quantize_group::<S>(values, group) };
    }
    if let Some(group) = out.get_mut(whole.len()).filter(|_| !rest.is_empty()) {
        let mut values = [0.0; GROUP];
        values[..rest.len()].copy_from_slice(rest);
        // SAFETY: as above.
        unsafe { quantize_group::<S>(&values, group) };
    }
}

#[inline(always)]
unsafe fn quantize_group<S: Int8>(values: &[f32; GROUP], group: &mut InputGroup) {
    // SAFETY: both halves of the group are whole vectors.
    unsafe {
        let [first, second] = [S::load(values.as_ptr()), S::load(values.as_ptr().add(LANES))];
        let zero = S::splat(0.0);
        let sizes = S::max(S::max(first, S::sub(zero, first)), S::max(second, S::sub(zero, second)));
        let largest = largest::<S>(sizes);
        let factor = S::splat(if largest > SMALLEST { LARGEST / largest } else { 0.0 });
        group.scale = largest / LARGEST;
        group.quants = S::to_bytes([S::round(S::mul(first, factor)), S::round(S::mul(second, factor))]);
    }
    let mut sum = 0;
    for (quant, size) in group.quants.iter().zip(&mut group.sizes) {
        *size = quant.unsigned_abs();
        sum += i32::from(*quant);
    }
    group.offset = -OFFSET * sum;
}

/// The largest of all lanes.
#[inline(always)]
unsafe fn largest<S: Simd>(v: S::V) -> f32 {
    // SAFETY: the caller vouches for the instruction set.
    let mut lanes = unsafe { to_array::<S>(v) };
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = if lanes[i] > lanes[i + half] { lanes[i] } else { lanes[i + half] };
        }
        half /= 2;
    }
    lanes[0]
}

/// Below this a number is no divisor: what it gives could be infinite.
const SMALLEST: f32 = f32::MIN_POSITIVE * LARGEST;
