//! The blocks that the caches of one model share.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::cache_shape::CacheShape;
use super::device_memory::DeviceMemory;
use super::ledger::{BlockCounts, Ledger};
use super::memory::{KvPlace, Memory};
use crate::error::{ModelError, Result};

/// Most blocks of a pool, however large its budget is.
const BLOCKS_MAX: usize = 1 << 20;

/// Memory for keys and values with a budget, cut into blocks. Clones are the same pool.
///
/// Caches get blocks from it and give them back when they are dropped; blocks that hold the beginning of a text linger
/// and are shared by the next cache of the same beginning.
#[derive(Clone)]
pub struct BlockPool(Arc<Inner>);

struct Inner {
    memory: Memory,
    ledger: Mutex<Ledger>,
}

impl BlockPool {
    /// A pool that never uses more than `bytes`.
    pub(crate) fn new(shape: CacheShape, place: &KvPlace, bytes: usize) -> Result<Self> {
        let block = shape.block_bytes();
        match (bytes / block.max(1)).min(BLOCKS_MAX) {
            0 => Err(ModelError::KvBudget { bytes, block }),
            blocks => {
                tracing::info!("keys and values have {blocks} blocks of {block} bytes");
                let pool = Self::of(shape, place, Ledger::new(blocks));
                let made = pool.memory().devices().map(DeviceMemory::make).transpose();
                made.map_err(|fault| ModelError::KvDevice { bytes: blocks * block, fault: fault.to_string() })?;
                Ok(pool)
            }
        }
    }

    /// A pool of the blocks of a ledger.
    pub(super) fn of(shape: CacheShape, place: &KvPlace, ledger: Ledger) -> Self {
        let memory = Memory::new(shape, place, ledger.counts().total);
        Self(Arc::new(Inner { memory, ledger: Mutex::new(ledger) }))
    }

    /// Frees the blocks that nobody holds, which keep prefixes until they are needed.
    pub fn forget_prefixes(&self) {
        self.ledger().forget_prefixes();
    }

    /// The blocks at this moment.
    pub fn counts(&self) -> BlockCounts {
        self.ledger().counts()
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.0.memory.shape().block_bytes()
    }

    /// Whether both are the same pool.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// The bookkeeping.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock()
    }
}

impl std::fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BlockPool").field(&self.counts()).finish()
    }
}
