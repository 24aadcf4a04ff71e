//! Tiles of bf16: sixteen rows of inputs times sixteen outputs, 32 inputs at a time, in one instruction.
//!
//! Sums stay in their tiles over all groups of inputs. Each call sets the tiles up and gives them back: a thread that holds
//! some is dear to switch away from.

// One argument holds for every function below: the dispatcher in `super::super` offers tiles only where the processor has
// them and the kernel lets us, and pointers hold what `BlockProduct` says.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use super::super::bf16::{LINE_BYTES, TILE_BYTES, TILE_STRIPS};
use super::super::blocks::{BlockProduct, clear};
use super::super::simd::LANES;
use super::bits::Bits;

/// Rows of a tile.
const TILE_ROWS: usize = 16;

const _: () = assert!(LINE_BYTES == LANES * size_of::<f32>(), "a row of a tile is a line: inputs, weights or sums");

/// Whether the processor multiplies tiles of bf16 and the operating system lets this process use them.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| in_processor() && kept_by_system() && permitted())
}

fn in_processor() -> bool {
    const BF16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    let leaves = __cpuid_count(0, 0).eax;
    leaves >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILES) == BF16 | TILES
}

/// Whether the system saves tiles when it switches threads.
fn kept_by_system() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const TILES: u64 = 0b11 << 17;
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        unsafe { _xgetbv(0) }
    }
    let saves = __cpuid_count(1, 0).ecx & OSXSAVE != 0;
    // SAFETY: the processor has the instruction, as the system uses it.
    saves && unsafe { enabled() } & TILES == TILES
}

/// Linux gives room for tiles to those who ask, once for all threads of a process.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let result: i64;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The shapes of tiles, as the processor reads them.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Eight tiles of whole rows, of which there are so many in each; none where a tile is not used.
    fn new(rows: [usize; 8]) -> Self {
        let mut shapes = Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for (tile, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            (shapes.row_bytes[tile], shapes.rows[tile]) = (LINE_BYTES as u16, rows as u8);
        }
        shapes
    }

    /// Tiles have these shapes until [`release`].
    unsafe fn set(&self) {
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags)) };
    }
}

/// Asks for the cache lines of a tile at `{ahead}`, for the cache that `$into` names, and moves on behind them.
macro_rules! ask_ahead {
    ($into:literal) => {
        concat!(
            ask_ahead!($into, 0, 64, 128, 192, 256, 320, 384, 448),
            ask_ahead!($into, 512, 576, 640, 704, 768, 832, 896, 960),
            "add {ahead}, 1024\n",
        )
    };
    ($into:literal, $($at:literal),*) => {
        concat!($("prefetch", $into, " [{ahead} + ", $at, "]\n"),*)
    };
    () => {
        ""
    };
}

