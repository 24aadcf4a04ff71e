//! Products of bf16 weights with bf16 inputs, by fused multiply-adds in one of two orders: that of a matrix unit,
//! [`Tiles`], and that of vectors of dot products, [`Dots`]. All sets have the bits of either.
//!
//! Inputs are cut into groups of [`GROUP`]. A number too small to be a normal one becomes zero, wherever it appears, as
//! both instructions have it.

use half::bf16;

use super::blocks::{self, BlockProduct, Format, GROUP, OneBlock, TileProduct};
use super::simd::{LANES, Simd};

/// A piece of what inputs were rounded to: a set keeps a group in as many lines, side by side, as it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Bf16Line([u8; LINE_BYTES]);

/// Bytes of a line: those of 32 bf16.
pub(super) const LINE_BYTES: usize = GROUP * size_of::<u16>();

impl Bf16Line {
    /// Zeros, whatever they are part of.
    pub(crate) const ZERO: Self = Self([0; LINE_BYTES]);

    /// Most lines that a set keeps a group in.
    pub(crate) const MOST: usize = size_of::<Floats>() / LINE_BYTES;
}

/// A group of inputs of one row, rounded, as a set multiplies it.
pub(crate) trait Bf16Group: Sized {
    /// Lines that it takes.
    const LINES: usize = size_of::<Self>() / LINE_BYTES;

    /// Nothing but zeros.
    const ZERO: Self;

    /// Rounds up to [`GROUP`] inputs into the first places of a group.
    fn set(&mut self, values: &[f32]);

    /// Up to [`GROUP`] inputs, zeros being what is missing.
    #[inline(always)]
    fn of(values: &[f32]) -> Self {
        let mut group = Self::ZERO;
        group.set(values);
        group
    }

    /// Rounds inputs into the lines of their group.
    #[inline(always)]
    fn round(values: &[f32], lines: &mut [Bf16Line]) {
        assert!(lines.len() == Self::LINES, "the lines of a group");
        // SAFETY: as many bytes, aligned like lines; any bits are a group.
        let group = unsafe { &mut *lines.as_mut_ptr().cast::<Self>() };
        if values.len() < GROUP {
            *group = Self::ZERO;
        }
        group.set(values);
    }
}

/// As floats, for sets that multiply those.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Floats(pub(super) [f32; GROUP]);

impl Bf16Group for Floats {
    const ZERO: Self = Self([0.0; GROUP]);

    #[inline(always)]
    fn set(&mut self, values: &[f32]) {
        set(&mut self.0, values, |value| f32::from_bits(u32::from(round(value)) << 16));
    }
}

/// Rounds values into the first places of a group.
#[inline(always)]
pub(super) fn set<T>(group: &mut [T; GROUP], values: &[f32], round: impl Fn(f32) -> T) {
    // Nearly all groups are whole, and a loop of known length is vectors.
    match <&[f32; GROUP]>::try_from(values) {
        Ok(values) => group.iter_mut().zip(values).for_each(|(place, value)| *place = round(*value)),
        Err(_) => group.iter_mut().zip(values).for_each(|(place, value)| *place = round(*value)),
    }
}

/// In which order products are added to a sum: in chains, the odd inputs in the last one, the even ones in the first.
pub(crate) trait Order {
    /// Chains of a group.
    const CHAINS: usize;

    /// What a chain begins with.
    unsafe fn begin<S: Bf16>(sum: S::V) -> S::V;

    /// The sum and its chains.
    unsafe fn end<S: Bf16>(sum: S::V, chains: [S::V; 2]) -> S::V;
}

/// Within a group an output's products are added up in two chains that begin with zero, one over the even inputs and one
/// over the odd ones; the two sums are added, and then their sum to the output. That is what `tdpbf16ps` does (Intel's
/// manual; its order was found by comparing random sums).
pub(crate) struct Tiles;

/// An output's products are added to it one after the other, of each two inputs the second one first. That is what
/// `vdpbf16ps` does by Intel's manual; whether a processor does is tried before it is used.
pub(crate) struct Dots;

impl Order for Tiles {
    const CHAINS: usize = 2;

    #[inline(always)]
    unsafe fn begin<S: Bf16>(_: S::V) -> S::V {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { S::splat(0.0) }
    }

    #[inline(always)]
    unsafe fn end<S: Bf16>(sum: S::V, [even, odd]: [S::V; 2]) -> S::V {
        // SAFETY: as above.
        unsafe { S::add_or_zero(sum, S::add_or_zero(even, odd)) }
    }
}

impl Order for Dots {
    const CHAINS: usize = 1;

    #[inline(always)]
    unsafe fn begin<S: Bf16>(sum: S::V) -> S::V {
        sum
    }

    #[inline(always)]
    unsafe fn end<S: Bf16>(_: S::V, [chain, _]: [S::V; 2]) -> S::V {
        chain
    }
}

/// Blocks of bf16 weights: for each pair of inputs the two weights of each of [`LANES`] outputs side by side.
pub(super) struct Bf16Blocks<O>(std::marker::PhantomData<O>);

/// Bytes of a block.
pub(crate) const TILE_BYTES: usize = LANES * GROUP * size_of::<u16>();

/// Strips that a matrix unit multiplies at once: products have whole multiples of them.
pub(crate) const TILE_STRIPS: usize = 2;

/// Which of a block's weights is that of the output in `lane` for input `input` of the group.
pub(crate) fn place_in_tile(lane: usize, input: usize) -> usize {
    (input / 2 * LANES + lane) * 2 + input % 2
}

