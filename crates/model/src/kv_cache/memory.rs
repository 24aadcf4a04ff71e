//! The memory of blocks, and where keys and values lie in them.

use std::cell::UnsafeCell;
use std::sync::OnceLock;

use super::block::{BLOCK, BlockId, BlockRow};
use crate::kernels::LANES;

/// Sizes that decide the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheShape {
    pub(crate) layers: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Most positions a sequence may have, tail included.
    pub(crate) context: usize,
}

impl CacheShape {
    /// Elements between two value rows: head_dim rounded up to whole vectors.
    fn value_stride(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    fn head_len(&self) -> usize {
        BLOCK * (self.head_dim + self.value_stride())
    }

    fn block_len(&self) -> usize {
        self.layers * self.kv_heads * self.head_len()
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_len() * size_of::<f32>()
    }

    /// Blocks of a whole context.
    pub(crate) fn context_blocks(&self) -> usize {
        self.context.div_ceil(BLOCK)
    }

    /// Where keys and values of a layer's head start inside a block.
    fn offsets(&self, layer: usize, head: usize) -> (usize, usize) {
        let keys = (layer * self.kv_heads + head) * self.head_len();
        (keys, keys + BLOCK * self.head_dim)
    }
}

/// Keys and values of [`BLOCK`] positions.
struct Block(Box<[UnsafeCell<f32>]>);

// SAFETY: it is touched through raw pointers alone, and the ledger says by whom: who writes a block is its only holder,
// and nobody writes one that is shared.
unsafe impl Sync for Block {}

/// The memory of a pool's blocks. A block gets some when it is first used and keeps it for whoever has it next.
pub(super) struct Memory {
    shape: CacheShape,
    blocks: Box<[OnceLock<Block>]>,
}

impl Memory {
    pub(super) fn new(shape: CacheShape, blocks: usize) -> Self {
        Self { shape, blocks: (0..blocks).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    fn block(&self, BlockId(block): BlockId) -> *mut f32 {
        let make = || Block((0..self.shape.block_len()).map(|_| UnsafeCell::new(0.0)).collect());
        UnsafeCell::raw_get(self.blocks[block].get_or_init(make).0.as_ptr())
    }

    /// Copies the keys and values of `rows` positions side by side, in all layers, from and to a place in a block each.
    ///
    /// # Safety
    /// Nobody else touches what is written, or writes what is read.
    pub(super) unsafe fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) {
        let (shape, dim, stride) = (self.shape, self.shape.head_dim, self.shape.value_stride());
        let ((source, i), (target, j)) = ((self.block(from.block), from.row), (self.block(to.block), to.row));
        assert!(i + rows <= BLOCK && j + rows <= BLOCK, "rows of one block");
        for (layer, head) in (0..shape.layers).flat_map(|l| (0..shape.kv_heads).map(move |h| (l, h))) {
            let (keys, values) = shape.offsets(layer, head);
            // SAFETY: key columns and value rows of places inside the blocks lie inside them.
            unsafe {
                for column in (0..dim).map(|d| keys + d * BLOCK) {
                    std::ptr::copy(source.add(column + i), target.add(column + j), rows);
                }
                std::ptr::copy(source.add(values + i * stride), target.add(values + j * stride), rows * stride);
            }
        }
    }

    /// The memory of one layer, for the kernels.
    pub(super) fn layer(&self, layer: usize, blocks: &[BlockId]) -> LayerCache {
        LayerCache { shape: self.shape, layer, blocks: blocks.iter().map(|&block| self.block(block)).collect() }
    }
}

/// Raw access to one layer's keys and values, for tasks that run side by side: each head's memory is its own.
pub(crate) struct LayerCache {
    shape: CacheShape,
    layer: usize,
    blocks: Vec<*mut f32>,
}

// SAFETY: the tasks of one parallel region either write different heads or only read.
unsafe impl Sync for LayerCache {}

impl LayerCache {
    /// Keys of `head` in block `block`: (head_dim, BLOCK).
    pub(crate) fn keys(&self, head: usize, block: usize) -> *mut f32 {
        // SAFETY: the offset lies inside the block.
        unsafe { self.blocks[block].add(self.shape.offsets(self.layer, head).0) }
    }

    /// Values of `head` from `slot` on, up to the end of its block: rows of `value_stride`.
    pub(crate) fn values(&self, head: usize, slot: usize) -> *mut f32 {
        let offset = self.shape.offsets(self.layer, head).1 + slot % BLOCK * self.shape.value_stride();
        // SAFETY: the offset lies inside the block.
        unsafe { self.blocks[slot / BLOCK].add(offset) }
    }

    /// Stores a key and a value (head_dim each).
    ///
    /// # Safety
    /// No other thread touches this head meanwhile, and the slot is one of the tail.
    pub(crate) unsafe fn store(&self, head: usize, slot: usize, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.shape.head_dim && value.len() == self.shape.head_dim, "one head's key and value");
        let keys = self.keys(head, slot / BLOCK);
        // SAFETY: head_dim columns of the key block and one value row lie inside the block.
        unsafe {
            key.iter().enumerate().for_each(|(d, k)| *keys.add(d * BLOCK + slot % BLOCK) = *k);
            std::ptr::copy_nonoverlapping(value.as_ptr(), self.values(head, slot), value.len());
        }
    }
}
