//! Keys and values of one sequence: a committed prefix and a tail that holds a tree.
//!
//! After a verification a tree keeps one path, not a prefix: [`KvCache::keep_path`] moves the rows of that path down to
//! follow the committed ones and forgets the rest. Memory comes in blocks of [`BLOCK`] positions. Inside a block, for
//! each layer and key/value head, keys lie transposed (head_dim, BLOCK), so that one query meets many keys in one
//! vector, and values as rows (BLOCK, padded head_dim).

use std::ops::Range;

use crate::error::ModelError;
use crate::kernels::LANES;

/// Positions of one block.
pub const BLOCK: usize = 64;

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
    pub(crate) fn value_stride(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    fn head_len(&self) -> usize {
        BLOCK * (self.head_dim + self.value_stride())
    }

    fn block_len(&self) -> usize {
        self.layers * self.kv_heads * self.head_len()
    }

    /// Where keys and values of a layer's head start inside a block.
    fn offsets(&self, layer: usize, head: usize) -> (usize, usize) {
        let keys = (layer * self.kv_heads + head) * self.head_len();
        (keys, keys + BLOCK * self.head_dim)
    }
}

/// How far the row of a slot has run.
#[derive(Clone, Debug, Default)]
struct Progress {
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

/// The cache of one sequence. Slot `s` of the first [`committed`](Self::committed) holds position `s`; the slots after
/// them hold the tail's rows in the order they were run.
pub struct KvCache {
    shape: CacheShape,
    blocks: Vec<Box<[f32]>>,
    committed: usize,
    /// For each tail row the one that it follows; none for a child of the last committed token.
    tail: Vec<Option<usize>>,
    /// Of every slot. A row never runs deeper than the one it follows.
    progress: Vec<Progress>,
}

impl KvCache {
    pub(crate) fn new(shape: CacheShape) -> Self {
        Self { shape, blocks: Vec::new(), committed: 0, tail: Vec::new(), progress: Vec::new() }
    }

    /// Positions that are part of the sequence.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Rows run since, of which a path may be kept.
    pub fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Rows that the tail can still take before the context is full.
    pub fn room(&self) -> usize {
        self.shape.context - self.slots()
    }

    /// Bytes of keys and values held.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * self.shape.block_len() * size_of::<f32>()
    }

    pub(crate) fn slots(&self) -> usize {
        self.committed + self.tail.len()
    }

    /// Makes room for `rows` more rows in the tail.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] when committed and tail rows would exceed the model's context.
    pub fn reserve(&mut self, rows: usize) -> Result<(), ModelError> {
        let needed = self.slots() + rows;
        if needed > self.shape.context {
            return Err(ModelError::ContextFull { needed, context: self.shape.context });
        }
        let block = || vec![0.0; self.shape.block_len()].into_boxed_slice();
        while self.blocks.len() * BLOCK < needed {
            self.blocks.push(block());
        }
        Ok(())
    }

    /// Appends a row to the tail. `parent` is an earlier tail row, or none for a child of the last committed token.
    pub(crate) fn push(&mut self, parent: Option<usize>) -> Result<(), ModelError> {
        if let Some(row) = parent.filter(|&parent| parent >= self.tail.len()) {
            return Err(ModelError::TailRow { row, rows: self.tail.len() });
        }
        self.tail.push(parent);
        self.progress.push(Progress::default());
        Ok(())
    }

    /// Appends rows to the tail, parents first.
    pub(crate) fn append(&mut self, parents: impl ExactSizeIterator<Item = Option<usize>>) -> Result<(), ModelError> {
        self.reserve(parents.len())?;
        parents.into_iter().try_for_each(|parent| self.push(parent))
    }

