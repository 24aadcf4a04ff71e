//! Sequences verified in one pass, next to each of them in a pass of its own.

use std::time::Instant;

use espalier_model::{Asked, Decoder, KvCache, Logits, ModelError, Row, Segment, Workspace};
use serde::Serialize;

use super::pass::{Turns, best, cache, settled, sharing_caches, tree};
use crate::statistics::median;

/// What is measured. With one row each it is plain decoding: no more sequences than rows in the other tables, but each with
/// keys and values of its own to read. With more, a root with trees of two, four and eight nodes.
const LOADS: [Load; 7] = [
    Load { sequences: 2, rows: 1 },
    Load { sequences: 4, rows: 1 },
    Load { sequences: 8, rows: 1 },
    Load { sequences: 16, rows: 1 },
    Load { sequences: 8, rows: 3 },
    Load { sequences: 8, rows: 5 },
    Load { sequences: 8, rows: 9 },
];

/// Most sequences of a load.
const SEQUENCES_MAX: usize = 16;

/// What one pass runs.
#[derive(Clone, Copy)]
struct Load {
    sequences: usize,
    /// Of each.
    rows: usize,
}

/// One pass for several sequences.
#[derive(Serialize)]
pub(super) struct Together {
    pub(super) sequences: usize,
    /// Of each sequence.
    pub(super) rows: usize,
    /// How often it was measured.
    turns: usize,
    /// Median time of the pass.
    pub(super) ms: f64,
    /// Median time of a pass for each sequence, one after the other.
    pub(super) alone_ms: f64,
    /// What sharing leaves of that.
    pub(super) to_alone: f64,
    /// Rows of passes that follow each other without a pause: with one row each, the tokens of plain decoding.
    pub(super) rows_per_second: f64,
}

/// The times of a load: together, and one by one.
type Times = (Load, Vec<f64>, Vec<f64>);

/// A model at work.
struct Subject<'a> {
    decoder: &'a Decoder,
    caches: Vec<KvCache>,
    times: [Times; LOADS.len()],
}

/// Measures all loads for each model, both ways and all models in turns. Sequences may share the keys and values of their
/// context: large models take long to compute them.
pub(super) fn measure(
    decoders: &[Decoder],
    work: &mut Workspace,
    share: bool,
) -> Result<Vec<Vec<Together>>, ModelError> {
    let begun = decoders.iter().map(|decoder| Subject::new(decoder, work, share));
    let mut subjects = begun.collect::<Result<Vec<_>, _>>()?;
    let mut turns = Turns::of(decoders.len());
    while turns.another() {
        subjects.iter_mut().try_for_each(|subject| subject.turn(work))?;
    }
    let summed_up = |subject: Subject<'_>| {
        let times = subject.times.into_iter();
        times.map(|(load, together, alone)| load.summed_up(together, alone)).collect()
    };
    Ok(subjects.into_iter().map(summed_up).collect())
}

impl<'a> Subject<'a> {
    fn new(decoder: &'a Decoder, work: &mut Workspace, share: bool) -> Result<Self, ModelError> {
        let caches = match share {
            true => sharing_caches(decoder, work, SEQUENCES_MAX)?,
            false => (0..SEQUENCES_MAX).map(|_| cache(decoder, work)).collect::<Result<Vec<_>, _>>()?,
        };
        Ok(Self { decoder, caches, times: LOADS.map(|load| (load, Vec::new(), Vec::new())) })
    }

    fn turn(&mut self, work: &mut Workspace) -> Result<(), ModelError> {
        for (load, together, alone) in &mut self.times {
            let (rows, caches) = (tree(self.decoder, load.rows), &mut self.caches[..load.sequences]);
            together.push(settled(|| pass(self.decoder, work, caches, &rows))?);
            let one_by_one = || caches.chunks_mut(1).map(|one| pass(self.decoder, work, one, &rows)).sum();
            alone.push(settled(one_by_one)?);
        }
        Ok(())
    }
}

impl Load {
    fn summed_up(self, together: Vec<f64>, alone: Vec<f64>) -> Together {
        let Self { sequences, rows } = self;
        let turns = together.len();
        let [ms, alone_ms] = [together, alone].map(|times| median(times).unwrap_or(f64::NAN));
        let rows_per_second = (sequences * rows) as f64 / ms * 1e3;
        Together { sequences, rows, turns, ms, alone_ms, to_alone: ms / alone_ms, rows_per_second }
    }
}

/// Runs the same rows for all sequences in one pass, forgets them, and gives the milliseconds that the pass took.
fn pass(decoder: &Decoder, work: &mut Workspace, caches: &mut [KvCache], rows: &[Row]) -> Result<f64, ModelError> {
    let begun = Instant::now();
    let segment = |cache| Segment { cache, rows, logits: Logits::All };
    let mut segments: Vec<Segment<'_>> = caches.iter_mut().map(segment).collect();
    let best = vec![best(decoder); segments.len()];
    decoder.forward(work, &mut segments, Asked { best: &best, ..Asked::default() })?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    caches.iter_mut().try_for_each(|cache| cache.keep_path(&[]))?;
    Ok(took)
}
