//! Exits after several layers (S2D, "Sorted Speculative Decoding", §3): rows leave where they are sure enough, and the
//! others go on.
//!
//! A row that left early has no keys and values above its exit. The cache keeps its residual stream instead, so that the
//! layers it skipped can be run once a later row of its path goes deeper: first those that lag behind, then all together.
//! A row's logits are therefore the same bits as if every row had been run through every layer.

use std::collections::BTreeSet;

use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::forward::{Output, Start, check_rows};
use crate::pass::{Answer, Pass, sized};
use crate::placed::Placed;
use crate::rows::{ROWS_MAX, Segment};
use crate::workspace::Workspace;

/// A row that has reached an exit, but not the last.
#[derive(Clone, Copy, Debug)]
pub struct AtExit<'a> {
    /// Its segment.
    pub segment: usize,
    /// Its number among the rows of the segment that want logits.
    pub row: usize,
    /// The exit, counted from 0.
    pub exit: usize,
    /// (vocab): its logits there.
    pub logits: &'a [f32],
}

/// A row of a segment, by its slot in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowId {
    segment: usize,
    slot: usize,
}

/// A row that wants logits and has not left yet.
#[derive(Clone, Copy, Debug)]
struct Asking {
    id: RowId,
    /// Its number among all rows of the pass.
    row: usize,
    /// Its number among those that want logits.
    answer: usize,
}

impl Decoder {
    /// Runs the rows of all segments to the first of `exits` (layers counted from 1, rising) and appends them to their
    /// caches' tails. Those that want logits run on from exit to exit as long as `goes_on` says so; nobody is asked at the
    /// last exit. Of the others, no more layers are run than those that follow them need.
    ///
    /// Tap 0 is the residual stream at the exit where each row that wanted logits left.
    ///
    /// # Errors
    /// As for [`Decoder::forward`], and exits that do not rise.
    pub fn forward_exits<'w>(
        &self,
        work: &'w mut Workspace,
        segments: &mut [Segment<'_>],
        exits: &[usize],
        mut goes_on: impl FnMut(AtExit<'_>) -> bool,
    ) -> Result<Output<'w>> {
        self.check_exits(exits)?;
        check_rows(segments.iter().map(|segment| segment.rows.len()).sum())?;
        let mut deepening = Deepening { decoder: self, pass: self.begin(work) };
        let new = deepening.append(segments)?;
        let (mut asking, starts) = asking(segments, &new);
        deepening.make_room(new.len(), asking.len());
        deepening.deepen(segments, &new, exits[0])?;
        deepening.answer(segments, &asking)?;
        for (exit, &next) in exits[1..].iter().enumerate() {
            asking.retain(|asked| {
                let segment = asked.id.segment;
                goes_on(AtExit {
                    segment,
                    row: asked.answer - starts[segment].logits,
                    exit,
                    logits: deepening.logits(asked.answer),
                })
            });
            let ids: Vec<RowId> = asking.iter().map(|asked| asked.id).collect();
            deepening.deepen(segments, &ids, next)?;
            deepening.answer(segments, &asking)?;
        }
        deepening.finish()?;
        Ok(work.output(self, starts, 1))
    }

    fn check_exits(&self, exits: &[usize]) -> Result<()> {
        exits.iter().try_for_each(|&layers| self.check_layer(layers))?;
        if exits.is_empty() || !exits.is_sorted_by(|a, b| a < b) {
            return Err(ModelError::Exits { exits: exits.to_vec(), layers: self.layers() });
        }
        Ok(())
    }
}

