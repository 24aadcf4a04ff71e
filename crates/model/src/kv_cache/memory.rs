//! The memory of blocks, and where keys and values lie in them.

use std::cell::UnsafeCell;
use std::sync::OnceLock;

use super::block::{BLOCK, BlockId, BlockRow};
use super::cache_shape::CacheShape;
use super::device_memory::DeviceMemory;
use super::device_place::DevicePlace;
use super::fault::PoolFault;
use super::format::KvFormat;
use super::layout::{Head, Place};

/// Where keys and values are kept.
pub(crate) enum KvPlace {
    /// In the machine's memory, as kernels take them.
    Host,
    /// In that of devices.
    Devices(DevicePlace),
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

impl Block {
    fn new(shape: &CacheShape) -> Self {
        let lines = shape.block_bytes().div_ceil(LINE_BYTES);
        let block = Self((0..lines).map(|_| UnsafeCell::new(Line([0; LINE_BYTES]))).collect());
        for (layer, head) in shape.layers_and_heads() {
            // SAFETY: the head's memory is this block's, which nobody else knows yet.
            unsafe { shape.format.layout().prepare(shape.head(block.start(), layer, head)) };
        }
        block
    }

    fn start(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr()).cast()
    }
}

/// The memory of a pool's blocks.
pub(super) struct Memory {
    shape: CacheShape,
    store: Store,
}

enum Store {
    /// A block gets some when it is first used and keeps it for whoever has it next.
    Host(Box<[OnceLock<Block>]>),
    /// All of it is there from the first use on.
    Devices(DeviceMemory),
}

impl Memory {
    pub(super) fn new(shape: CacheShape, place: &KvPlace, blocks: usize) -> Self {
        let store = match place {
            KvPlace::Host => Store::Host((0..blocks).map(|_| OnceLock::new()).collect()),
            KvPlace::Devices(place) => Store::Devices(DeviceMemory::new(shape, place, blocks)),
        };
        Self { shape, store }
    }

    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// The memory of a block on the host.
    fn block(&self, BlockId(block): BlockId) -> *mut u8 {
        let Store::Host(blocks) = &self.store else { return std::ptr::null_mut() };
        blocks[block].get_or_init(|| Block::new(&self.shape)).start()
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
        for (layer, head) in shape.layers_and_heads() {
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
