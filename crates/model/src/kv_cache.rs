//! Keys and values of sequences: each has a committed prefix and a tail that holds a tree.
//!
//! After a verification a tree keeps one path, not a prefix: [`KvCache::keep_path`] moves the rows of that path down to
//! follow the committed ones and forgets the rest. Memory comes in blocks of [`BLOCK`] positions from a [`BlockPool`].
//! How keys and values lie inside a block is a [`KvFormat`].
//!
//! Keys and values depend on the tokens up to theirs and on nothing else, to the bit, so sequences that begin alike share
//! the blocks of their common beginning.

mod block;
mod block_pool;
mod block_table;
mod bytes;
mod cache_shape;
mod device_memory;
mod device_place;
mod fault;
mod floats;
mod format;
mod layout;
mod ledger;
mod memory;
mod prefixes;
#[cfg(test)]
mod tests;
mod tiles;

use std::ops::Range;

use crate::error::ModelError;

pub use block::BLOCK;
pub(crate) use block::GROUPS;
pub use block_pool::BlockPool;
pub(crate) use block_table::BlockTable;
pub(crate) use bytes::Bytes;
pub(crate) use cache_shape::CacheShape;
pub(crate) use device_memory::{KeysAndValues, Move};
pub(crate) use device_place::{DevicePart, DevicePlace};
pub use fault::PoolFault;
pub(crate) use floats::Floats;
pub(crate) use format::KvFormat;
pub(crate) use layout::Head;
pub use ledger::BlockCounts;
pub(crate) use memory::{KvPlace, LayerCache};
pub(crate) use tiles::Tiles;

use block::BlockRow;
use ledger::{Lease, Ledger};
use prefixes::Part;
pub use prefixes::Tenant;

/// What is known of the row in a slot.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Its token; none where it is known by a hidden state.
    token: Option<u32>,
    /// Layers that hold its key and value.
    layers: usize,
    /// The residual stream after them, as long as it may be needed to go on; else empty.
    state: Vec<f32>,
}

/// A run of slots that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) slot: usize,
    pub(crate) len: usize,
}

/// Another model's hidden states as keys and values of their own, one beside each of the first positions.
pub(crate) struct Beside {
    pub(crate) cache: LayerCache,
    /// How many there are, all of committed positions.
    pub(crate) positions: usize,
}

/// The cache of one sequence. Slot `s` of the first [`committed`](Self::committed) holds position `s`; the slots after
/// them hold the tail's rows in the order they were run.
///
/// Dropping it gives its blocks back; those of the committed prefix linger in the pool.
pub struct KvCache {
    pool: BlockPool,
    lease: Lease,
    /// Most positions, tail included.
    limit: usize,
    committed: usize,
    /// For each tail row the one that it follows; none for a child of the last committed token.
    tail: Vec<Option<usize>>,
    /// A row never runs deeper than the one it follows.
    slots: Vec<Slot>,
    /// So many blocks, the first ones, are known to the pool and may be shared.
    published: usize,
}

impl BlockPool {
    /// A cache for a sequence that has `positions` at most, its tail included, or the model's context. All blocks that it
    /// may need are promised to it. It begins with the longest known beginning of `text`: [`KvCache::committed`] says how
    /// much that is.
    ///
    /// # Errors
    /// [`PoolFault`] when so many blocks cannot be promised, even without the prefixes that linger.
    pub fn open(&self, positions: usize, text: &[u32]) -> Result<KvCache, PoolFault> {
        self.open_for(Tenant::default(), positions, text)
    }

    /// [`Self::open`] with beginnings that texts of one tenant are known to have, and no other's.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_for(&self, tenant: Tenant, positions: usize, text: &[u32]) -> Result<KvCache, PoolFault> {
        let limit = positions.min(self.memory().shape().context);
        let text = text.get(..limit).unwrap_or(text);
        let (lease, part) = self.ledger().open(limit.div_ceil(BLOCK), tenant, text)?;
        let mut cache = KvCache::new(self.clone(), lease, limit);
        cache.begin(text, part)?;
        Ok(cache)
    }
}

impl KvCache {
    fn new(pool: BlockPool, lease: Lease, limit: usize) -> Self {
        Self { pool, lease, limit, committed: 0, tail: Vec::new(), slots: Vec::new(), published: 0 }
    }

    /// A cache with a pool of its own, for as many positions as `shape` allows.
    pub(crate) fn alone(shape: CacheShape, place: &KvPlace) -> Self {
        let (ledger, lease) = Ledger::of_one(shape.context_blocks());
        Self::new(BlockPool::of(shape, place, ledger), lease, shape.context)
    }

    /// Begins with what its blocks and `part` of another hold of `text`.
    fn begin(&mut self, text: &[u32], part: Option<Part>) -> Result<(), PoolFault> {
        self.published = self.lease.blocks().len();
        let shared = self.published * BLOCK;
        let copied = part.map_or(Ok(0), |part| self.copy_part(part))?;
        let layers = self.pool.memory().shape().layers;
        let slot = |&token| Slot { token: Some(token), layers, state: Vec::new() };
        self.slots.extend(text.iter().take(shared + copied).map(slot));
        self.committed = self.slots.len();
        Ok(())
    }