/// The rows that want logits among `new`, those of all segments; and where each segment begins among them and among all.
fn asking(segments: &[Segment<'_>], new: &[RowId]) -> (Vec<Asking>, Vec<Start>) {
    let (mut asking, mut starts) = (Vec::new(), Vec::with_capacity(segments.len()));
    let mut first = 0;
    for Segment { rows, logits, .. } in segments {
        starts.push(Start { logits: asking.len(), row: first });
        let silent = rows.len() - logits.wanted(rows.len());
        for (row, id) in new.iter().enumerate().take(first + rows.len()).skip(first + silent) {
            asking.push(Asking { id: *id, row, answer: asking.len() });
        }
        first += rows.len();
    }
    (asking, starts)
}

/// Those of `rows` and all that they follow that have not been through `layers`.
fn behind(segments: &[Segment<'_>], rows: &[RowId], layers: usize) -> BTreeSet<RowId> {
    let mut behind = BTreeSet::new();
    for &RowId { segment, slot } in rows {
        let path = segments[segment].cache.behind(slot, layers);
        // Where two paths meet they are one.
        let _ = path.take_while(|&slot| behind.insert(RowId { segment, slot })).count();
    }
    behind
}

/// A pass whose rows run on as far as they are wanted.
struct Deepening<'a> {
    decoder: &'a Decoder,
    pass: Box<dyn Pass + 'a>,
}

impl Deepening<'_> {
    fn hidden(&self) -> usize {
        self.decoder.config().hidden
    }

    fn finish(self) -> Result<()> {
        self.pass.finish()
    }

    /// Appends the rows to the caches, where each waits before the first layer.
    fn append(&mut self, segments: &mut [Segment<'_>]) -> Result<Vec<RowId>> {
        let hidden = self.hidden();
        let mut new = Vec::new();
        for (number, Segment { cache, rows, .. }) in segments.iter_mut().enumerate() {
            rows.iter().try_for_each(|row| self.decoder.check_token(row.token))?;
            let first = cache.slots();
            cache.append(rows.iter().map(|row| (row.parent, Some(row.token))))?;
            new.extend((first..cache.slots()).map(|slot| RowId { segment: number, slot }));
        }
        self.pass.embed(&segments.iter().flat_map(|segment| segment.rows).map(|row| row.token).collect::<Vec<_>>())?;
        for (RowId { segment, slot }, state) in new.iter().zip(self.pass.states()?.chunks_exact(hidden)) {
            segments[*segment].cache.advance(*slot, 0, state);
        }
        Ok(new)
    }

    /// Makes room for the logits of `answers` rows, and for what `rows` rows leave at tap 0.
    fn make_room(&mut self, rows: usize, answers: usize) {
        let (hidden, vocab) = (self.hidden(), self.decoder.config().vocab);
        let results = self.pass.results();
        results.make_room(answers, vocab, 1);
        sized(&mut results.taps[0], rows * hidden);
    }

    /// The logits of a row, by its number among those that want some.
    fn logits(&mut self, answer: usize) -> &[f32] {
        let vocab = self.decoder.config().vocab;
        &self.pass.results().logits[answer * vocab..][..vocab]
    }

    /// Runs `rows` and all that they follow until each has been through `layers`.
    fn deepen(&mut self, segments: &mut [Segment<'_>], rows: &[RowId], layers: usize) -> Result<()> {
        let ran = |segments: &[Segment<'_>], id: &RowId| segments[id.segment].cache.progress(id.slot).0;
        let mut behind = behind(segments, rows, layers);
        while let Some(least) = behind.iter().map(|id| ran(segments, id)).min() {
            let (together, ahead): (Vec<RowId>, Vec<RowId>) = behind.iter().partition(|id| ran(segments, id) == least);
            let to = ahead.iter().map(|id| ran(segments, id)).min().unwrap_or(layers);
            // Earlier slots first, so what a row follows is in its own pass or in one before it.
            together.chunks(ROWS_MAX).try_for_each(|rows| self.advance(segments, rows, to))?;
            behind.retain(|id| ran(segments, id) < layers);
        }
        Ok(())
    }

    /// Runs rows that have all been through as many layers until they have been through `to`.
    fn advance(&mut self, segments: &mut [Segment<'_>], rows: &[RowId], to: usize) -> Result<()> {
        let hidden = self.hidden();
        let (from, placed) = self.gather(segments, rows)?;
        self.pass.place(&placed)?;
        (from..to).try_for_each(|layer| self.pass.layer(layer, &placed))?;
        for (RowId { segment, slot }, state) in rows.iter().zip(self.pass.states()?.chunks_exact(hidden)) {
            segments[*segment].cache.advance(*slot, to, state);
        }
        Ok(())
    }

    /// Makes the states of `rows` the residual stream; returns how many layers they have been through.
    fn gather(&mut self, segments: &[Segment<'_>], rows: &[RowId]) -> Result<(usize, Vec<Placed>)> {
        let hidden = self.hidden();
        let mut states = Vec::with_capacity(rows.len() * hidden);
        let (mut placed, mut from, mut left) = (Vec::with_capacity(segments.len()), 0, rows);
        for (number, Segment { cache, .. }) in segments.iter().enumerate() {
            let own = left.iter().take_while(|id| id.segment == number).count();
            let slots = left.split_off(..own).unwrap_or_default().iter().map(|id| id.slot);
            placed.push(Placed::new(cache, slots.clone(), states.len() / hidden));
            for slot in slots {
                let (layers, state) = cache.progress(slot);
                if state.len() != hidden {
                    return Err(ModelError::Shallow { found: layers, needed: layers + 1 });
                }
                from = layers;
                states.extend_from_slice(state);
            }
        }
        self.pass.load(&states)?;
        Ok((from, placed))
    }

    /// The logits and the states of rows at the exit they have reached.
    fn answer(&mut self, segments: &[Segment<'_>], asking: &[Asking]) -> Result<()> {
        let hidden = self.hidden();
        let mut states = Vec::with_capacity(asking.len() * hidden);
        for Asking { id, row, .. } in asking {
            let (_, state) = segments[id.segment].cache.progress(id.slot);
            self.pass.results().taps[0][row * hidden..][..hidden].copy_from_slice(state);
            states.extend_from_slice(state);
        }
        self.pass.load(&states)?;
        self.pass
            .answer(&asking.iter().map(|row| Answer { place: row.answer, best: None, noise: None }).collect::<Vec<_>>())
    }
}
