//! One forward pass over rows of many sequences.
//!
//! Every row is computed by the same operations in the same order however many share the pass, so its logits are the
//! same bits alone, in a tree, or in a batch.

use std::time::Duration;

use espalier_speculation::{Best, LogitsError, Token};

use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::pass::{Answer, Keys, NoiseAt, Pass, Results, Told};
use crate::placed::Placed;
use crate::rows::{Asked, BestOf, ROWS_MAX, Segment};
use crate::workspace::Workspace;

/// Where a segment begins in a pass.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// Its first row among those that want logits.
    pub(crate) logits: usize,
    /// Its first row among all.
    pub(crate) row: usize,
}

/// The result of a forward pass, borrowed from its workspace.
pub struct Output<'w> {
    vocab: usize,
    hidden: usize,
    /// Of each segment.
    starts: Vec<Start>,
    logits: &'w [f32],
    best: &'w [Option<std::result::Result<Told, LogitsError>>],
    taps: &'w [Vec<f32>],
    waited: Duration,
}

impl Workspace {
    /// What a pass of `decoder` left behind.
    pub(crate) fn output(&self, decoder: &Decoder, starts: Vec<Start>, taps: usize) -> Output<'_> {
        let Results { logits, best, taps: tapped } = &self.results;
        let ModelConfig { vocab, hidden, .. } = *decoder.config();
        Output { vocab, hidden, starts, logits, best, taps: &tapped[..taps], waited: self.waited }
    }
}

impl Output<'_> {
    /// How long the pass waited while its team computed for others.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Logits (vocab) of the `row`-th row of `segment` that wanted some. They mean nothing where [`Self::best`] or
    /// [`Self::decision`] is told.
    pub fn logits(&self, segment: usize, row: usize) -> &[f32] {
        &self.logits[(self.starts[segment].logits + row) * self.vocab..][..self.vocab]
    }

    /// The best tokens of the same row, or why there are none, if they were told in place of its logits: see
    /// [`Asked::best`].
    pub fn best(&self, segment: usize, row: usize) -> Option<std::result::Result<&Best, LogitsError>> {
        match self.best[self.starts[segment].logits + row].as_ref()? {
            Ok(Told::Best(best)) => Some(Ok(best)),
            Ok(Told::Winner(_)) => None,
            Err(fault) => Some(Err(*fault)),
        }
    }

    /// The best token of the same row, under noise where that was asked for, or why there is none, if it was told in place
    /// of its logits.
    pub fn decision(&self, segment: usize, row: usize) -> Option<std::result::Result<Token, LogitsError>> {
        let told = self.best[self.starts[segment].logits + row].as_ref()?;
        Some(told.as_ref().map_err(|fault| *fault).map(|told| match told {
            Told::Best(best) => best.arg_max(),
            Told::Winner(token) => *token,
        }))
    }

    /// The residual stream (hidden) of `row` of `segment` after the layer that `tap` names: an index into
    /// [`Asked::taps`].
    pub fn tap(&self, tap: usize, segment: usize, row: usize) -> &[f32] {
        &self.taps[tap][(self.starts[segment].row + row) * self.hidden..][..self.hidden]
    }
}