    /// Copies the first rows of a block into one of its own and lets go of it.
    fn copy_part(&mut self, Part { block, rows }: Part) -> Result<usize, PoolFault> {
        let taken = self.pool.ledger().take(&mut self.lease);
        let copied = taken.and_then(|()| {
            let Some(&own) = self.lease.blocks().last() else { return Ok(0) };
            // SAFETY: this cache has just become the only holder of one and holds the other, which nobody writes.
            unsafe { self.pool.memory().copy(BlockRow { block, row: 0 }, BlockRow { block: own, row: 0 }, rows) }?;
            Ok(rows)
        });
        self.pool.ledger().release(block);
        copied
    }

    /// Positions that are part of the sequence.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Rows run since, of which a path may be kept.
    pub fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Rows that the tail can still take before the cache is full.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.slots())
    }

    pub(crate) fn slots(&self) -> usize {
        self.committed + self.tail.len()
    }

    /// Makes room for `rows` more rows in the tail.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] when committed and tail rows would be more than the cache was opened for, and
    /// [`ModelError::Pool`] after a roll back into what others share, if the pool has nothing in its place.
    pub fn reserve(&mut self, rows: usize) -> Result<(), ModelError> {
        let needed = self.slots() + rows;
        if needed > self.limit {
            return Err(ModelError::ContextFull { needed, limit: self.limit });
        }
        if self.slots() < self.published * BLOCK {
            self.own_last_block()?;
        }
        while self.lease.blocks().len() * BLOCK < needed {
            self.pool.ledger().take(&mut self.lease)?;
        }
        Ok(())
    }

    /// Makes the last block, which the pool knows, one that may be written: copies it if others share it.
    fn own_last_block(&mut self) -> Result<(), PoolFault> {
        let shared = self.pool.ledger().own_last(&mut self.lease)?;
        self.published -= 1;
        let Some((block, &own)) = shared.zip(self.lease.blocks().last()) else { return Ok(()) };
        let rows = self.committed % BLOCK;
        // SAFETY: as in `copy_part`.
        let copied =
            unsafe { self.pool.memory().copy(BlockRow { block, row: 0 }, BlockRow { block: own, row: 0 }, rows) };
        self.pool.ledger().release(block);
        copied
    }

    /// Appends a row to the tail. `parent` is an earlier tail row, or none for a child of the last committed token.
    pub(crate) fn push(&mut self, parent: Option<usize>, token: Option<u32>) -> Result<(), ModelError> {
        if let Some(row) = parent.filter(|&parent| parent >= self.tail.len()) {
            return Err(ModelError::TailRow { row, rows: self.tail.len() });
        }
        self.tail.push(parent);
        self.slots.push(Slot { token, ..Slot::default() });
        Ok(())
    }

    /// Appends rows to the tail, parents first: what each follows, and its token if it has one.
    pub(crate) fn append(
        &mut self,
        rows: impl ExactSizeIterator<Item = (Option<usize>, Option<u32>)>,
    ) -> Result<(), ModelError> {
        self.reserve(rows.len())?;
        rows.into_iter().try_for_each(|(parent, token)| self.push(parent, token))
    }

    /// Refuses rows in the last slots, `new`, whose ancestors have not been through `layers`.
    pub(crate) fn check_ancestors(&self, new: Range<usize>, layers: usize) -> Result<(), ModelError> {
        let followed = new.clone().filter_map(|slot| self.parent_slot(slot)).filter(|slot| *slot < new.start);
        match followed.map(|slot| self.slots[slot].layers).find(|found| *found < layers) {
            Some(found) => Err(ModelError::Shallow { found, needed: layers }),
            None => Ok(()),
        }
    }

    /// The slot of the row that the one in `slot` follows.
    fn parent_slot(&self, slot: usize) -> Option<usize> {
        match slot.checked_sub(self.committed).and_then(|row| self.tail[row]) {
            Some(parent) => Some(self.committed + parent),
            None => slot.min(self.committed).checked_sub(1),
        }
    }

    /// The slots of the row in `slot` and its ancestors from position `shared` on, oldest first, as runs. `shared` is at
    /// most the number of committed positions.
    pub(crate) fn path(&self, slot: usize, shared: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut at = Some(slot);
        while let Some(slot) = at.filter(|&slot| slot >= self.committed) {
            match runs.last_mut() {
                Some(run) if run.slot == slot + 1 => *run = Run { slot, len: run.len + 1 },
                _ => runs.push(Run { slot, len: 1 }),
            }
            at = self.parent_slot(slot);
        }
        if let Some(last) = at.filter(|&slot| slot >= shared) {
            runs.push(Run { slot: shared, len: last + 1 - shared });
        }
        runs.reverse();
        runs
    }

    /// The slots of the row in `slot` and its ancestors, youngest first, as far as they have not been through `layers`.
    pub(crate) fn behind(&self, slot: usize, layers: usize) -> impl Iterator<Item = usize> {
        let upwards = std::iter::successors(Some(slot), |&slot| self.parent_slot(slot));
        upwards.take_while(move |&slot| self.slots[slot].layers < layers)
    }

    /// The layers that the row in `slot` has been through, and the residual stream after them where it was kept.
    pub(crate) fn progress(&self, slot: usize) -> (usize, &[f32]) {
        let Slot { layers, state, .. } = &self.slots[slot];
        (*layers, state)
    }

    /// Notes that the row in `slot` has been through `layers`, with its residual stream there, or nothing to keep none.
    pub(crate) fn advance(&mut self, slot: usize, layers: usize, state: &[f32]) {
        let progress = &mut self.slots[slot];
        progress.layers = layers;
        progress.state.clear();
        // A committed row at the last layer has nowhere to go on to.
        if slot >= self.committed || layers < self.pool.memory().shape().layers {
            progress.state.extend_from_slice(state);
        } else {
            progress.state = Vec::new();
        }
    }

    /// Commits the tail rows `path`, root side first, and drops all others.
    ///
    /// # Errors
    /// [`ModelError::NotAPath`] when an element is not the child of the one before it; the cache is unchanged then. A
    /// device that fails, which leaves nothing to go on with.
    pub fn keep_path(&mut self, path: &[usize]) -> Result<(), ModelError> {
        let mut parent = None;
        for &row in path {
            if self.tail.get(row).is_none_or(|of| *of != parent) {
                return Err(ModelError::NotAPath { row, rows: self.tail.len() });
            }
            parent = Some(row);
        }
        for (to, &from) in path.iter().enumerate() {
            // A parent precedes its children, so `from >= to` and nothing still needed is overwritten.
            if from != to {
                self.move_row(self.committed + from, self.committed + to)?;
            }
        }
        let kept = self.committed..self.committed + path.len();
        self.committed = kept.end;
        self.forget_tail();
        let layers = self.pool.memory().shape().layers;
        let done = self.slots[kept].iter_mut().filter(|slot| slot.layers == layers);
        done.for_each(|slot| slot.state = Vec::new());
        self.publish();
        Ok(())
    }

    fn move_row(&mut self, from: usize, to: usize) -> Result<(), PoolFault> {
        let place = |slot: usize| BlockRow { block: self.lease.blocks()[slot / BLOCK], row: slot % BLOCK };
        // SAFETY: slots of the tail lie in blocks that only this cache holds.
        unsafe { self.pool.memory().copy(place(from), place(to), 1) }?;
        self.slots.swap(from, to);
        Ok(())
    }

    /// Forgets the tail and every position from `len` on. What is run next in a block that others share goes to a copy of
    /// it.
    pub fn roll_back_to(&mut self, len: usize) {
        self.committed = self.committed.min(len);
        self.forget_tail();
        self.pool.ledger().shrink(&mut self.lease, self.committed.div_ceil(BLOCK));
        self.published = self.published.min(self.lease.blocks().len());
    }

    fn forget_tail(&mut self) {
        self.tail.clear();
        self.slots.truncate(self.committed);
    }

    /// Makes the blocks that are full known to the pool.
    fn publish(&mut self) {
        while (self.published + 1) * BLOCK <= self.committed
            && let Some(tokens) = self.tokens(self.published * BLOCK..(self.published + 1) * BLOCK)
        {
            self.pool.ledger().publish(&mut self.lease, self.published, tokens);
            self.published += 1;
        }
    }

    /// The tokens of slots, if all are known and have been through all layers.
    fn tokens(&self, slots: Range<usize>) -> Option<Box<[u32]>> {
        let layers = self.pool.memory().shape().layers;
        self.slots[slots].iter().map(|slot| slot.token.filter(|_| slot.layers == layers)).collect()
    }

    /// Positions, the first ones, whose keys and values are there in all layers.
    pub(crate) fn whole(&self) -> usize {
        let layers = self.pool.memory().shape().layers;
        self.slots.partition_point(|slot| slot.layers == layers)
    }

    /// Where the slots lie.
    pub(crate) fn block_table(&self) -> BlockTable {
        BlockTable { pool: self.pool.clone(), blocks: self.lease.blocks().to_vec() }
    }
}

impl Drop for KvCache {
    fn drop(&mut self) {
        self.forget_tail();
        let rest = (self.published * BLOCK).min(self.committed)..self.committed;
        let tokens = Some(rest).filter(|rest| (1..BLOCK).contains(&rest.len())).and_then(|rest| self.tokens(rest));
        let mut ledger = self.pool.ledger();
        if let Some(tokens) = tokens {
            ledger.publish(&mut self.lease, self.published, tokens);
        }
        ledger.close(&mut self.lease);
    }
}
