//! What a pass is told of a sequence: where its rows stand, and which positions each of them sees.

use std::ops::Range;

use crate::kv_cache::{Beside, BlockTable, KvCache, LayerCache, Run};

/// Where the rows of one sequence stand, the same in all layers.
#[derive(Clone)]
pub(crate) struct Placed {
    /// The first of them in the residual stream.
    pub(crate) first_row: usize,
    /// Positions before this one lie in the slots of the same number, and all rows see them.
    pub(crate) shared: usize,
    /// One more than the last slot.
    pub(crate) end: usize,
    /// For each row the slots of its path from the shared positions on, itself last.
    pub(crate) paths: Vec<Vec<Run>>,
    /// Where slots lie.
    pub(crate) blocks: BlockTable,
    /// Positions, the first ones, beside which hidden states stand, if they do in this model.
    pub(crate) stated: usize,
}

impl Placed {
    /// The rows in `slots`, rising, of a sequence.
    pub(crate) fn new(cache: &KvCache, slots: impl Iterator<Item = usize> + Clone, first_row: usize) -> Self {
        let shared = slots.clone().next().unwrap_or(0).min(cache.committed());
        let paths: Vec<_> = slots.clone().map(|slot| cache.path(slot, shared)).collect();
        let end = slots.last().map_or(0, |slot| slot + 1);
        Self { first_row, shared, end, paths, blocks: cache.block_table(), stated: cache.whole() }
    }

    /// Those of the rows that are among some of the stream, counted from the first of these on. None if there are none.
    pub(crate) fn among(&self, rows: &Range<usize>) -> Option<Self> {
        let first = self.first_row.max(rows.start);
        let end = (self.first_row + self.rows()).min(rows.end);
        let paths = self.paths.get(first.checked_sub(self.first_row)?..end.checked_sub(self.first_row)?)?.to_vec();
        let last = paths.last()?.last()?;
        let end = last.slot + last.len;
        Some(Self { first_row: first - rows.start, end, paths, blocks: self.blocks.clone(), ..*self })
    }

    pub(crate) fn rows(&self) -> usize {
        self.paths.len()
    }

    /// The slot of each row.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> {
        self.paths.iter().filter_map(|path| path.last()).map(|run| run.slot + run.len - 1)
    }

    /// The position of each row.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.paths.iter().map(|path| self.shared + path.iter().map(|run| run.len).sum::<usize>() - 1)
    }

    /// The keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> LayerCache {
        self.blocks.layer(layer)
    }

    /// The hidden states that stand beside the tokens of the first positions, in a last layer of their own.
    pub(crate) fn beside(&self) -> Beside {
        Beside { cache: self.blocks.last_layer(), positions: self.stated }
    }
}