/// Sums that become zero where they are too small to be normal numbers, on top of the lanes of [`Simd`].
pub(crate) trait Bf16: Simd {
    /// Chains of sums that registers hold beside the weights and a row's value.
    const BF16_CHAINS: usize;

    /// `a * b + c`, rounded once; zero where that is too small. By default the processor is trusted to make it so.
    #[inline(always)]
    unsafe fn fma_or_zero(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::fma(a, b, c) }
    }
    /// `a + b`; zero where that is too small. By default as above.
    #[inline(always)]
    unsafe fn add_or_zero(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::add(a, b) }
    }
    /// [`register_tile`] compiled for this set.
    unsafe fn bf16_tile<O: Order, const R: usize>(p: TileProduct<Floats>);
}

impl<S: Bf16, O: Order> Format<S> for Bf16Blocks<O> {
    type Input = Floats;
    const BYTES: usize = TILE_BYTES;
    const VECTORS: usize = 1;
    const ROWS: usize = if S::BF16_CHAINS / O::CHAINS < 12 { S::BF16_CHAINS / O::CHAINS } else { 12 };

    #[inline(always)]
    unsafe fn tile<const R: usize>(p: TileProduct<Floats>) {
        // SAFETY: passed on to the caller.
        unsafe { S::bf16_tile::<O, R>(p) }
    }
}

/// `acc += x * w`. Where the set's own sums and products are used, the processor has been told that numbers that are too
/// small are zero.
#[inline(always)]
pub(super) unsafe fn product<S: Bf16, O: Order>(p: BlockProduct<Floats>) {
    // SAFETY: passed on to the caller.
    unsafe { blocks::product::<S, Bf16Blocks<O>>(p) }
}

/// `R` rows.
#[inline(always)]
pub(crate) unsafe fn register_tile<S: Bf16, O: Order, const R: usize>(p: &TileProduct<Floats>) {
    for group in 0..p.part.groups {
        // SAFETY: `p` describes valid memory; see `BlockProduct`.
        unsafe { multiply::<S, O, R>(p.block::<S, Bf16Blocks<O>>(group)) }
    }
}

/// Adds the products of a block with `R` groups to as many rows of sums.
#[inline(always)]
unsafe fn multiply<S: Bf16, O: Order, const R: usize>(at: OneBlock<Floats>) {
    let OneBlock { block, x, acc, acc_stride, .. } = at;
    // SAFETY: a block has the pairs of GROUP inputs; there are R groups and rows.
    unsafe {
        let sums = |r: usize| acc.add(r * acc_stride);
        let begin: [S::V; R] = std::array::from_fn(|r| O::begin::<S>(S::load(sums(r))));
        let mut chains = [begin; 2];
        for pair in 0..GROUP / 2 {
            let weights = block.cast::<u16>().add(pair * 2 * LANES);
            at.ask::<S>(weights.cast());
            chain::<S, R, true>(&mut chains[O::CHAINS - 1], x, pair, weights);
            chain::<S, R, false>(&mut chains[0], x, pair, weights);
        }
        let [even, odd] = chains;
        for (r, chains) in even.into_iter().zip(odd).enumerate() {
            S::store(sums(r), O::end::<S>(S::load(sums(r)), chains.into()));
        }
    }
}

/// The next product of a chain of `R` rows.
#[inline(always)]
unsafe fn chain<S: Bf16, const R: usize, const ODD: bool>(
    sums: &mut [S::V; R],
    x: *const Floats,
    pair: usize,
    weights: *const u16,
) {
    // SAFETY: `x` has R groups, `weights` the pairs of all lanes.
    unsafe {
        let weights = S::load_bf16::<ODD>(weights);
        for (r, sum) in sums.iter_mut().enumerate() {
            let input = S::splat(*x.add(r).cast::<f32>().add(2 * pair + usize::from(ODD)));
            *sum = S::fma_or_zero(input, weights, *sum);
        }
    }
}

/// The nearest bf16, ties to even; zero for what is no normal number. Its bits.
#[inline(always)]
pub(crate) fn round(value: f32) -> u16 {
    if value.abs() < f32::MIN_POSITIVE { bf16::from_f32(0.0_f32.copysign(value)) } else { bf16::from_f32(value) }
        .to_bits()
}

/// `a * b + c` for bf16 `a` and `b`, rounded once; zero, with its sign, where that would be no normal number.
///
/// A processor decides that by the result as it would be with exponents of any size. Next below the smallest normal number
/// that is finer than what a float can hold: the few sums there are computed again, exactly.
pub(super) fn fma_or_zero(a: f32, b: f32, c: f32) -> f32 {
    let sum = a.mul_add(b, c);
    if sum.abs() > f32::MIN_POSITIVE || sum.is_nan() {
        return sum;
    }
    let zero = 0.0_f32.copysign(sum);
    if sum.abs() < f32::MIN_POSITIVE {
        return zero;
    }
    // How far the exact sum is from the smallest normal number, outwards. Both steps are exact: `a * b` has 16 bits, and
    // `c` is zero or a normal number near it.
    let product = f64::from(a) * f64::from(b);
    let outwards = f64::from(sum.signum()) * (f64::from(c) - f64::from(sum) + product);
    // Half of what the last bit of the next smaller number would be worth.
    let half_a_step = f64::from(f32::MIN_POSITIVE) * 2.0_f64.powi(-25);
    if outwards >= -half_a_step { sum } else { zero }
}

/// `a + b`; zero, with its sign, where that is no normal number. Sums that small are exact.
pub(super) fn add_or_zero(a: f32, b: f32) -> f32 {
    let sum = a + b;
    if sum.abs() < f32::MIN_POSITIVE { 0.0_f32.copysign(sum) } else { sum }
}
