//! Products whose weights lie in blocks: the walk over strips, groups of inputs and rows that all such formats share.
//!
//! A panel is cut into strips of one or two vectors of outputs, a strip into blocks of one group of [`GROUP`] inputs each, so
//! it is read from front to back. What a block holds, and how it is multiplied, is a [`Format`]'s.

use super::ahead::Ahead;
use super::simd::{LANES, Simd};

/// Inputs of a block.
pub(crate) const GROUP: usize = 32;

/// What a product reads and writes. `x`: groups of inputs, those of `rows` rows side by side, the next ones `x_stride`
/// groups on; `w`: `strips` of outputs, `strip_stride` bytes apart, each of `groups` blocks; `acc`: rows of `acc_stride`
/// elements, which are added to, or written if the sum is `onto_zeros`; `prefetch`: whether weights are asked for before
/// they are needed.
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
    pub(crate) onto_zeros: bool,
    pub(crate) prefetch: bool,
}

// Pointers and numbers, whatever they point to.
impl<X> Clone for BlockProduct<X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<X> Copy for BlockProduct<X> {}

impl<X> BlockProduct<X> {
    /// The same of groups that are kept as something else.
    pub(super) fn of<Y>(self) -> BlockProduct<Y> {
        let Self { x, x_stride, rows, groups, w, strip_stride, strips, acc, acc_stride, onto_zeros, prefetch } = self;
        let x = x.cast::<Y>();
        BlockProduct { x, x_stride, rows, groups, w, strip_stride, strips, acc, acc_stride, onto_zeros, prefetch }
    }
}

/// A block, the groups of some rows side by side, and the sums that their products are added to, rows of `acc_stride`
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct OneBlock<X> {
    pub(super) block: *const u8,
    pub(super) x: *const X,
    pub(super) acc: *mut f32,
    pub(super) acc_stride: usize,
    /// How many bytes further on than the lines that are loaded others are asked for; none where nothing is.
    pub(super) ahead: Option<usize>,
}

impl<X> OneBlock<X> {
    /// Asks for the line ahead of the one at `at`, if this walk asks.
    #[inline(always)]
    pub(super) unsafe fn ask<S: Simd>(&self, at: *const u8) {
        // SAFETY: any address may be asked for.
        unsafe { S::ask(at, self.ahead) }
    }
}

/// What blocks of weights hold, to be multiplied by the instructions of `S`.
pub(crate) trait Format<S: Simd> {
    /// A group of inputs of one row.
    type Input;
    /// Bytes of a block.
    const BYTES: usize;
    /// Vectors of outputs of a strip.
    const VECTORS: usize;
    /// Rows of a register tile, at most 16.
    const ROWS: usize;
    /// When weights are asked for.
    const AHEAD: Ahead = Ahead::USUAL;

    /// All vectors of a strip and `R` rows.
    unsafe fn tile<const R: usize>(p: TileProduct<Self::Input>);
}

/// The part of a product of one strip that a register tile walks.
pub(crate) struct TileProduct<X> {
    /// The product from the tile's first row on.
    pub(super) part: BlockProduct<X>,
    /// How early it asks for weights: of the tiles that walk the same strip the first one does.
    ahead: Option<usize>,
}

/// Groups that all rows take before the next ones, whose weights come from memory meanwhile.
const GROUPS_AT_ONCE: usize = 8;

impl<X> TileProduct<X> {
    /// The block of a group.
    #[inline(always)]
    pub(super) unsafe fn block<S: Simd, F: Format<S>>(&self, group: usize) -> OneBlock<X> {
        let BlockProduct { x, x_stride, w, acc, acc_stride, .. } = self.part;
        // SAFETY: the caller names a group of the product.
        unsafe {
            let (block, x) = (w.add(group * F::BYTES), x.add(group * x_stride));
            OneBlock { block, x, acc, acc_stride, ahead: self.ahead }
        }
    }
}

/// Makes the sums of all rows zeros, so many elements each, if they begin with those.
#[inline(always)]
pub(super) unsafe fn clear<X>(p: &BlockProduct<X>, width: usize) {
    if p.onto_zeros {
        // SAFETY: the sums of a row.
        (0..p.rows).for_each(|row| unsafe { std::ptr::write_bytes(p.acc.add(row * p.acc_stride), 0, width) });
    }
}

/// `acc += x * w`.
#[inline(always)]
pub(super) unsafe fn product<S: Simd, F: Format<S>>(p: BlockProduct<F::Input>) {
    // SAFETY: the sums of all strips.
    unsafe { clear(&p, p.strips * F::VECTORS * LANES) };
    for strip in 0..p.strips {
        for group in (0..p.groups).step_by(GROUPS_AT_ONCE) {
            // SAFETY: these are strips and groups of the product.
            unsafe {
                tiles::<S, F>(BlockProduct {
                    x: p.x.add(group * p.x_stride),
                    groups: GROUPS_AT_ONCE.min(p.groups - group),
                    w: p.w.add(strip * p.strip_stride + group * F::BYTES),
                    acc: p.acc.add(strip * F::VECTORS * LANES),
                    ..p
                });
            }
        }
    }
}

/// [`Format::tile`] as a function of its own, as in `super::tile`.
#[inline(never)]
unsafe fn apart<S: Simd, F: Format<S>, const R: usize>(p: TileProduct<F::Input>) {
    // SAFETY: passed on to the caller.
    unsafe { F::tile::<R>(p) }
}

/// Some groups of a strip over all rows, in register tiles of about equal height.
#[inline(always)]
unsafe fn tiles<S: Simd, F: Format<S>>(strip: BlockProduct<F::Input>) {
    let heights = strip.rows.div_ceil(F::ROWS);
    for tile in 0..heights {
        // The first of them are one row higher where rows do not divide.
        let (low, higher) = (strip.rows / heights, strip.rows % heights);
        let (first, height) = (tile * low + tile.min(higher), low + usize::from(tile < higher));
        // SAFETY: each row is walked once.
        unsafe {
            let (x, acc) = (strip.x.add(first), strip.acc.add(first * strip.acc_stride));
            let ahead = if strip.prefetch && tile == 0 { F::AHEAD.of_rows(strip.rows) } else { None };
            let p = TileProduct { part: BlockProduct { x, acc, ..strip }, ahead };
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
                12 => apart::<S, F, 12>(p),
                13 => apart::<S, F, 13>(p),
                14 => apart::<S, F, 14>(p),
                15 => apart::<S, F, 15>(p),
                _ => apart::<S, F, 16>(p),
            }
        }
    }
}