/// A thread that holds tiles is dear to switch away from.
unsafe fn release() {
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// `acc += x * w`.
pub(in super::super) unsafe fn product_bf16(p: BlockProduct<Bits>) {
    assert!(p.strips.is_multiple_of(TILE_STRIPS), "strips come in twos");
    if p.groups == 0 {
        // Nothing to add: tiles are stored after the first group.
        return unsafe { clear(&p, p.strips * LANES) };
    }
    unsafe {
        // A strip serves two tiles of rows while it comes from memory. More rows would have it wait for the products, so
        // they take two strips at a time, which come again from the second cache for the next two tiles.
        let whole = if p.rows > 2 * TILE_ROWS { p.rows / (2 * TILE_ROWS) * (2 * TILE_ROWS) } else { 0 };
        if whole > 0 {
            pairs(part(&p, 0, whole));
        }
        if p.rows > whole {
            columns(part(&p, whole, p.rows - whole));
        }
        release();
    }
}

/// The product of some of the rows.
unsafe fn part(p: &BlockProduct<Bits>, first: usize, rows: usize) -> BlockProduct<Bits> {
    unsafe { BlockProduct { x: p.x.add(first), rows, acc: p.acc.add(first * p.acc_stride), ..*p } }
}

/// Two tiles of rows times two strips: each tile that is loaded is used twice.
macro_rules! two_by_two {
    ($p:expr, $at:expr, $ask:expr) => {
        // Tiles 0 to 3 hold sums, row by row, 4 and 5 inputs, 6 and 7 weights. All in one block: the compiler knows of no
        // tiles.
        asm!(
            "test {zeros}, {zeros}",
            "jnz 3f",
            "tileloadd tmm0, [{acc} + {acc_stride}*1]",
            "tileloadd tmm1, [{acc} + {acc_stride}*1 + {line_bytes}]",
            "tileloadd tmm2, [{below} + {acc_stride}*1]",
            "tileloadd tmm3, [{below} + {acc_stride}*1 + {line_bytes}]",
            "jmp 2f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{x0} + {line}*1]",
            "tileloadd tmm6, [{w0} + {line}*1]",
            "tileloadd tmm7, [{w1} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{x1} + {line}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            $ask,
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {x0}, {x_step}",
            "add {x1}, {x_step}",
            "add {w0}, {tile}",
            "add {w1}, {tile}",
            "dec {groups}",
            "jnz 2b",
            "tilestored [{acc} + {acc_stride}*1], tmm0",
            "tilestored [{acc} + {acc_stride}*1 + {line_bytes}], tmm1",
            "tilestored [{below} + {acc_stride}*1], tmm2",
            "tilestored [{below} + {acc_stride}*1 + {line_bytes}], tmm3",
            "/* {ahead} */",
            zeros = in(reg) usize::from($p.onto_zeros),
            acc = in(reg) $at.acc,
            below = in(reg) $at.acc.add(TILE_ROWS * $p.acc_stride),
            acc_stride = in(reg) $p.acc_stride * size_of::<f32>(),
            x0 = inout(reg) $at.x => _,
            x1 = inout(reg) $at.x.add(TILE_ROWS) => _,
            w0 = inout(reg) $at.w => _,
            w1 = inout(reg) $at.w.wrapping_add($p.strip_stride) => _,
            ahead = inout(reg) $at.ahead => _,
            groups = inout(reg) $p.groups => _,
            line = in(reg) LINE_BYTES,
            x_step = in(reg) $p.x_stride * LINE_BYTES,
            line_bytes = const LINE_BYTES,
            tile = const TILE_BYTES,
            options(nostack),
        )
    };
}

/// Where a block of tiles begins.
struct At {
    x: *const Bits,
    w: *const u8,
    acc: *mut f32,
    /// Weights that come later.
    ahead: *const u8,
}

/// Rows in twos of whole tiles, times two strips at a time.
unsafe fn pairs(p: BlockProduct<Bits>) {
    unsafe {
        Shapes::new([TILE_ROWS; 8]).set();
        for strip in (0..p.strips).step_by(2) {
            let w = p.w.add(strip * p.strip_stride);
            for row in (0..p.rows).step_by(2 * TILE_ROWS) {
                // Each two tiles of rows ask for one of the next two strips.
                let ahead = w.wrapping_add((2 + row / (2 * TILE_ROWS)) * p.strip_stride);
                let at = At { x: p.x.add(row), w, acc: p.acc.add(row * p.acc_stride + strip * LANES), ahead };
                if p.prefetch {
                    two_by_two!(p, at, ask_ahead!("t1"));
                } else {
                    two_by_two!(p, at, ask_ahead!());
                }
            }
        }
    }
}

/// How far ahead of its use a strip's weights are asked for.
const AHEAD_BYTES: usize = 8 * TILE_BYTES;

/// Up to a tile of rows times a strip.
macro_rules! one_by_one {
    ($p:expr, $at:expr, $ask:expr) => {
        // Tile 0 holds sums, 4 inputs, 6 weights.
        asm!(
            "tilezero tmm0",
            "test {zeros}, {zeros}",
            "jnz 2f",
            "tileloadd tmm0, [{acc} + {acc_stride}*1]",
            "2:",
            "tileloadd tmm6, [{w} + {line}*1]",
            "tileloadd tmm4, [{x} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            $ask,
            "add {x}, {x_step}",
            "add {w}, {tile}",
            "dec {groups}",
            "jnz 2b",
            "tilestored [{acc} + {acc_stride}*1], tmm0",
            "/* {ahead} */",
            zeros = in(reg) usize::from($p.onto_zeros),
            acc = in(reg) $at.acc,
            acc_stride = in(reg) $p.acc_stride * size_of::<f32>(),
            x = inout(reg) $at.x => _,
            w = inout(reg) $at.w => _,
            ahead = inout(reg) $at.ahead => _,
            groups = inout(reg) $p.groups => _,
            line = in(reg) LINE_BYTES,
            x_step = in(reg) $p.x_stride * LINE_BYTES,
            tile = const TILE_BYTES,
            options(nostack),
        )
    };
}

/// A tile of rows and up to another one, times a strip.
macro_rules! two_by_one {
    ($p:expr, $at:expr, $ask:expr) => {
        // Tiles 0 and 2 hold sums, 4 and 5 inputs, 6 weights.
        asm!(
            "tilezero tmm0",
            "tilezero tmm2",
            "test {zeros}, {zeros}",
            "jnz 2f",
            "tileloadd tmm0, [{acc} + {acc_stride}*1]",
            "tileloadd tmm2, [{below} + {acc_stride}*1]",
            "2:",
            "tileloadd tmm6, [{w} + {line}*1]",
            "tileloadd tmm4, [{x0} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{x1} + {line}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            $ask,
            "add {x0}, {x_step}",
            "add {x1}, {x_step}",
            "add {w}, {tile}",
            "dec {groups}",
            "jnz 2b",
            "tilestored [{acc} + {acc_stride}*1], tmm0",
            "tilestored [{below} + {acc_stride}*1], tmm2",
            "/* {ahead} */",
            zeros = in(reg) usize::from($p.onto_zeros),
            acc = in(reg) $at.acc,
            below = in(reg) $at.acc.add(TILE_ROWS * $p.acc_stride),
            acc_stride = in(reg) $p.acc_stride * size_of::<f32>(),
            x0 = inout(reg) $at.x => _,
            x1 = inout(reg) $at.x.add(TILE_ROWS) => _,
            w = inout(reg) $at.w => _,
            ahead = inout(reg) $at.ahead => _,
            groups = inout(reg) $p.groups => _,
            line = in(reg) LINE_BYTES,
            x_step = in(reg) $p.x_stride * LINE_BYTES,
            tile = const TILE_BYTES,
            options(nostack),
        )
    };
}

/// Up to two tiles of rows, times a strip at a time: weights are read from front to back.
unsafe fn columns(p: BlockProduct<Bits>) {
    let (first, second) = (p.rows.min(TILE_ROWS), p.rows.saturating_sub(TILE_ROWS));
    unsafe {
        Shapes::new([first, first, second, second, first, second, TILE_ROWS, TILE_ROWS]).set();
        for strip in 0..p.strips {
            let w = p.w.add(strip * p.strip_stride);
            let at = At { x: p.x, w, acc: p.acc.add(strip * LANES), ahead: w.wrapping_add(AHEAD_BYTES) };
            match (second > 0, p.prefetch) {
                (true, true) => two_by_one!(p, at, ask_ahead!("t0")),
                (true, false) => two_by_one!(p, at, ask_ahead!()),
                (false, true) => one_by_one!(p, at, ask_ahead!("t0")),
                (false, false) => one_by_one!(p, at, ask_ahead!()),
            }
        }
    }
}
