//! Products whose weights lie in blocks: the walk over strips, groups of inputs and rows that all such formats share.
//!
//! A panel is cut into strips of [`LANES`] outputs, a strip into blocks of one group of [`GROUP`] inputs each. What a
//! block holds, and how it is multiplied, is a [`Format`]'s.

use super::simd::{LANES, Simd};

/// Inputs of a block.
pub(crate) const GROUP: usize = 32;

/// What a product reads and writes. `x`: groups of inputs, those of `rows` rows side by side, the next ones `x_stride`
/// elements on; `w`: `strips` of [`LANES`] outputs, `strip_stride` bytes apart, each of `groups` blocks; `acc`: rows of
/// `acc_stride` elements, which are added to; `prefetch`: whether weights are asked for before they are needed.
pub(crate) struct BlockProduct<X> {
    pub(crate) x: *const X,
    pub(crate) x_stride: usize,
    pub(crate) rows: usize,
    pub(crate) groups: usize,
    pub(crate) w: *const u8,
    pub(crate) strip_stride: usize,
    pub(crate) strips: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
    pub(crate) prefetch: bool,
}

// Pointers and numbers, whatever they point to.
impl<X> Clone for BlockProduct<X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<X> Copy for BlockProduct<X> {}

/// A block, the groups of some rows side by side, and the sums that their products are added to, rows of `acc_stride`
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct OneBlock<X> {
    pub(super) block: *const u8,
    pub(super) x: *const X,
    pub(super) acc: *mut f32,
    pub(super) acc_stride: usize,
}

/// What blocks of weights hold, to be multiplied by the instructions of `S`.
pub(crate) trait Format<S: Simd> {
    /// A group of inputs of one row.
    type Input;
    /// Bytes of a block.
    const BYTES: usize;
    /// Rows of a register tile, at most 12.
    const ROWS: usize;

    /// One strip and `R` rows.
    unsafe fn tile<const R: usize>(p: BlockProduct<Self::Input>);
}

/// How far ahead of its use a weight is asked for: far enough that it is there, near enough that memory serves few places at
/// a time.
const PREFETCH_BYTES: usize = 2048;

/// Bytes that memory hands out at a time.
const CACHE_LINE: usize = 64;

/// Groups that all rows take before the next ones, whose weights come from memory meanwhile.
const GROUPS_AT_ONCE: usize = 8;

impl<X> BlockProduct<X> {
    /// The block of `bytes` bytes of a group, in the first strip; those that come some blocks later are asked for.
    #[inline(always)]
    pub(super) unsafe fn block<S: Simd>(&self, group: usize, bytes: usize) -> OneBlock<X> {
        // SAFETY: the caller names a group of the product.
        unsafe {
            let block = self.w.add(group * bytes);
            self.ask_ahead::<S>(block, bytes);
            OneBlock { block, x: self.x.add(group * self.x_stride), acc: self.acc, acc_stride: self.acc_stride }
        }
    }

    /// Asks for the block of `bytes` bytes that will be used some blocks after the one at `block`.
    #[inline(always)]
    pub(super) unsafe fn ask_ahead<S: Simd>(&self, block: *const u8, bytes: usize) {
        if self.prefetch {
            for line in 0..bytes.div_ceil(CACHE_LINE) {
                // SAFETY: any address may be asked for.
                unsafe { S::prefetch(block.wrapping_add(PREFETCH_BYTES + line * CACHE_LINE)) };
            }
        }
    }
}

/// `acc += x * w`.
#[inline(always)]
pub(super) unsafe fn product<S: Simd, F: Format<S>>(p: BlockProduct<F::Input>) {
    for at in 0..p.strips {
        for from in (0..p.groups).step_by(GROUPS_AT_ONCE) {
            // SAFETY: these are strips and groups of the product.
            unsafe {
                strip::<S, F>(BlockProduct {
                    x: p.x.add(from * p.x_stride),
                    groups: GROUPS_AT_ONCE.min(p.groups - from),
                    w: p.w.add(at * p.strip_stride + from * F::BYTES),
                    acc: p.acc.add(at * LANES),
                    ..p
                });
            }
        }
    }
}

/// [`Format::tile`] as a function of its own, as in `super::tile`.
#[inline(never)]
unsafe fn apart<S: Simd, F: Format<S>, const R: usize>(p: BlockProduct<F::Input>) {
    // SAFETY: passed on to the caller.
    unsafe { F::tile::<R>(p) }
}

/// A strip over all rows, in register tiles of about equal height.
#[inline(always)]
unsafe fn strip<S: Simd, F: Format<S>>(mut p: BlockProduct<F::Input>) {
    let mut left = p.rows;
    while left > 0 {
        let height = left.div_ceil(left.div_ceil(F::ROWS));
        // SAFETY: the rows of `p` are walked once.
        unsafe {
            match height {
                1 => apart::<S, F, 1>(p),
                2 => apart::<S, F, 2>(p),
                3 => apart::<S, F, 3>(p),
                4 => apart::<S, F, 4>(p),
                5 => apart::<S, F, 5>(p),
                6 => apart::<S, F, 6>(p),
                7 => apart::<S, F, 7>(p),
                8 => apart::<S, F, 8>(p),
                9 => apart::<S, F, 9>(p),
                10 => apart::<S, F, 10>(p),
                11 => apart::<S, F, 11>(p),
                _ => apart::<S, F, 12>(p),
            }
            p.x = p.x.add(height);
            p.acc = p.acc.add(height * p.acc_stride);
        }
        // Others find the weights where the first tile had them put.
        p.prefetch = false;
        left -= height;
    }
}