    /// Refuses rows in the last slots, `new`, whose ancestors have not been through `layers`.
    pub(crate) fn check_ancestors(&self, new: Range<usize>, layers: usize) -> Result<(), ModelError> {
        let followed = new.clone().filter_map(|slot| self.parent_slot(slot)).filter(|slot| *slot < new.start);
        match followed.map(|slot| self.progress[slot].layers).find(|found| *found < layers) {
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
        upwards.take_while(move |&slot| self.progress[slot].layers < layers)
    }

    /// The layers that the row in `slot` has been through, and the residual stream after them where it was kept.
    pub(crate) fn progress(&self, slot: usize) -> (usize, &[f32]) {
        let Progress { layers, state } = &self.progress[slot];
        (*layers, state)
    }

    /// Notes that the row in `slot` has been through `layers`, with its residual stream there, or nothing to keep none.
    pub(crate) fn advance(&mut self, slot: usize, layers: usize, state: &[f32]) {
        let progress = &mut self.progress[slot];
        progress.layers = layers;
        progress.state.clear();
        // A committed row at the last layer has nowhere to go on to.
        if slot >= self.committed || layers < self.shape.layers {
            progress.state.extend_from_slice(state);
        } else {
            progress.state = Vec::new();
        }
    }

    /// Commits the tail rows `path`, root side first, and drops all others.
    ///
    /// # Errors
    /// [`ModelError::NotAPath`] when an element is not the child of the one before it; the cache is unchanged then.
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
                self.copy(self.committed + from, self.committed + to);
                self.progress.swap(self.committed + from, self.committed + to);
            }
        }
        let kept = self.committed..self.committed + path.len();
        self.committed = kept.end;
        self.forget_tail();
        let done = self.progress[kept].iter_mut().filter(|progress| progress.layers == self.shape.layers);
        done.for_each(|progress| progress.state = Vec::new());
        Ok(())
    }

    /// Forgets the tail and every position from `len` on.
    pub fn roll_back_to(&mut self, len: usize) {
        self.committed = self.committed.min(len);
        self.forget_tail();
        self.blocks.truncate(self.committed.div_ceil(BLOCK).max(1));
    }

    fn forget_tail(&mut self) {
        self.tail.clear();
        self.progress.truncate(self.committed);
    }

    /// Copies one slot over another, in all layers.
    fn copy(&mut self, from: usize, to: usize) {
        let (shape, (dim, stride)) = (self.shape, (self.shape.head_dim, self.shape.value_stride()));
        let mut row = vec![0.0; dim + stride];
        for (layer, head) in (0..shape.layers).flat_map(|l| (0..shape.kv_heads).map(move |h| (l, h))) {
            let (keys, values) = shape.offsets(layer, head);
            let (block, i) = (&self.blocks[from / BLOCK], from % BLOCK);
            (0..dim).for_each(|d| row[d] = block[keys + d * BLOCK + i]);
            row[dim..].copy_from_slice(&block[values + i * stride..][..stride]);
            let (block, i) = (&mut self.blocks[to / BLOCK], to % BLOCK);
            (0..dim).for_each(|d| block[keys + d * BLOCK + i] = row[d]);
            block[values + i * stride..][..stride].copy_from_slice(&row[dim..]);
        }
    }

    /// The memory of one layer, for the kernels.
    pub(crate) fn layer(&mut self, layer: usize) -> LayerCache {
        let blocks = self.blocks.iter_mut().map(|block| block.as_mut_ptr()).collect();
        LayerCache { shape: self.shape, layer, blocks }
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
    /// No other thread touches this head meanwhile.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cache() -> KvCache {
        KvCache::new(CacheShape { layers: 2, kv_heads: 2, head_dim: 3, context: 200 })
    }

    /// Writes a recognisable key and value for `tag` at a new tail row.
    fn append(cache: &mut KvCache, parent: Option<usize>, tag: f32) {
        cache.reserve(1).unwrap();
        let slot = cache.slots();
        cache.push(parent).unwrap();
        for layer in 0..2 {
            let view = cache.layer(layer);
            for head in 0..2 {
                let base = tag + 1000.0 * (layer * 2 + head) as f32;
                // SAFETY: one thread.
                unsafe { view.store(head, slot, &[base, base + 0.1, base + 0.2], &[-base, -base - 0.1, -base - 0.2]) };
            }
        }
    }

    /// The tags stored in the committed slots, read back from every layer, head, key and value.
    fn tags(cache: &mut KvCache) -> Vec<f32> {
        let committed = cache.committed();
        let mut tags = vec![None; committed];
        for layer in 0..2 {
            let view = cache.layer(layer);
            for (head, slot) in (0..2).flat_map(|h| (0..committed).map(move |s| (h, s))) {
                // SAFETY: slots below `committed` exist.
                let (k, v) = unsafe { (*view.keys(head, slot / BLOCK).add(slot % BLOCK), *view.values(head, slot)) };
                assert_eq!(k, -v);
                let tag = k - 1000.0 * (layer * 2 + head) as f32;
                assert!(tags[slot].is_none_or(|t| t == tag), "all heads moved together");
                tags[slot] = Some(tag);
            }
        }
        tags.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn a_tree_keeps_a_path_and_not_a_prefix() {
        let mut cache = cache();
        append(&mut cache, None, 10.0);
        for (parent, tag) in [(0, 11.0), (0, 12.0), (1, 13.0), (2, 14.0), (4, 15.0)] {
            append(&mut cache, Some(parent), tag);
        }
        cache.keep_path(&[0, 2, 4, 5]).unwrap();
        assert_eq!(tags(&mut cache), [10.0, 12.0, 14.0, 15.0]);
        assert_eq!((cache.committed(), cache.tail_len()), (4, 0));
    }

    #[test]
    fn paths_cross_block_borders() {
        let mut cache = cache();
        for i in 0..62_usize {
            append(&mut cache, i.checked_sub(1), i as f32);
        }
        cache.keep_path(&(0..62).collect::<Vec<_>>()).unwrap();
        for i in 0..8 {
            append(&mut cache, if i < 2 { None } else { Some(i - 2) }, 100.0 + i as f32);
        }
        assert_eq!(cache.path(69, 62), [63, 65, 67, 69].map(|slot| Run { slot, len: 1 }));
        cache.keep_path(&[1, 3, 5, 7]).unwrap();
        assert_eq!(tags(&mut cache)[60..], [60.0, 61.0, 101.0, 103.0, 105.0, 107.0]);
    }

    #[test]
    fn a_chain_is_one_run() {
        let mut cache = cache();
        (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
        assert_eq!(cache.path(4, 0), [Run { slot: 0, len: 5 }]);
    }

    #[test]
    fn a_path_begins_after_the_shared_positions() {
        let mut cache = cache();
        (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
        cache.keep_path(&[0, 1, 2, 3, 4]).unwrap();
        append(&mut cache, None, 5.0);
        append(&mut cache, None, 6.0);
        append(&mut cache, Some(1), 7.0);
        assert_eq!(cache.path(7, 5), [Run { slot: 6, len: 2 }]);
        assert_eq!(cache.path(7, 2), [Run { slot: 2, len: 3 }, Run { slot: 6, len: 2 }]);
        assert_eq!(cache.path(3, 1), [Run { slot: 1, len: 3 }]);
    }

    #[test]
    fn rows_that_lag_behind_are_found_along_the_path() {
        let mut cache = cache();
        for (parent, layers) in [(None, 2), (Some(0), 1), (Some(1), 1), (Some(0), 2)] {
            cache.push(parent).unwrap();
            cache.advance(cache.slots() - 1, layers, &[layers as f32]);
        }
        let behind = |cache: &KvCache, slot| cache.behind(slot, 2).collect::<Vec<_>>();
        assert_eq!((behind(&cache, 2), behind(&cache, 3)), (vec![2, 1], vec![]));
        cache.reserve(4).unwrap();
        cache.keep_path(&[0, 1, 2]).unwrap();
        cache.push(None).unwrap();
        assert_eq!(behind(&cache, 3), [3, 2, 1]);
        // What cannot run deeper needs no state.
        assert_eq!((cache.progress(0), cache.progress(1)), ((2, &[][..]), (1, &[1.0][..])));
        cache.roll_back_to(1);
        cache.push(None).unwrap();
        assert_eq!(behind(&cache, 1), [1]);
    }

    #[test]
    fn rolling_back_forgets_positions_and_tail() {
        let mut cache = cache();
        (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
        cache.keep_path(&[0, 1, 2]).unwrap();
        append(&mut cache, None, 9.0);
        cache.roll_back_to(2);
        assert_eq!(tags(&mut cache), [0.0, 1.0]);
        append(&mut cache, None, 7.0);
        cache.keep_path(&[0]).unwrap();
        assert_eq!(tags(&mut cache), [0.0, 1.0, 7.0]);
    }

    #[test]
    fn what_is_not_a_path_or_does_not_fit_is_refused() {
        let mut cache = cache();
        append(&mut cache, None, 0.0);
        append(&mut cache, Some(0), 1.0);
        append(&mut cache, Some(0), 2.0);
        assert!(cache.keep_path(&[0, 1, 2]).is_err());
        assert!(cache.keep_path(&[1]).is_err());
        assert!(cache.keep_path(&[7]).is_err());
        assert!(cache.push(Some(3)).is_err());
        assert!(cache.reserve(198).is_err());
        assert_eq!((cache.committed(), cache.tail_len()), (0, 3));
    }
}