impl Decoder {
    /// Runs the rows of all segments and appends them to their caches' tails.
    ///
    /// # Errors
    /// [`ModelError`] for a token outside the vocabulary, an unknown parent, one that left at an earlier exit, a full
    /// context, too many rows or layers. Tails may then hold rows that were not run: roll them back.
    pub fn forward<'w>(
        &self,
        work: &'w mut Workspace,
        segments: &mut [Segment<'_>],
        asked: Asked<'_>,
    ) -> Result<Output<'w>> {
        check_rows(segments.iter().map(|segment| segment.rows.len()).sum())?;
        let layers = asked.exit_after.unwrap_or(self.layers());
        asked.taps.iter().chain([&layers]).try_for_each(|&asked| self.check_layer(asked))?;
        let placed = self.append(segments, layers)?;
        let starts = starts(segments);
        let answers = segments.iter().map(Segment::wanted).sum();
        let mut pass = self.begin(work);
        pass.results().make_room(answers, self.config().vocab, asked.taps.len());
        pass.embed(&segments.iter().flat_map(|segment| segment.rows).map(|row| row.token).collect::<Vec<_>>())?;
        pass.place(&placed)?;
        // Nothing but the logits comes after the last layer, unless it is tapped.
        let whole = if asked.taps.contains(&layers) { layers } else { layers - 1 };
        for index in 0..whole {
            pass.layer(index, &placed)?;
            let taps = asked.taps.iter().enumerate().filter(|(_, after)| **after == index + 1);
            taps.map(|(tap, _)| tap).try_for_each(|tap| pass.tap(tap))?;
        }
        let silent = segments.iter().any(|segment| segment.wanted() < segment.rows.len());
        if silent && whole < layers {
            pass.keys_and_values(whole, Keys::OfTokens, &placed)?;
        }
        if answers > 0 {
            let wanting = if silent { wanting(&mut *pass, segments, &placed)? } else { placed };
            (whole..layers).try_for_each(|index| pass.layer(index, &wanting))?;
            pass.answer(&all_answers(&wanting, asked.best))?;
        }
        pass.finish()?;
        for Segment { cache, rows, .. } in segments {
            (cache.slots() - rows.len()..cache.slots()).for_each(|slot| cache.advance(slot, layers, &[]));
        }
        Ok(work.output(self, starts, asked.taps.len()))
    }

    /// Appends the rows to the caches. Those that they follow must have been through `layers`.
    fn append(&self, segments: &mut [Segment<'_>], layers: usize) -> Result<Vec<Placed>> {
        let mut placed = Vec::with_capacity(segments.len());
        let mut first_row = 0;
        for Segment { cache, rows, .. } in segments {
            rows.iter().try_for_each(|row| self.check_token(row.token))?;
            let first = cache.slots();
            cache.append(rows.iter().map(|row| (row.parent, Some(row.token))))?;
            let new = first..cache.slots();
            cache.check_ancestors(new.clone(), layers)?;
            placed.push(Placed::new(cache, new, first_row));
            first_row += rows.len();
        }
        Ok(placed)
    }

    /// Refuses a layer, counted from 1, that there is not.
    pub(crate) fn check_layer(&self, asked: usize) -> Result<()> {
        let available = self.layers();
        if (1..=available).contains(&asked) { Ok(()) } else { Err(ModelError::Layers { asked, available }) }
    }
}

/// Refuses a number of rows that one pass does not run.
pub(crate) fn check_rows(rows: usize) -> Result<()> {
    match rows {
        0 => Err(ModelError::NoTokens),
        1..=ROWS_MAX => Ok(()),
        _ => Err(ModelError::Rows { rows, limit: ROWS_MAX }),
    }
}

/// Leaves the rows that want logits in the stream, and says where they stand.
fn wanting(pass: &mut dyn Pass, segments: &[Segment<'_>], placed: &[Placed]) -> Result<Vec<Placed>> {
    let (mut wanting, mut kept) = (Vec::with_capacity(placed.len()), Vec::new());
    for (segment, placed) in segments.iter().zip(placed) {
        // They are the last ones that the cache has.
        let (end, slots) = (placed.first_row + placed.rows(), segment.cache.slots());
        wanting.push(Placed::new(segment.cache, slots - segment.wanted()..slots, kept.len()));
        kept.extend(end - segment.wanted()..end);
    }
    pass.keep(&kept)?;
    pass.place(&wanting)?;
    Ok(wanting)
}

/// What is wanted of each row that wants something.
fn all_answers(wanting: &[Placed], best: &[Option<BestOf>]) -> Vec<Answer> {
    let of_segments = wanting.iter().zip(best.iter().copied().chain(std::iter::repeat(None)));
    let of_rows = of_segments.flat_map(|(placed, best)| placed.positions().map(move |position| (position, best)));
    let of_rows = of_rows.enumerate();
    of_rows
        .map(|(place, (position, best))| {
            // A row decides the token after its own.
            let at = |rule| NoiseAt { rule, position: position as u64 + 1 };
            Answer { place, best, noise: best.and_then(|best| best.noise).map(at) }
        })
        .collect()
}

/// Where each segment's rows begin among those that want logits and among all.
fn starts(segments: &[Segment<'_>]) -> Vec<Start> {
    let mut next = Start { logits: 0, row: 0 };
    let start = |segment: &Segment<'_>| {
        let start = next;
        next = Start { logits: start.logits + segment.wanted(), row: start.row + segment.rows.len() };
        start
    };
    segments.iter().map(start).collect()
}
