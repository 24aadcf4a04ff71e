//! The memory of blocks, and where keys and values lie in them.

use std::sync::OnceLock;

use super::block::{BLOCK, BlockId, BlockRow};
use super::cache_shape::CacheShape;
use super::device_memory::DeviceMemory;
use super::device_place::DevicePlace;
use super::fault::PoolFault;
use super::format::KvFormat;
use super::layout::{Head, Place};
use crate::arena::Slab;

/// Where keys and values are kept.
pub(crate) enum KvPlace {
    /// In the machine's memory, as kernels take them.
    Host,
    /// In that of devices.
    Devices(DevicePlace),
}

/// Blocks begin at multiples of this: of a line of the processor's caches.
const ALIGNMENT: usize = 64;

/// Most bytes of a chunk, unless one block has more. They are taken page by page.
const CHUNK_BYTES: usize = 64 << 20;

/// Memory of the machine for blocks, side by side on huge pages.
struct Chunks {
    /// A chunk is made when one of its blocks is first used, and kept for whoever has that next.
    chunks: Box<[OnceLock<Slab<u8>>]>,
    /// Blocks of a chunk.
    blocks: usize,
    /// Bytes from a block to the next one.
    stride: usize,
}

impl Chunks {
    /// For so many blocks of so many bytes.
    fn new(blocks: usize, bytes: usize) -> Self {
        let stride = bytes.max(1).next_multiple_of(ALIGNMENT);
        let of_chunk = (CHUNK_BYTES / stride).clamp(1, blocks.max(1));
        let chunks = (0..blocks.div_ceil(of_chunk)).map(|_| OnceLock::new()).collect();
        Self { chunks, blocks: of_chunk, stride }
    }

    /// Where a block begins. It is touched through raw pointers alone, and the ledger says by whom: who writes a block is
    /// its only holder, and nobody writes one that is shared.
    fn block(&self, block: usize) -> *mut u8 {
        let chunk = self.chunks[block / self.blocks].get_or_init(|| Slab::alone(self.blocks * self.stride));
        chunk.start().wrapping_add(block % self.blocks * self.stride)
    }
}

/// The memory of a pool's blocks.
pub(super) struct Memory {
    shape: CacheShape,
    store: Store,
}

enum Store {
    /// It is there from the first use of a block on.
    Host(Chunks),
    /// All of it is there from the first use on.
    Devices(DeviceMemory),
}

impl Memory {
    pub(super) fn new(shape: CacheShape, place: &KvPlace, blocks: usize) -> Self {
        let store = match place {
            KvPlace::Host => Store::Host(Chunks::new(blocks, shape.block_bytes())),
            KvPlace::Devices(place) => Store::Devices(DeviceMemory::new(shape, place, blocks)),
        };
        Self { shape, store }
    }

    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// The memory of a block on the host.
    fn block(&self, BlockId(block): BlockId) -> *mut u8 {
        match &self.store {
            Store::Host(chunks) => chunks.block(block),
            Store::Devices(_) => std::ptr::null_mut(),
        }
    }

    /// Copies the keys and values of `rows` positions side by side, in all layers, from and to a place in a block each.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// Nobody else touches what is written, or writes what is read.
    pub(super) unsafe fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> Result<(), PoolFault> {
        assert!(from.row + rows <= BLOCK && to.row + rows <= BLOCK, "rows of one block");
        if let Store::Devices(memory) = &self.store {
            return memory.copy(from, to, rows);
        }
        let (shape, source, target) = (self.shape, self.block(from.block), self.block(to.block));
        for (layer, head) in (0..shape.layers).flat_map(|l| (0..shape.kv_heads).map(move |h| (l, h))) {
            let from = Place { head: shape.head(source, layer, head), row: from.row };
            let to = Place { head: shape.head(target, layer, head), row: to.row };
            // SAFETY: rows of one block each; the rest is the caller's promise.
            unsafe { shape.format.layout().copy(from, to, rows) };
        }
        Ok(())
    }

    /// The memory of one layer, for the kernels.
    pub(super) fn layer(&self, layer: usize, blocks: &[BlockId]) -> LayerCache {
        LayerCache { shape: self.shape, layer, blocks: blocks.iter().map(|&block| self.block(block)).collect() }
    }

    /// Memory on devices, if that is where it is.
    pub(super) fn devices(&self) -> Option<&DeviceMemory> {
        match &self.store {
            Store::Devices(memory) => Some(memory),
            Store::Host(_) => None,
        }
    }
}

/// Raw access to one layer's keys and values, for tasks that run side by side: each slot of a head has memory of its own.
pub(crate) struct LayerCache {
    shape: CacheShape,
    layer: usize,
    blocks: Vec<*mut u8>,
}

// SAFETY: the tasks of one parallel region either write different slots and heads or only read.
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
    /// Nobody else touches the slot of this head meanwhile, and it is one of the tail.
    pub(crate) unsafe fn store(&self, head: usize, slot: usize, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.shape.head_dim && value.len() == self.shape.head_dim, "one head's key and value");
        // SAFETY: a row of a block; the rest is the caller's promise.
        unsafe { self.shape.format.layout().store(self.head(head, slot / BLOCK), slot % BLOCK, key, value) };
    }
}
