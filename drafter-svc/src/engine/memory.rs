//! The draft model's memory for keys and values.

use espalier_model::{BlockPool, DraftModel, KvCache, PoolFault, Tenant};
use espalier_proto::{KvMemory, SequenceSpec};
use espalier_service_kit::{Bytes, MemoryBudget};
use espalier_speculation::MAX_TREE_NODES;

use super::committed::CommittedState;
use crate::config::Config;
use crate::error::DrafterError;

/// The memory that all sequences share.
pub(crate) struct Memory(BlockPool);

impl Memory {
    /// As much as was given, or enough for all sequences at their longest, if the machine or the device can spare it.
    pub(crate) fn new(model: &DraftModel, config: &Config) -> Result<Self, DrafterError> {
        let decoder = model.decoder();
        let wanted = Bytes(decoder.context_bytes().saturating_mul(config.sequences_max.get()));
        let free = decoder.free_on_devices()?.map(Bytes).or_else(Bytes::available);
        let budget = MemoryBudget::of(config.kv_memory, wanted, free)?;
        Ok(Self(decoder.block_pool(budget.0)?))
    }

    pub(crate) fn blocks(&self) -> &BlockPool {
        &self.0
    }

    /// How much of it is in use.
    pub(crate) fn status(&self) -> KvMemory {
        let counts = self.0.counts();
        let [blocks, held, promised, lingering] =
            [counts.total, counts.held, counts.promised, counts.lingering].map(|count| count as u64);
        KvMemory { blocks, held, promised, lingering, block_bytes: self.0.block_bytes() as u64 }
    }

    /// A cache for a sequence, with all the blocks that it may come to need. It begins with what its tenant knows of the
    /// committed tokens.
    pub(crate) fn open(&self, model: &DraftModel, sequence: &SequenceSpec) -> Result<KvCache, PoolFault> {
        let SequenceSpec { committed, max_tokens, tenant, .. } = sequence;
        let positions = committed.len().saturating_add(*max_tokens).saturating_add(MAX_TREE_NODES);
        self.0.open_for(Tenant(*tenant), positions, CommittedState::shareable(model, committed))
    }
}
