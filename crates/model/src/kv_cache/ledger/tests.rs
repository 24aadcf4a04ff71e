//! Random operations against named invariants, and the cases that a person thinks of.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use espalier_speculation::SplitMix64;

use super::*;
use crate::kv_cache::BLOCK;

const BLOCKS: usize = 40;

/// A seeded source of numbers.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(2) as u32).collect()
    }
}

/// A lease and what a cache would know beside it.
struct Sequence {
    lease: Lease,
    text: Vec<u32>,
    /// What it is still to write before anything else.
    unread: Vec<u32>,
    published: usize,
    /// It went back into a block of others, which may leave it short.
    went_back: bool,
}

/// A ledger, and what is true of it by other means.
struct World {
    ledger: Ledger,
    open: Vec<Sequence>,
    /// The tokens written in each block.
    written: Vec<Vec<u32>>,
    /// The text up to the end of each known block.
    known: BTreeMap<BlockId, Vec<u32>>,
    /// When each lingering block was let go: operation by operation, in one the later parts of a text first.
    let_go: BTreeMap<BlockId, (u64, usize)>,
    now: u64,
    random: Random,
    /// Texts that sequences had, to begin others with.
    texts: Vec<Vec<u32>>,
    /// How often each thing happened that the test is about.
    seen: BTreeMap<&'static str, usize>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            ledger: Ledger::new(BLOCKS),
            open: Vec::new(),
            written: vec![Vec::new(); BLOCKS],
            known: BTreeMap::new(),
            let_go: BTreeMap::new(),
            now: 0,
            random: Random(SplitMix64::new(seed)),
            texts: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        self.now += 1;
        match self.random.below(10) {
            0..3 => self.open(),
            3..6 => self.grow(),
            6 => self.go_back(),
            7 => self.finish(),
            _ => self.close(),
        }
        self.note_let_go();
        self.check();
    }

    /// A sequence whose text begins like an earlier one.
    fn open(&mut self) {
        let quota = 1 + self.random.below(12);
        let begin = self.random.below(self.texts.len());
        let mut text = self.texts.get(begin).cloned().unwrap_or_default();
        text.truncate(self.random.below(text.len() + 1));
        let more = self.random.below(3 * BLOCK);
        text.extend(self.random.tokens(more));
        text.truncate(quota * BLOCK);
        let (before, longest) = (self.ledger.counts(), self.longest_known(&text));
        let busy = |(block, known): (&BlockId, &Vec<u32>)| text.starts_with(known) && self.ledger.holders[block.0] > 0;
        let busy = self.known.iter().filter(|entry| entry.1.len().is_multiple_of(BLOCK) && busy(*entry)).count();
        match self.ledger.open(quota, Tenant::default(), &text) {
            Ok((lease, part)) => {
                let found = lease.blocks.len() * BLOCK + part.map_or(0, |part| part.rows);
                if found < longest {
                    // A part is left alone only where it is all that there is.
                    assert!(part.is_none() && lease.blocks.len() == longest / BLOCK && self.ledger.unpromised() == 0);
                }
                if !lease.blocks.is_empty() {
                    self.saw("shared");
                }
                let published = lease.blocks.len();
                let (read, unread) = text.split_at(found);
                let (text, unread) = (read.to_vec(), unread.to_vec());
                self.admit(Sequence { lease, text, unread, published, went_back: false }, part);
            }
            Err(PoolFault::Full { needed, free, total }) => {
                self.saw("refused");
                assert_eq!((needed, total), (quota - busy, BLOCKS));
                assert_eq!(free, before.total - before.held - before.promised);
                assert!(needed > free && self.ledger.counts() == before);
            }
            Err(fault) => panic!("{fault}"),
        }
    }

    fn admit(&mut self, mut sequence: Sequence, part: Option<Part>) {
        if let Some(Part { block, rows }) = part {
            self.saw("copied a part");
            self.take(&mut sequence.lease).unwrap();
            let rows = self.written[block.0][..rows].to_vec();
            self.written[sequence.lease.blocks.last().unwrap().0] = rows;
            self.ledger.release(block);
        }
        self.open.push(sequence);
    }

    /// Tokens at the beginning of `text` that some known block ends or goes beyond.
    fn longest_known(&self, text: &[u32]) -> usize {
        let common = |known: &Vec<u32>| known.iter().zip(text).take_while(|(one, other)| one == other).count();
        self.known.values().map(common).max().unwrap_or(0)
    }

    /// Takes a block, and checks which it is.
    fn take(&mut self, lease: &mut Lease) -> Result<(), PoolFault> {
        self.note_let_go();
        let free = self.ledger.free.clone();
        self.ledger.take(lease)?;
        let block = *lease.blocks.last().unwrap();
        if !free.contains(&block) {
            self.saw("evicted");
            let oldest = self.let_go.iter().min_by_key(|(_, let_go)| **let_go).map(|(block, _)| *block);
            assert!(free.is_empty() && oldest == Some(block), "what lingers goes last, the least recently used first");
            let text = self.known.remove(&block).unwrap();
            let whole = text.len().is_multiple_of(BLOCK);
            let child = |other: &Vec<u32>| whole && other.starts_with(&text);
            assert!(!self.known.values().any(child), "no block outlives its parent");
        }
        self.written[block.0].clear();
        Ok(())
    }

    /// Writes more of a sequence's text, as far as its quota goes.
    fn grow(&mut self) {
        let Some(mut sequence) = self.pick() else { return };
        let room = sequence.lease.quota * BLOCK - sequence.text.len();
        let more = self.random.below(4 * BLOCK).min(room);
        self.go_on(&mut sequence, more);
        self.open.push(sequence);
    }

    fn pick(&mut self) -> Option<Sequence> {
        let at = self.random.below(self.open.len());
        (at < self.open.len()).then(|| self.open.swap_remove(at))
    }

    /// Writes so many tokens: first those of its text that are not read yet.
    fn go_on(&mut self, sequence: &mut Sequence, count: usize) {
        let read = count.min(sequence.unread.len());
        let mut tokens: Vec<u32> = sequence.unread.drain(..read).collect();
        tokens.extend(self.random.tokens(count - read));
        self.write(sequence, &tokens);
    }

    /// Writes tokens as a cache does.
    fn write(&mut self, sequence: &mut Sequence, tokens: &[u32]) {
        if sequence.text.len() < sequence.published * BLOCK && !self.own(sequence) {
            return;
        }
        for &token in tokens {
            if sequence.text.len() == sequence.lease.blocks.len() * BLOCK
                && let Err(fault) = self.take(&mut sequence.lease)
            {
                assert!(sequence.went_back, "a promise was broken: {fault}");
                return;
            }
            let block = sequence.lease.blocks[sequence.text.len() / BLOCK];
            assert!(self.ledger.holders[block.0] == 1 && !self.known.contains_key(&block), "a shared block is written");
            self.written[block.0].truncate(sequence.text.len() % BLOCK);
            self.written[block.0].push(token);
            sequence.text.push(token);
            if sequence.text.len().is_multiple_of(BLOCK) {
                self.publish(sequence);
            }
        }
    }

    /// Makes the last block one that may be written.
    fn own(&mut self, sequence: &mut Sequence) -> bool {
        let block = *sequence.lease.blocks.last().unwrap();
        let rows = sequence.text.len() % BLOCK;
        let alone = self.ledger.holders[block.0] == 1;
        let free = self.ledger.free.clone();
        match self.ledger.own_last(&mut sequence.lease) {
            Ok(None) => {
                assert!(alone);
                self.saw("owned");
                let text = self.known[&block].clone();
                self.known.retain(|_, known| !known.starts_with(&text));
            }
            Ok(Some(old)) => {
                assert!(old == block && !alone);
                self.saw("copied on write");
                let own = *sequence.lease.blocks.last().unwrap();
                if !free.contains(&own) {
                    self.known.remove(&own).unwrap();
                }
                self.written[own.0] = self.written[old.0][..rows].to_vec();
                self.ledger.release(old);
            }
            Err(_) => {
                assert!(!alone && sequence.went_back);
                self.saw("nothing left to copy to");
                return false;
            }
        }
        sequence.published -= 1;
        true
    }

    fn publish(&mut self, sequence: &mut Sequence) {
        let (index, tokens) = (sequence.published, &sequence.text[sequence.published * BLOCK..]);
        self.ledger.publish(&mut sequence.lease, index, tokens.into());
        sequence.published += 1;
        let block = sequence.lease.blocks[index];
        if let Some(known) = self.known.insert(block, sequence.text.clone()) {
            assert_eq!(known, sequence.text);
            self.saw("found its like");
        }
        self.note_let_go();
    }

    fn go_back(&mut self) {
        let Some(mut sequence) = self.pick() else { return };
        let len = self.random.below(sequence.text.len() + 1);
        self.ledger.shrink(&mut sequence.lease, len.div_ceil(BLOCK));
        sequence.text.truncate(len);
        sequence.published = sequence.published.min(sequence.lease.blocks.len());
        sequence.went_back = true;
        self.open.push(sequence);
    }

    /// What is admitted can always finish.
    fn finish(&mut self) {
        let Some(mut sequence) = self.pick() else { return };
        let room = sequence.lease.quota * BLOCK - sequence.text.len();
        self.go_on(&mut sequence, room);
        assert!(sequence.went_back || sequence.text.len() == sequence.lease.quota * BLOCK);
        self.open.push(sequence);
        self.close();
    }

    fn close(&mut self) {
        let Some(mut sequence) = self.pick() else { return };
        let (rest, published) = (sequence.text.len() % BLOCK, sequence.published);
        if rest > 0 && sequence.text.len() / BLOCK == published {
            self.ledger.publish(&mut sequence.lease, published, sequence.text[published * BLOCK..].into());
            self.known.insert(sequence.lease.blocks[published], sequence.text.clone());
            self.note_let_go();
        }
        self.ledger.close(&mut sequence.lease);
        self.texts.push(sequence.text);
        if self.texts.len() > 12 {
            self.texts.remove(0);
        }
    }

    /// Notes which blocks linger, and since when.
    fn note_let_go(&mut self) {
        let lingers = |block: &BlockId| self.ledger.prefixes.lingers(*block);
        self.let_go.retain(|block, _| lingers(block));
        for (&block, text) in self.known.iter().filter(|(block, _)| lingers(block)) {
            self.let_go.entry(block).or_insert((self.now, usize::MAX - text.len()));
        }
    }

    /// The invariants.
    fn check(&self) {
        let Ledger { holders, free, promised, prefixes } = &self.ledger;
        let free: BTreeSet<BlockId> = free.iter().copied().collect();
        let held = |block: BlockId| self.open.iter().flat_map(|s| s.lease.blocks()).filter(|&&b| b == block).count();
        for block in (0..BLOCKS).map(BlockId) {
            let places = [free.contains(&block), held(block) > 0, prefixes.lingers(block)];
            assert_eq!(
                places.into_iter().filter(|is| *is).count(),
                1,
                "{block:?} is free, held or lingering: {places:?}"
            );
            assert_eq!(holders[block.0], held(block), "holders of {block:?} are counted");
            assert_eq!(prefixes.contains(block), self.known.contains_key(&block), "{block:?} is known");
            assert!(held(block) < 2 || prefixes.contains(block), "only what is known is shared");
        }
        assert_eq!(free.len(), self.ledger.free.len(), "no block is free twice");
        assert_eq!(*promised, self.open.iter().map(|s| s.lease.promised).sum::<usize>(), "promises add up");
        assert!(*promised <= free.len() + prefixes.lingering(), "every promise can be kept");
        for Sequence { lease, text, went_back, .. } in &self.open {
            let entitled = lease.blocks.len() + lease.promised;
            assert!(
                entitled == lease.quota || (*went_back && entitled < lease.quota),
                "all that is needed is promised"
            );
            for (block, tokens) in lease.blocks.iter().zip(text.chunks(BLOCK)) {
                assert!(self.written[block.0].starts_with(tokens), "nobody wrote what another reads");
            }
        }
        for (block, text) in &self.known {
            let last = text.len().div_ceil(BLOCK).saturating_sub(1) * BLOCK;
            assert!(self.written[block.0].starts_with(&text[last..]), "what is known of {block:?} is true");
        }
        let counts = self.ledger.counts();
        assert_eq!(counts.held + counts.lingering + free.len(), counts.total, "counts add up");
    }
}

#[test]
fn a_hundred_thousand_random_operations_keep_the_invariants() {
    let mut world = World::new(11);
    (0..100_000).for_each(|_| world.step());
    for what in ["shared", "copied a part", "refused", "evicted", "owned", "copied on write", "found its like"] {
        assert!(world.seen.get(what).is_some_and(|times| *times > 20), "{what} happened too seldom: {:?}", world.seen);
    }
    while !world.open.is_empty() {
        world.close();
    }
    assert_eq!((world.ledger.counts().held, world.ledger.counts().promised), (0, 0));
    assert!(world.ledger.counts().lingering > 0);
    world.ledger.forget_prefixes();
    assert_eq!(world.ledger.counts(), BlockCounts { total: BLOCKS, ..BlockCounts::default() });
}
