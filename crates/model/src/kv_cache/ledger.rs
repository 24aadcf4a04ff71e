//! Which block of a pool is whose: the bookkeeping, without the memory.
//!
//! A block is free, held by one or more leases, or lingering. Blocks that are known by their tokens may be shared and are
//! never written; any other has one holder. Each lease is promised as many blocks as it may ever come to hold, and what
//! is promised is always there: promises never exceed the free and the lingering blocks.

#[cfg(test)]
mod tests;

use super::block::BlockId;
use super::fault::PoolFault;
use super::prefixes::{After, Found, Part, Prefixes, Tenant};

/// The blocks of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// All of them.
    pub total: usize,
    /// Those that sequences hold; a shared one counts once.
    pub held: usize,
    /// Those that sequences were promised and do not hold yet.
    pub promised: usize,
    /// Those that nobody holds and that keep a prefix until they are needed.
    pub lingering: usize,
}

/// What one cache holds and may still take. It must be given back by [`Ledger::close`].
#[derive(Debug, Default)]
pub(super) struct Lease {
    blocks: Vec<BlockId>,
    /// Most blocks that it may hold.
    quota: usize,
    promised: usize,
    /// Whose texts it begins like.
    tenant: Tenant,
}

impl Lease {
    /// Its blocks, in the order of positions.
    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }
}

/// The blocks of a pool.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Of each block, how often it is held.
    holders: Vec<usize>,
    free: Vec<BlockId>,
    /// Blocks promised to all leases.
    promised: usize,
    prefixes: Prefixes,
}

impl Ledger {
    pub(super) fn new(blocks: usize) -> Self {
        let free = (0..blocks).rev().map(BlockId).collect();
        Self { holders: vec![0; blocks], free, promised: 0, prefixes: Prefixes::default() }
    }

    /// So many blocks, all of them promised to one lease.
    pub(super) fn of_one(blocks: usize) -> (Self, Lease) {
        let (mut ledger, mut lease) = (Self::new(blocks), Lease { quota: blocks, ..Lease::default() });
        ledger.promise(&mut lease);
        (ledger, lease)
    }

    pub(super) fn counts(&self) -> BlockCounts {
        let (total, lingering) = (self.holders.len(), self.prefixes.lingering());
        BlockCounts { total, held: total - self.free.len() - lingering, promised: self.promised, lingering }
    }

    /// Blocks that can still be promised.
    fn unpromised(&self) -> usize {
        (self.free.len() + self.prefixes.lingering()).saturating_sub(self.promised)
    }

    /// A lease of at most `quota` blocks, all of which it is promised. It shares the longest beginning of `text` that
    /// its tenant knows, which `quota` blocks must have room for, in whole blocks; of the block that follows, the first rows may be copied
    /// before it is let go with [`Self::release`].
    pub(super) fn open(
        &mut self,
        quota: usize,
        tenant: Tenant,
        text: &[u32],
    ) -> Result<(Lease, Option<Part>), PoolFault> {
        let total = self.holders.len();
        if quota > total {
            return Err(PoolFault::TooSmall { needed: quota, total });
        }
        let Found { whole: blocks, part } = self.prefixes.find(tenant, text);
        let busy = blocks.iter().filter(|&&block| !self.prefixes.lingers(block)).count();
        let (needed, free) = (quota - busy, self.unpromised());
        if needed > free {
            return Err(PoolFault::Full { needed, free, total });
        }
        blocks.iter().for_each(|&block| self.hold(block));
        let mut lease = Lease { blocks, quota, promised: 0, tenant };
        self.promise(&mut lease);
        // One that only lingers may be what was promised last.
        let part = part.filter(|part| !self.prefixes.lingers(part.block) || self.unpromised() > 0);
        part.iter().for_each(|part| self.hold(part.block));
        Ok((lease, part))
    }

    /// Promises a lease what is missing from its quota, as far as possible.
    fn promise(&mut self, lease: &mut Lease) {
        let missing = lease.quota.saturating_sub(lease.blocks.len() + lease.promised).min(self.unpromised());
        lease.promised += missing;
        self.promised += missing;
    }

    /// Adds a block to a lease: a free one, or the one that lingers longest.
    pub(super) fn take(&mut self, lease: &mut Lease) -> Result<(), PoolFault> {
        self.promise(lease);
        let full = PoolFault::Full { needed: 1, free: self.unpromised(), total: self.holders.len() };
        if lease.promised == 0 {
            return Err(full);
        }
        let block = self.free.pop().or_else(|| self.prefixes.evict()).ok_or(full)?;
        lease.promised -= 1;
        self.promised -= 1;
        self.holders[block.0] = 1;
        lease.blocks.push(block);
        Ok(())
    }

    fn hold(&mut self, block: BlockId) {
        self.prefixes.hold(block);
        self.holders[block.0] += 1;
    }

    /// Lets go of a block: it lingers if it is known and nobody else holds it.
    pub(super) fn release(&mut self, block: BlockId) {
        let holders = &mut self.holders[block.0];
        *holders = holders.saturating_sub(1);
        match *holders {
            0 if self.prefixes.contains(block) => self.prefixes.linger(block),
            0 => self.free.push(block),
            _ => {}
        }
    }

    /// Lets go of all blocks of a lease but the first `len`. It is promised as many again, but for those that others
    /// share, which are not to be had.
    pub(super) fn shrink(&mut self, lease: &mut Lease, len: usize) {
        while lease.blocks.len() > len
            && let Some(block) = lease.blocks.pop()
        {
            self.release(block);
        }
        self.promise(lease);
    }

    /// Makes the last block of a lease, a known one, its own, to be written. If others share it, the lease gets another in
    /// its place, and the old one is returned: it must be copied, and let go by [`Self::release`].
    pub(super) fn own_last(&mut self, lease: &mut Lease) -> Result<Option<BlockId>, PoolFault> {
        let Some(block) = lease.blocks.pop() else { return Ok(None) };
        if self.holders[block.0] > 1 {
            return self.take(lease).inspect_err(|_| lease.blocks.push(block)).map(|()| Some(block));
        }
        // What is known to follow is held by nobody, for who held it would hold this one too.
        self.free.extend(self.prefixes.forget(block));
        lease.blocks.push(block);
        Ok(None)
    }

    /// Makes it known that the `index`-th block of a lease, all before it being known, holds `tokens` and will not be
    /// written again. If another is known to hold them, the lease shares that one.
    pub(super) fn publish(&mut self, lease: &mut Lease, index: usize, tokens: Box<[u32]>) {
        let Some(&block) = lease.blocks.get(index) else { return };
        let before = index.checked_sub(1).and_then(|before| lease.blocks.get(before)).copied();
        let after = before.map_or(After::Nothing(lease.tenant), After::Block);
        if let Err(known) = self.prefixes.insert(after, tokens, block) {
            self.release(block);
            self.hold(known);
            lease.blocks[index] = known;
        }
    }

    /// Frees all blocks that linger.
    pub(super) fn forget_prefixes(&mut self) {
        self.free.extend(std::iter::from_fn(|| self.prefixes.evict()));
    }

    /// Takes a lease back.
    pub(super) fn close(&mut self, lease: &mut Lease) {
        lease.quota = 0;
        self.promised -= lease.promised;
        lease.promised = 0;
        self.shrink(lease, 0);
    }
}
