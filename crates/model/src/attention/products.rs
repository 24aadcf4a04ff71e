//! How queries meet keys, and weights values, whatever these are kept as.

use std::ops::Range;

use crate::kernels::GROUP;
use crate::kv_cache::{GROUPS, Head, LayerCache, Run};

/// Products with keys and values that are kept in one format.
pub(super) trait Products {
    /// Queries that share one pass over the keys: the product kernel's best height.
    const QUERIES: usize;

    /// Positions whose values are added up before they meet the sum; those of all rows begin together.
    const POSITIONS: usize;

    /// Elements between the sums of two queries.
    fn sum_stride(head_dim: usize) -> usize;

    /// Takes queries (count, head_dim) to be scored.
    fn take(&mut self, queries: &[f32], head_dim: usize);

    /// Adds the products of all queries with the first `filled` keys of a block, and with what is in the other places of
    /// their vectors.
    ///
    /// # Safety
    /// For each query there are scores of a block, `stride` elements apart.
    unsafe fn score(&self, head: Head, filled: usize, scores: *mut f32, stride: usize);

    /// Adds weighted values to the sums of the queries, in the order of positions.
    fn add(&mut self, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]);
}

/// The values of some positions.
pub(super) struct Summed<'a> {
    pub(super) cache: &'a LayerCache,
    pub(super) kv_head: usize,
    pub(super) head_dim: usize,
    /// Where they lie, in the order of positions.
    pub(super) located: &'a [Located],
    /// The first is a multiple of [`Products::POSITIONS`].
    pub(super) positions: Range<usize>,
}

impl Summed<'_> {
    /// So many positions, the first ones, lie in the slots of the same number.
    pub(super) fn in_place(&self) -> usize {
        let in_place = self.located.iter().take_while(|located| located.run.slot == located.position);
        in_place.last().map_or(0, |Located { position, run }| position + run.len).min(self.positions.end)
    }

    /// The head's keys and values in a block of slots.
    pub(super) fn head(&self, block: usize) -> Head {
        self.cache.head(self.kv_head, block)
    }

    /// The slots of some positions, in the order of these.
    pub(super) fn slots(&self, positions: &Range<usize>) -> impl Iterator<Item = usize> {
        let runs = self.located.iter().filter_map(|located| located.among(positions)).map(|part| part.run);
        runs.flat_map(|run| run.slot..run.slot + run.len)
    }

    /// The positions of a group, as far as they are meant.
    pub(super) fn group(&self, group: usize) -> Range<usize> {
        group * GROUP..self.positions.end.min((group + 1) * GROUP)
    }

    /// All groups in their order: those that the slots of the same number hold up to the end of their block at once, any
    /// other by itself. The last group may have fewer positions than others; with `part` that is one that slots hold too.
    pub(super) fn groups(&self, part: bool) -> impl Iterator<Item = Groups> + use<> {
        let Range { start, end } = self.positions;
        let in_place = self.in_place();
        let held = if part && in_place == end { end.div_ceil(GROUP) } else { in_place / GROUP };
        let mut next = start / GROUP;
        std::iter::from_fn(move || {
            let group = next;
            let to = held.min((group / GROUPS + 1) * GROUPS);
            next = to.max(group + 1);
            let groups = if to > group { Groups::InPlace(group..to) } else { Groups::Apart(group) };
            (group * GROUP < end).then_some(groups)
        })
    }
}

/// Groups of positions that are added up together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Groups {
    /// Their positions lie in the slots of the same number in one block.
    InPlace(Range<usize>),
    /// Its positions lie anywhere.
    Apart(usize),
}

/// The weights of positions, the first one's first, for some queries.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) elements: &'a [f32],
    /// Elements between those of two queries.
    pub(super) stride: usize,
    pub(super) queries: usize,
}

/// Positions that lie in slots side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    /// The first of them.
    pub(super) position: usize,
    pub(super) run: Run,
}

impl Located {
    /// So many positions, the first ones, in the slots of the same number.
    pub(super) fn in_place(len: usize) -> Self {
        Self { position: 0, run: Run { slot: 0, len } }
    }

    /// Those of them that are among `positions`.
    pub(super) fn among(self, positions: &Range<usize>) -> Option<Self> {
        let from = self.position.max(positions.start);
        let len = (self.position + self.run.len).min(positions.end).checked_sub(from).filter(|&len| len > 0)?;
        Some(Self { position: from, run: Run { slot: self.run.slot + from - self.position, len } })
    }

    /// The same, cut where `len` slots end.
    pub(super) fn cut(self, len: usize) -> impl Iterator<Item = Self> {
        let Self { position, run } = self;
        let end = run.slot + run.len;
        let starts = std::iter::successors(Some(run.slot), move |slot| Some((slot / len + 1) * len));
        starts.take_while(move |&slot| slot < end).map(move |slot| {
            let run_len = end.min((slot / len + 1) * len) - slot;
            Self { position: position + slot - run.slot, run: Run { slot, len: run_len } }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::kv_cache::{CacheShape, KvCache, KvFormat, KvPlace};

    fn located(position: usize, slot: usize, len: usize) -> Located {
        Located { position, run: Run { slot, len } }
    }

    #[test]
    fn positions_are_found_again_in_the_slots_of_those_asked_for() {
        let found = |range: Range<usize>| located(10, 70, 5).among(&range).map(|l| (l.position, l.run.slot, l.run.len));
        assert_eq!(found(0..100), Some((10, 70, 5)));
        assert_eq!(found(12..14), Some((12, 72, 2)));
        assert_eq!(found(0..11), Some((10, 70, 1)));
        assert_eq!((found(0..10), found(15..20), found(20..30)), (None, None, None));
    }

    #[test]
    fn a_run_is_cut_where_blocks_end() {
        let cut: Vec<_> = located(3, 60, 70).cut(64).map(|l| (l.position, l.run.slot, l.run.len)).collect();
        assert_eq!(cut, [(3, 60, 4), (7, 64, 64), (71, 128, 2)]);
    }

    #[test]
    fn groups_that_lie_in_place_are_taken_together_up_to_the_end_of_their_block() {
        let shape = CacheShape { layers: 1, kv_heads: 1, head_dim: 4, context: 256, format: KvFormat::Bytes };
        let mut whole = KvCache::alone(shape, &KvPlace::Host);
        whole.reserve(200).unwrap();
        let cache = &whole.block_table().layer(0);
        let groups = |located: &[Located], positions: Range<usize>, part: bool| {
            let summed = Summed { cache, kv_head: 0, head_dim: 4, located, positions };
            summed.groups(part).collect::<Vec<_>>()
        };
        let in_place = [Located::in_place(150)];
        let with = |last: Groups| [Groups::InPlace(1..2), Groups::InPlace(2..4), last];
        assert_eq!(groups(&in_place, 32..140, true), with(Groups::InPlace(4..5)));
        assert_eq!(groups(&in_place, 32..140, false), with(Groups::Apart(4)));
        let moved = [Located::in_place(70), located(70, 90, 40)];
        assert_eq!(groups(&moved, 0..110, true), [Groups::InPlace(0..2), Groups::Apart(2), Groups::Apart(3)]);
        assert_eq!(groups(&moved, 64..64, true), []);
    }
}
