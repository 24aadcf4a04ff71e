//! Where the slots of a sequence lie.

use candle_core::Tensor;

use super::block::{BLOCK, BlockId, BlockRow};
use super::block_pool::BlockPool;
use super::device_memory::{KeysAndValues, Move, RankMemory};
use super::memory::LayerCache;
use crate::error::Result;

/// The blocks of a sequence, in the memory of their pool.
#[derive(Clone)]
pub(crate) struct BlockTable {
    pub(super) pool: BlockPool,
    pub(super) blocks: Vec<BlockId>,
}

impl BlockTable {
    /// The memory of one layer, for the kernels.
    pub(crate) fn layer(&self, layer: usize) -> LayerCache {
        self.pool.memory().layer(layer, &self.blocks)
    }

    /// That of the last layer.
    pub(crate) fn last_layer(&self) -> LayerCache {
        self.layer(self.pool.memory().shape().layers - 1)
    }

    /// Whether both are of the same memory.
    pub(crate) fn shares_memory(&self, other: &Self) -> bool {
        self.pool.is(&other.pool)
    }

    /// Whether devices keep what lies there, so that kernels cannot reach it.
    pub(crate) fn are_on_devices(&self) -> bool {
        self.pool.memory().devices().is_some()
    }

    /// Where a slot of the sequence lies among those of all blocks.
    pub(crate) fn place(&self, slot: usize) -> usize {
        BlockRow { block: self.blocks[slot / BLOCK], row: slot % BLOCK }.slot()
    }

    /// The numbers of its blocks.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|BlockId(block)| *block as u32)
    }

    /// Where a rank keeps the keys and the values of each layer on its device, as `address` tells of a tensor; none if they
    /// are on the host.
    ///
    /// # Errors
    /// The device has no room for them.
    pub(crate) fn addresses(
        &self,
        rank: usize,
        address: impl Fn(&Tensor) -> candle_core::Result<u64>,
    ) -> Result<Option<&[u64]>> {
        Ok(self.of_rank(rank).map(|memory| memory.addresses(address)).transpose()?)
    }

    /// Takes the moves of rows that a rank is to do before it reads anything of this memory.
    pub(crate) fn take_moves(&self, rank: usize) -> Vec<Move> {
        self.of_rank(rank).map(RankMemory::take_moves).unwrap_or_default()
    }

    /// Puts moves back that were not done.
    pub(crate) fn put_back(&self, rank: usize, moves: Vec<Move>) {
        if let Some(memory) = self.of_rank(rank) {
            memory.put_back(moves);
        }
    }

    fn of_rank(&self, rank: usize) -> Option<&RankMemory> {
        self.pool.memory().devices().and_then(|memory| memory.of_rank(rank))
    }

    /// The keys and values of a layer that a rank keeps on its device; none if they are on the host.
    ///
    /// # Errors
    /// The device has no room for them.
    pub(crate) fn on_device(&self, rank: usize, layer: usize) -> Result<Option<KeysAndValues>> {
        Ok(self.of_rank(rank).map(|memory| memory.layer(layer)).transpose()?)
    }
}
