//! Products of 8-bit or 4-bit weights with 8-bit inputs: exact integers within a group of [`GROUP`] inputs, scaled in f32.
//!
//! Weights and inputs are cut into groups along the inner dimension, each with a scale of its own. An output is
//! `sum over groups of (sum of products) * (input scale * weight scale)`: the inner sum is an integer and the same however
//! it is computed; the outer one adds groups in their order, by one fused multiply-add each. So all instruction sets have
//! the same bits, and a row's bits do not depend on other rows. Weights of 4 bits count from the smallest of their group,
//! which adds `smallest * sum of inputs` by a second multiply-add.
//!
//! Some processors multiply an unsigned with a signed byte only. So either the weights are made positive and their signs given
//! to the inputs, or [`OFFSET`] is added to the weights and the input's part of that, `OFFSET * sum of inputs`, taken away
//! again.

use super::ahead::Ahead;
use super::blocks::{self, BlockProduct, Format, GROUP, OneBlock, TileProduct};
use super::simd::{LANES, Simd};

/// Inputs of one output that lie side by side: as many products as one 32-bit sum takes at once.
pub(crate) const QUAD: usize = 4;

/// What makes a byte positive.
pub(super) const OFFSET: i32 = 128;

/// The largest weight and input, in size: both are scaled so that the largest of a group becomes this. Two products of this
/// size fit 16 bits together; -128 is no weight.
pub(crate) const LARGEST: f32 = 127.0;

/// A group of inputs of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct InputGroup {
    /// The inputs over the scale, rounded: -127..=127.
    pub(crate) quants: [i8; GROUP],
    /// What the quants were divided by.
    pub(crate) scale: f32,
    /// The sum of the quants times the scale.
    pub(crate) total: f32,
    /// What sums of products with weights made positive begin with: `-OFFSET * sum of quants`.
    pub(crate) offset: i32,
}

impl InputGroup {
    /// A group of zeros.
    pub(crate) const ZERO: Self = Self { quants: [0; GROUP], scale: 0.0, total: 0.0, offset: 0 };
}

/// Sixteen sums of products of bytes, on top of the lanes of [`Simd`].
pub(crate) trait Int8: Simd {
    /// Sixteen 32-bit integers.
    type Sums: Copy;
    /// What adds up products with weights of 4 bits, of one group at most.
    type NibbleSums: Copy;
    /// Four weights of each of sixteen outputs, ready to be multiplied.
    type Quads: Copy;
    /// Rows of a register tile, at most 12.
    const INT8_ROWS: usize;
    /// The most rows of a tile that have room for both vectors of a block; others take one vector after the other.
    const INT8_ROWS_OF_BOTH: usize = Self::INT8_ROWS;
    /// When weights are asked for.
    const INT8_AHEAD: Ahead = Ahead::USUAL;

    /// What sums of products with weights of 4 bits begin with.
    unsafe fn nibble_zero() -> Self::NibbleSums;
    /// What sums of products of signed weights begin with.
    unsafe fn begin(x: *const InputGroup) -> Self::Sums;
    /// [`LANES`] times [`QUAD`] signed weights from memory.
    unsafe fn load_quads(from: *const u8) -> Self::Quads;
    /// Twice as many weights of 4 bits, positive ones: those of the lower halves of bytes, and those of the upper ones.
    unsafe fn load_nibbles(from: *const u8) -> [Self::Quads; 2];
    /// Adds to each lane the products of its four signed weights with the four inputs of `x` from `quad * QUAD` on.
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums;
    /// The same with positive weights below 16.
    unsafe fn dot_nibbles(
        sums: Self::NibbleSums,
        weights: Self::Quads,
        x: *const InputGroup,
        quad: usize,
    ) -> Self::NibbleSums;
    /// The sums of a group.
    unsafe fn of_nibbles(sums: Self::NibbleSums) -> Self::Sums;
    /// As floats: exact, as the sums of a group are below 2^24.
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V;
    /// [`LANES`] 16-bit floats from memory.
    unsafe fn load_f16(from: *const u16) -> Self::V;
    /// [`register_tile`] compiled for this set.
    unsafe fn int8_tile<W: Weights, const R: usize>(p: TileProduct<InputGroup>);
}

