//! Tiles of bf16: sixteen rows of inputs times sixteen outputs, 32 inputs at a time, in one instruction.
//!
//! A panel of four strips is multiplied with sixteen rows at once, which keeps four tiles of sums busy. Sums stay in their
//! tiles over all groups of inputs. Each call sets the tiles up and gives them back: a thread that holds some is dear to
//! switch away from.

// One argument holds for every function below: the dispatcher in `super::super` offers tiles only where the processor has
// them and the kernel lets us, and pointers hold what `BlockProduct` says.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use super::super::bf16::{Bf16Group, TILE_BYTES, TILE_STRIPS};
use super::super::blocks::BlockProduct;
use super::super::simd::LANES;

/// Rows of a tile.
const TILE_ROWS: usize = 16;

/// Bytes of a row of a tile: sums of a strip's outputs, or their weights for two inputs.
const LINE_BYTES: usize = LANES * size_of::<f32>();

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
    /// Four tiles of sums and one of inputs with `rows` rows, three whole ones for weights.
    fn new(rows: usize) -> Self {
        let mut shapes = Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        shapes.row_bytes[..8].fill(64);
        shapes.rows[..TILE_STRIPS + 1].fill(rows as u8);
        shapes.rows[TILE_STRIPS + 1..8].fill(TILE_ROWS as u8);
        shapes
    }
}

/// Groups of inputs that all rows take before the next ones, where one tile does not hold all rows: their weights are read
/// again from the first cache.
const GROUPS_AT_ONCE: usize = 8;

/// `acc += x * w`.
pub(in super::super) unsafe fn product_bf16(p: BlockProduct<Bf16Group>) {
    assert!(p.strips.is_multiple_of(TILE_STRIPS), "panels hold whole fours of strips");
    let at_once = if p.rows <= TILE_ROWS { p.groups.max(1) } else { GROUPS_AT_ONCE };
    for strip in (0..p.strips).step_by(TILE_STRIPS) {
        for group in (0..p.groups).step_by(at_once) {
            for row in (0..p.rows).step_by(TILE_ROWS) {
                unsafe {
                    tiles(BlockProduct {
                        x: p.x.add(group * p.x_stride + row),
                        rows: TILE_ROWS.min(p.rows - row),
                        groups: at_once.min(p.groups - group),
                        w: p.w.add(strip * p.strip_stride + group * TILE_BYTES),
                        acc: p.acc.add(row * p.acc_stride + strip * LANES),
                        ..p
                    });
                }
            }
        }
    }
}

/// Up to sixteen rows times four strips, whose sums lie side by side.
unsafe fn tiles(p: BlockProduct<Bf16Group>) {
    let shapes = Shapes::new(p.rows);
    unsafe {
        let [w0, w1, w2, w3] = std::array::from_fn(|strip| p.w.add(strip * p.strip_stride));
        // Tiles 0 to 3 hold sums, 4 the inputs, 5 to 7 weights. All in one block: the compiler knows of no tiles.
        asm!(
            "ldtilecfg [{shapes}]",
            "tileloadd tmm0, [{acc} + {acc_stride}*1]",
            "tileloadd tmm1, [{acc} + {acc_stride}*1 + {line_bytes}]",
            "tileloadd tmm2, [{acc} + {acc_stride}*1 + 2 * {line_bytes}]",
            "tileloadd tmm3, [{acc} + {acc_stride}*1 + 3 * {line_bytes}]",
            "2:",
            "tileloadd tmm4, [{x} + {row}*1]",
            "tileloadd tmm5, [{w0} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm5",
            "tileloadd tmm6, [{w1} + {line}*1]",
            "tdpbf16ps tmm1, tmm4, tmm6",
            "tileloadd tmm7, [{w2} + {line}*1]",
            "tdpbf16ps tmm2, tmm4, tmm7",
            "tileloadd tmm5, [{w3} + {line}*1]",
            "tdpbf16ps tmm3, tmm4, tmm5",
            "add {x}, {x_step}",
            "add {w0}, {tile}",
            "add {w1}, {tile}",
            "add {w2}, {tile}",
            "add {w3}, {tile}",
            "dec {groups}",
            "jnz 2b",
            "tilestored [{acc} + {acc_stride}*1], tmm0",
            "tilestored [{acc} + {acc_stride}*1 + {line_bytes}], tmm1",
            "tilestored [{acc} + {acc_stride}*1 + 2 * {line_bytes}], tmm2",
            "tilestored [{acc} + {acc_stride}*1 + 3 * {line_bytes}], tmm3",
            "tilerelease",
            shapes = in(reg) &raw const shapes,
            acc = in(reg) p.acc,
            acc_stride = in(reg) p.acc_stride * size_of::<f32>(),
            x = inout(reg) p.x => _,
            w0 = inout(reg) w0 => _,
            w1 = inout(reg) w1 => _,
            w2 = inout(reg) w2 => _,
            w3 = inout(reg) w3 => _,
            groups = inout(reg) p.groups => _,
            row = in(reg) size_of::<Bf16Group>(),
            line = in(reg) LINE_BYTES,
            x_step = in(reg) p.x_stride * size_of::<Bf16Group>(),
            line_bytes = const LINE_BYTES,
            tile = const TILE_BYTES,
            options(nostack),
        );
    }
}
