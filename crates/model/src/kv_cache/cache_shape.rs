//! Sizes of a cache, and where they put the keys and values of a head in a block.

use super::block::BLOCK;
use super::format::KvFormat;
use super::layout::Head;

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
    pub(super) fn head(&self, block: *mut u8, layer: usize, head: usize) -> Head {
        let offset = (layer * self.kv_heads + head) * self.head_bytes();
        assert!(layer < self.layers && head < self.kv_heads, "a head of the model");
        // SAFETY: the head's bytes lie inside the block.
        let keys = unsafe { block.add(offset) };
        // SAFETY: as above.
        let values = unsafe { keys.add(self.format.layout().key_bytes(self.head_dim)) };
        Head { keys, values, dim: self.head_dim }
    }
}