/// Weights in a block that are multiplied with bytes.
pub(crate) trait Weights {
    /// Bytes of a block.
    const BYTES: usize;

    /// Adds the products of `N` vectors of a block, from `vector` on, with `R` groups to as many rows of sums.
    unsafe fn multiply<S: Int8, const N: usize, const R: usize>(at: OneBlock<InputGroup>, vector: usize);
}

/// Vectors of outputs of a block.
pub(crate) const VECTORS: usize = 2;

/// Outputs of a block.
pub(crate) const OUTPUTS: usize = VECTORS * LANES;

/// 8 bits each: a scale of 16 bits for each of [`OUTPUTS`], and then for each four inputs the four weights of each output.
/// So what is loaded at once lies within one line of the caches.
pub(crate) struct Q8;

/// 4 bits each: a scale of 16 bits for each of [`OUTPUTS`], as many smallest weights, and then for each eight inputs the
/// weights of each output, four bytes that hold the first four inputs' in their lower halves and the others' in their
/// upper ones. A weight is the smallest plus 0 to 15 times the scale.
pub(crate) struct Q4;

/// Bytes of a 16-bit number for each output of a block.
pub(crate) const SCALES_BYTES: usize = OUTPUTS * size_of::<u16>();

/// Bytes of a block of [`Q8`].
pub(crate) const Q8_BYTES: usize = SCALES_BYTES + OUTPUTS * GROUP;

/// Bytes of a block of [`Q4`].
pub(crate) const Q4_BYTES: usize = 2 * SCALES_BYTES + OUTPUTS * GROUP / 2;

/// Where the 16-bit numbers of a vector begin, among those of a block.
fn scales_of(vector: usize) -> usize {
    vector * LANES * size_of::<u16>()
}

/// Where the quads of a vector begin, among the `at`-th ones of a block.
fn quads_of(vector: usize, at: usize) -> usize {
    (at * VECTORS + vector) * LANES * QUAD
}

impl OneBlock<InputGroup> {
    /// Asks for the lines that 16-bit numbers of all outputs lie in: they are the first vector's to ask for.
    #[inline(always)]
    unsafe fn ask_for_scales<S: Simd>(&self, vector: usize, lines: usize) {
        if vector == 0 {
            // SAFETY: any address may be asked for.
            (0..lines).for_each(|line| unsafe { self.ask::<S>(self.block.wrapping_add(line * SCALES_BYTES)) });
        }
    }
}

impl Weights for Q8 {
    const BYTES: usize = Q8_BYTES;

    #[inline(always)]
    unsafe fn multiply<S: Int8, const N: usize, const R: usize>(at: OneBlock<InputGroup>, vector: usize) {
        // SAFETY: a block has BYTES bytes and N vectors from `vector` on; there are R groups and rows.
        unsafe {
            let mut sums = [[S::begin(at.x); N]; R];
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = [S::begin(at.x.add(r)); N];
            }
            at.ask_for_scales::<S>(vector, 1);
            let quads = at.block.add(SCALES_BYTES + quads_of(vector, 0));
            for quad in 0..GROUP / QUAD {
                let mut weights = [S::load_quads(quads.add(quads_of(0, quad))); N];
                for (n, weights) in weights.iter_mut().enumerate() {
                    let quads = quads.add(quads_of(n, quad));
                    at.ask::<S>(quads);
                    *weights = S::load_quads(quads);
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = S::dot(*sum, weights, at.x.add(r), quad);
                    }
                }
            }
            for n in 0..N {
                let scales = S::load_f16(at.block.add(scales_of(vector + n)).cast());
                for (r, sums) in sums.iter().enumerate() {
                    let acc = at.acc.add(r * at.acc_stride + (vector + n) * LANES);
                    let scale = S::mul(scales, S::splat((*at.x.add(r)).scale));
                    S::store(acc, S::fma(S::sums_to_f32(sums[n]), scale, S::load(acc)));
                }
            }
        }
    }
}

