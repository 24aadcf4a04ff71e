//! One forward pass over some rows.

use std::time::{Duration, Instant};

use espalier_model::{Asked, BestOf, Decoder, KvCache, Logits, ModelError, Row, Segment, Workspace};

/// Tokens before the rows.
pub(super) const CONTEXT: usize = 256;

/// The text that they are.
pub(super) const TEXT: [u32; CONTEXT] = [7; CONTEXT];

/// Most turns of passes over each number of rows; medians count.
const TURNS_MAX: usize = 41;

/// Fewest turns, however long they take.
const TURNS_MIN: usize = 5;

/// How long there are more turns than the fewest, for each model: passes of large ones take seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The turns of a measurement.
pub(super) struct Turns {
    begun: Instant,
    begun_turns: usize,
    patience: Duration,
}

impl Turns {
    /// Those of so many models.
    pub(super) fn of(models: usize) -> Self {
        Self { begun: Instant::now(), begun_turns: 0, patience: PATIENCE.saturating_mul(models as u32) }
    }

    /// Whether there is one more, which then begins.
    pub(super) fn another(&mut self) -> bool {
        let wanted = wanted(self.begun_turns, self.begun.elapsed(), self.patience);
        self.begun_turns += usize::from(wanted);
        wanted
    }
}

/// Whether one turn more is wanted after so many.
fn wanted(turns: usize, elapsed: Duration, patience: Duration) -> bool {
    turns < TURNS_MIN || (turns < TURNS_MAX && elapsed < patience)
}

/// How long passes of a kind run before one of them counts. A cache that others use too takes small weights in over some
/// passes, and what the largest pass has left of them there says nothing of the smallest: in decoding alike passes follow
/// each other.
const SETTLING: Duration = Duration::from_millis(8);

/// The milliseconds of a pass that follows others of its kind: at least one, and for [`SETTLING`].
pub(super) fn settled(mut pass: impl FnMut() -> Result<f64, ModelError>) -> Result<f64, ModelError> {
    let begun = Instant::now();
    loop {
        pass()?;
        if begun.elapsed() >= SETTLING {
            return pass();
        }
    }
}

/// A cache that holds the context.
pub(super) fn cache(decoder: &Decoder, work: &mut Workspace) -> Result<KvCache, ModelError> {
    filled(decoder, work, decoder.new_cache())
}

/// Caches of several sequences that begin with the context and share what is known of it, which is computed once.
pub(super) fn sharing_caches(
    decoder: &Decoder,
    work: &mut Workspace,
    sequences: usize,
) -> Result<Vec<KvCache>, ModelError> {
    let pool = decoder.block_pool(sequences * decoder.context_bytes())?;
    (0..sequences).map(|_| filled(decoder, work, pool.open(decoder.config().context, &TEXT)?)).collect()
}

/// Adds what a cache lacks of the context.
fn filled(decoder: &Decoder, work: &mut Workspace, mut cache: KvCache) -> Result<KvCache, ModelError> {
    let missing = &TEXT[cache.committed()..];
    if !missing.is_empty() {
        pass(decoder, work, &mut cache, &Row::chain(missing, 0))?;
        cache.keep_path(&(0..missing.len()).collect::<Vec<_>>())?;
    }
    Ok(cache)
}

/// So many rows of a tree in which every node has two children.
pub(super) fn tree(decoder: &Decoder, rows: usize) -> Vec<Row> {
    let vocab = decoder.config().vocab;
    let row = |i: usize| Row { token: (17 * i % vocab) as u32, parent: i.checked_sub(1).map(|i| i / 2) };
    (0..rows).map(row).collect()
}

/// Runs rows after what the cache holds; they are in it until a path of them is kept.
pub(super) fn pass(
    decoder: &Decoder,
    work: &mut Workspace,
    cache: &mut KvCache,
    rows: &[Row],
) -> Result<(), ModelError> {
    let mut segments = [Segment { cache, rows, logits: Logits::All }];
    decoder.forward(work, &mut segments, Asked { best: &[best(decoder)], ..Asked::default() }).map(drop)
}

/// What greedy decoding asks of each row.
pub(super) fn best(decoder: &Decoder) -> Option<BestOf> {
    Some(BestOf { count: 1, vocab: decoder.config().vocab, noise: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_alike_passes_counts() {
        let mut passes = 0.0;
        let counted = settled(|| {
            passes += 1.0;
            Ok(passes)
        });
        assert_eq!(counted.ok(), Some(passes));
        assert!(passes >= 2.0);
    }

    #[test]
    fn what_takes_long_has_fewer_turns() {
        let turns = |each: Duration| (0..).find(|&turns| !wanted(turns as usize, each * turns, PATIENCE));
        let times = [1, 1000, 10_000].map(Duration::from_millis);
        assert_eq!(times.map(turns), [41, 20, 5].map(Some));
    }
}
