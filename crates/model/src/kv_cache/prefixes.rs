//! Which blocks hold which beginnings of texts.
//!
//! A block that is known here holds keys and values of tokens that follow those of its parent. The tokens themselves are
//! compared, so no text is ever taken for another. Blocks that nobody holds *linger*, until the one that was let go first
//! is evicted. Whoever holds a block holds its parent too and lets go of it later, so a parent outlives its children.

use std::collections::BTreeMap;

use super::block::{BLOCK, BlockId};

/// Who shares beginnings of texts: sequences of the same tenant. How soon something comes tells what is known already, and
/// nobody is to learn that of another tenant's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant(pub u64);

/// What a block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum After {
    /// Nothing: texts of a tenant begin with it.
    Nothing(Tenant),
    /// Another block.
    Block(BlockId),
}

/// What a block is found by: what is before it, and its own tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockKey {
    after: After,
    tokens: Box<[u32]>,
}

#[derive(Debug)]
struct Known {
    key: BlockKey,
    /// When it was let go, if nobody holds it.
    lingers_since: Option<u64>,
}

/// The longest known beginning of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Blocks all of whose tokens are the text's.
    pub(super) whole: Vec<BlockId>,
    /// One whose first tokens are those that come next.
    pub(super) part: Option<Part>,
}

/// The first rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) block: BlockId,
    pub(super) rows: usize,
}

/// The index of a pool.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    by_key: BTreeMap<BlockKey, BlockId>,
    known: BTreeMap<BlockId, Known>,
    /// By the time at which they were let go.
    lingering: BTreeMap<u64, BlockId>,
    clock: u64,
}

impl Prefixes {
    pub(super) fn contains(&self, block: BlockId) -> bool {
        self.known.contains_key(&block)
    }

    /// Blocks that nobody holds.
    pub(super) fn lingering(&self) -> usize {
        self.lingering.len()
    }

    pub(super) fn find(&self, tenant: Tenant, text: &[u32]) -> Found {
        let (mut found, mut rest) = (Found::default(), text);
        loop {
            let next = rest.split_at_checked(BLOCK).map_or(rest, |(next, _)| next);
            let after = found.whole.last().copied().map_or(After::Nothing(tenant), After::Block);
            match self.nearest(after, next) {
                Some(Part { block, rows: BLOCK }) => found.whole.push(block),
                part => return Found { part, ..found },
            }
            rest = rest.get(BLOCK..).unwrap_or_default();
        }
    }

    /// The block there that has most of its first tokens in common with `tokens`, if any has.
    fn nearest(&self, after: After, tokens: &[u32]) -> Option<Part> {
        let key = BlockKey { after, tokens: tokens.into() };
        // Among sorted texts, the one with the longest common beginning is a neighbour.
        let neighbours = [self.by_key.range(..=&key).next_back(), self.by_key.range(&key..).next()];
        let siblings = neighbours.into_iter().flatten().filter(|(other, _)| other.after == after);
        let parts = siblings.map(|(other, &block)| Part { block, rows: common(&other.tokens, tokens) });
        parts.filter(|part| part.rows > 0).max_by_key(|part| part.rows)
    }

    /// Makes it known that `block`, which is held, holds `tokens` there; or tells which one is known to.
    pub(super) fn insert(&mut self, after: After, tokens: Box<[u32]>, block: BlockId) -> Result<(), BlockId> {
        let key = BlockKey { after, tokens };
        if let Some(&known) = self.by_key.get(&key) {
            return Err(known);
        }
        self.by_key.insert(key.clone(), block);
        self.known.insert(block, Known { key, lingers_since: None });
        Ok(())
    }

    /// Somebody holds `block`.
    pub(super) fn hold(&mut self, block: BlockId) {
        let since = self.known.get_mut(&block).and_then(|known| known.lingers_since.take());
        since.and_then(|since| self.lingering.remove(&since));
    }

    /// Whether nobody holds `block`.
    pub(super) fn lingers(&self, block: BlockId) -> bool {
        self.known.get(&block).is_some_and(|known| known.lingers_since.is_some())
    }

    /// Nobody holds `block` any more.
    pub(super) fn linger(&mut self, block: BlockId) {
        if let Some(known) = self.known.get_mut(&block) {
            known.lingers_since = Some(self.clock);
            self.lingering.insert(self.clock, block);
            self.clock += 1;
        }
    }

    /// Forgets the block that was let go first.
    pub(super) fn evict(&mut self) -> Option<BlockId> {
        let (_, block) = self.lingering.pop_first()?;
        self.remove(block);
        Some(block)
    }

    /// Forgets a block and all that follow it, which are returned.
    pub(super) fn forget(&mut self, block: BlockId) -> Vec<BlockId> {
        let mut following = self.children(block);
        let mut next = 0;
        while let Some(&block) = following.get(next) {
            following.extend(self.children(block));
            next += 1;
        }
        following.iter().chain([&block]).for_each(|&block| self.remove(block));
        following
    }

    fn children(&self, parent: BlockId) -> Vec<BlockId> {
        let after = After::Block(parent);
        let first = BlockKey { after, tokens: [].into() };
        self.by_key.range(first..).take_while(|(key, _)| key.after == after).map(|(_, &block)| block).collect()
    }

    fn remove(&mut self, block: BlockId) {
        let Some(Known { key, lingers_since }) = self.known.remove(&block) else { return };
        self.by_key.remove(&key);
        lingers_since.and_then(|since| self.lingering.remove(&since));
    }
}

/// How many tokens two texts begin with in common.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