impl Weights for Q4 {
    const BYTES: usize = Q4_BYTES;

    #[inline(always)]
    unsafe fn multiply<S: Int8, const N: usize, const R: usize>(at: OneBlock<InputGroup>, vector: usize) {
        // SAFETY: as above.
        unsafe {
            let mut sums = [[S::nibble_zero(); N]; R];
            at.ask_for_scales::<S>(vector, 2);
            let quads = at.block.add(2 * SCALES_BYTES + quads_of(vector, 0));
            for eight in 0..GROUP / (2 * QUAD) {
                let mut weights = [S::load_nibbles(quads.add(quads_of(0, eight))); N];
                for (n, weights) in weights.iter_mut().enumerate() {
                    let quads = quads.add(quads_of(n, eight));
                    at.ask::<S>(quads);
                    *weights = S::load_nibbles(quads);
                }
                for half in 0..2 {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        for (sum, weights) in sums.iter_mut().zip(weights) {
                            *sum = S::dot_nibbles(*sum, weights[half], at.x.add(r), 2 * eight + half);
                        }
                    }
                }
            }
            for n in 0..N {
                let block = at.block.add(scales_of(vector + n));
                let [scales, smallest] = [S::load_f16(block.cast()), S::load_f16(block.add(SCALES_BYTES).cast())];
                for (r, sums) in sums.iter().enumerate() {
                    let (acc, x) = (at.acc.add(r * at.acc_stride + (vector + n) * LANES), &*at.x.add(r));
                    let sum = S::sums_to_f32(S::of_nibbles(sums[n]));
                    let scaled = S::fma(sum, S::mul(scales, S::splat(x.scale)), S::load(acc));
                    S::store(acc, S::fma(smallest, S::splat(x.total), scaled));
                }
            }
        }
    }
}

/// Blocks of such weights.
pub(crate) struct Int8Blocks<W>(std::marker::PhantomData<W>);

impl<S: Int8, W: Weights> Format<S> for Int8Blocks<W> {
    type Input = InputGroup;
    const BYTES: usize = W::BYTES;
    const VECTORS: usize = VECTORS;
    const ROWS: usize = S::INT8_ROWS;
    const AHEAD: Ahead = S::INT8_AHEAD;

    #[inline(always)]
    unsafe fn tile<const R: usize>(p: TileProduct<InputGroup>) {
        // SAFETY: passed on to the caller.
        unsafe { S::int8_tile::<W, R>(p) }
    }
}

/// `R` rows. Blocks are read one after the other, whether their vectors are taken at once or not.
#[inline(always)]
pub(crate) unsafe fn register_tile<S: Int8, W: Weights, const R: usize>(p: &TileProduct<InputGroup>) {
    for group in 0..p.part.groups {
        // SAFETY: `p` describes valid memory; see `BlockProduct`.
        unsafe {
            let block = p.block::<S, Int8Blocks<W>>(group);
            if R <= S::INT8_ROWS_OF_BOTH {
                W::multiply::<S, VECTORS, R>(block, 0);
            } else {
                for vector in 0..VECTORS {
                    W::multiply::<S, 1, R>(block, vector);
                }
            }
        }
    }
}

/// `acc += x * w`.
#[inline(always)]
pub(super) unsafe fn product<S: Int8, W: Weights>(p: BlockProduct<InputGroup>) {
    // SAFETY: passed on to the caller.
    unsafe { blocks::product::<S, Int8Blocks<W>>(p) }
}
