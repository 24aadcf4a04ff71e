//! What kernels take: the structures of the same names in `kernels/`.

use super::partition::PARTS_MAX;

/// A structure that a kernel takes by value.
///
/// # Safety
/// It is laid out as C does it, and has no padding between its fields.
pub(super) unsafe trait Arguments: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: all of it is initialized, as implementations promise.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! arguments {
    ($($name:ident { $($field:ident: $kind:ty),+ $(,)? })+) => {$(
        #[doc = concat!("What the kernels of `", stringify!($name), "` take.")]
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name { $(pub(super) $field: $kind),+ }
        // SAFETY: addresses come first, and numbers of 4 bytes after them, filled up to an even count.
        unsafe impl Arguments for $name {}
    )+};
}

arguments! {
    Product {
        weights: u64, x: u64, sums: u64, units: u64, bias: u64,
        tiles: i32, wide: i32, steps: i32, each: i32, splits: i32, outputs: i32, rows: i32, activation: i32,
        unit_steps: i32, places: i32,
    }
    Pack { from: u64, to: u64, outputs: i32, inputs: i32, steps: i32, wide: i32, first: i32, alternate: i32 }
    Embed { tokens: u64, embedding: u64, x: u64, sums: u64, width: i32, first: i32, count: i32, filler: i32 }
    Keep { rows: u64, from: u64, to: u64, width: i32, filler: i32 }
    AddNorm {
        x: u64, sums: u64, given: u64, turns: u64, bias: u64, weight: u64, weight_bias: u64, normed: u64,
        eps: f32, width: i32, parts: i32, rows: i32, is_centred: i32, steps: i32, tiles: i32, filler: i32,
    }
    Give {
        sums: u64, bias: u64, inboxes: [u64; PARTS_MAX], given: [u64; PARTS_MAX], turns: u64,
        width: i32, splits: i32, rows: i32, most_rows: i32, rank: i32, ranks: i32,
    }
    Heads {
        sums: u64, bias: u64, query_norm: u64, key_norm: u64, rotations: u64, queries: u64, at: u64, lists: u64,
        eps: f32, scale: f32, size: i32, heads: i32, kv_heads: i32, rotated: i32, splits: i32, rows: i32,
        is_centred: i32, layer: i32,
    }
    Attend {
        queries: u64, parts: u64, out: u64, at: u64, lists: u64,
        heads: i32, kv_heads: i32, size: i32, layer: i32, beside: i32, window: i32, part_count: i32, steps: i32,
        tiles: i32, first_row: i32, rows: i32, filler: i32,
    }
    Decide { logits: u64, said: u64, wanted: u64, vocabulary: i32, count: i32, first: i32, filler: i32 }
    MoveRows { moves: u64, lists: u64, count: i32, width: i32 }
    AddBias { rows: u64, bias: u64, width: i32, filler: i32 }
}
