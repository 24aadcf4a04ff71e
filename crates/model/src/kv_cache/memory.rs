//! The memory of blocks, and where keys and values lie in them.

use std::cell::UnsafeCell;
use std::sync::OnceLock;

use super::block::{BLOCK, BlockId, BlockRow};
use super::format::KvFormat;
use super::layout::{Head, Place};

/// Sizes that decide the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheShape {
    pub(crate) layers: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Most positions a sequence may have, tail included.
    pub(crate) context: usize,
    pub(crate) format: KvFormat,
}

impl CacheShape {
    /// Bytes of a head's keys and values in a block.
    fn head_bytes(&self) -> usize {
        self.format.layout().key_bytes(self.head_dim) + self.format.layout().value_bytes(self.head_dim)
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.layers * self.kv_heads * self.head_bytes()
    }

    /// Blocks of a whole context.
    pub(crate) fn context_blocks(&self) -> usize {
        self.context.div_ceil(BLOCK)
    }

    /// The keys and values of a layer's head in the block at `block`.
    fn head(&self, block: *mut u8, layer: usize, head: usize) -> Head {
        let offset = (layer * self.kv_heads + head) * self.head_bytes();
        assert!(layer < self.layers && head < self.kv_heads, "a head of the model");
        // SAFETY: the head's bytes lie inside the block.
        let keys = unsafe { block.add(offset) };
        // SAFETY: as above.
        let values = unsafe { keys.add(self.format.layout().key_bytes(self.head_dim)) };
        Head { keys, values, dim: self.head_dim }
    }
}

/// What memory comes in: a line of the processor's caches.
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

const LINE_BYTES: usize = 64;

/// Keys and values of [`BLOCK`] positions.
struct Block(Box<[UnsafeCell<Line>]>);

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

    fn block(&self, BlockId(block): BlockId) -> *mut u8 {
        let lines = self.shape.block_bytes().div_ceil(LINE_BYTES);
        let make = || Block((0..lines).map(|_| UnsafeCell::new(Line([0; LINE_BYTES]))).collect());
        UnsafeCell::raw_get(self.blocks[block].get_or_init(make).0.as_ptr()).cast()
    }

    /// Copies the keys and values of `rows` positions side by side, in all layers, from and to a place in a block each.
    ///
    /// # Safety
    /// Nobody else touches what is written, or writes what is read.
    pub(super) unsafe fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) {
        assert!(from.row + rows <= BLOCK && to.row + rows <= BLOCK, "rows of one block");
        let (shape, source, target) = (self.shape, self.block(from.block), self.block(to.block));
        for (layer, head) in (0..shape.layers).flat_map(|l| (0..shape.kv_heads).map(move |h| (l, h))) {
            let from = Place { head: shape.head(source, layer, head), row: from.row };
            let to = Place { head: shape.head(target, layer, head), row: to.row };
            // SAFETY: rows of one block each; the rest is the caller's promise.
            unsafe { shape.format.layout().copy(from, to, rows) };
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
    blocks: Vec<*mut u8>,
}

// SAFETY: the tasks of one parallel region either write different heads or only read.
unsafe impl Sync for LayerCache {}

impl LayerCache {
    /// What keys and values are kept as.
    pub(crate) fn format(&self) -> KvFormat {
        self.shape.format
    }

    /// The keys and values of `head` in block `block`.
    pub(crate) fn head(&self, head: usize, block: usize) -> Head {
        self.shape.head(self.blocks[block], self.layer, head)
    }

    /// Stores a key and a value (head_dim each).
    ///
    /// # Safety
    /// No other thread touches this head meanwhile, and the slot is one of the tail.
    pub(crate) unsafe fn store(&self, head: usize, slot: usize, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.shape.head_dim && value.len() == self.shape.head_dim, "one head's key and value");
        // SAFETY: a row of a block; the rest is the caller's promise.
        unsafe { self.shape.format.layout().store(self.head(head, slot / BLOCK), slot % BLOCK, key, value) };
    }
}
