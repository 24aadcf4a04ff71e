//! What the passes of a model cost while it decodes: each follows others of its size.

use std::time::Instant;

use espalier_model::{Asked, Decoder, KvCache, Logits, ModelError, Row, Segment, Workspace};

/// Rows that are measured.
const ROWS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Tokens before them.
const CONTEXT: usize = 128;

/// Sequences of a pass that tells what a context costs: so many that few caches hold all their keys and values.
const SEQUENCES: usize = 32;

/// Passes after which those of a size take what they go on to take: the weights are where they are to be.
const WARM_UP: usize = 5;

/// Passes of a size in a row, of which the median counts.
const PASSES: usize = 9;

/// Standard deviation of a normal distribution whose median absolute deviation is 1. The median is measured, as the few
/// passes that were interrupted do not change it.
const DEVIATION_PER_MEDIAN: f64 = 1.4826;

/// Bytes that take the place of any weights in the caches.
const OTHERS: usize = 256 << 20;

/// What passes cost, in milliseconds.
pub(super) struct Costs {
    /// By their rows, with nothing behind them.
    pub(super) curve: Vec<(usize, f64)>,
    /// For each token of a prompt.
    pub(super) prompt: f64,
    /// For each token that a sequence has behind it.
    pub(super) context: f64,
    /// What the first passes take longer, all in all, if others have used the caches.
    pub(super) cold: f64,
    /// Standard deviation of what a pass takes, as a share of it.
    pub(super) jitter: f64,
}

impl Costs {
    /// Measures a model while nothing else runs.
    pub(super) fn measure(decoder: &Decoder, work: &mut Workspace) -> Result<Self, ModelError> {
        let context = CONTEXT.min(decoder.config().context / 2);
        let mut bench = Bench { decoder, work, caches: Vec::new(), off: Vec::new() };
        for _ in 0..SEQUENCES {
            bench.open(context)?;
        }
        let passes = ROWS.map(|rows| bench.usual_ms(rows).map(|ms| (rows, ms)));
        let passes = passes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let at = |rows| passes.iter().find(|pass| pass.0 == rows).map_or(0.0, |pass| pass.1);
        let of_contexts = bench.apart_ms()?.max(0.0) / ((SEQUENCES - 1) * context.max(1)) as f64;
        let bare = |ms: f64| (ms - of_contexts * context as f64).max(ms / 2.0);
        let cold = bench.cold_ms()?;
        let prompt = (bench.prompt_ms(context)? - bare(at(1))).max(0.0) / context.saturating_sub(1).max(1) as f64;
        Ok(Self {
            curve: passes.iter().map(|&(rows, ms)| (rows, bare(ms))).collect(),
            prompt,
            context: of_contexts,
            cold,
            jitter: DEVIATION_PER_MEDIAN * median(bench.off),
        })
    }
}

struct Bench<'a> {
    decoder: &'a Decoder,
    work: &'a mut Workspace,
    caches: Vec<KvCache>,
    /// How far each measured pass was off the usual one of its size, as a share of that.
    off: Vec<f64>,
}

impl Bench<'_> {
    /// Opens a sequence with so many tokens behind it.
    fn open(&mut self, context: usize) -> Result<(), ModelError> {
        let (rows, mut cache) = (Row::chain(&vec![0; context], 0), self.decoder.new_cache());
        let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }];
        self.decoder.forward(self.work, &mut segments, Asked::default())?;
        cache.keep_path(&(0..context).collect::<Vec<_>>())?;
        self.caches.push(cache);
        Ok(())
    }

    /// The usual time of passes over so many rows of a sequence.
    fn usual_ms(&mut self, rows: usize) -> Result<f64, ModelError> {
        for _ in 0..WARM_UP {
            self.pass_ms(1, rows)?;
        }
        let times = (0..PASSES).map(|_| self.pass_ms(1, rows)).collect::<Result<Vec<_>, _>>()?;
        let usual = median(times.clone());
        self.off.extend(times.iter().map(|time| (time / usual - 1.0).abs()));
        Ok(usual)
    }

    /// What a pass over rows of as many sequences takes longer than one over as many rows of one sequence: measured in turns,
    /// as it is little beside what the machine's pace varies by.
    fn apart_ms(&mut self) -> Result<f64, ModelError> {
        let apart = |_| Ok(self.pass_ms(SEQUENCES, 1)? - self.pass_ms(1, SEQUENCES)?);
        let found = (0..PASSES).map(apart).collect::<Result<Vec<_>, ModelError>>()?;
        Ok(median(found))
    }

    /// What the first passes over one row take longer, after the caches were used for something else, than as many passes
    /// right after them.
    fn cold_ms(&mut self) -> Result<f64, ModelError> {
        let mut found = Vec::with_capacity(PASSES);
        for _ in 0..PASSES {
            self.work.read_bandwidth(OTHERS);
            let mut few = || (0..WARM_UP).map(|_| self.pass_ms(1, 1)).sum::<Result<f64, _>>();
            found.push(few()? - few()?);
        }
        Ok(median(found).max(0.0))
    }

    /// The usual time of reading a prompt.
    fn prompt_ms(&mut self, tokens: usize) -> Result<f64, ModelError> {
        let (rows, mut cache) = (Row::chain(&vec![0; tokens], 0), self.decoder.new_cache());
        let mut times = Vec::with_capacity(PASSES);
        for _ in 0..PASSES {
            let begun = Instant::now();
            let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
            self.decoder.forward(self.work, &mut segments, Asked::default())?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            cache.keep_path(&[])?;
        }
        Ok(median(times))
    }

    fn pass_ms(&mut self, sequences: usize, rows: usize) -> Result<f64, ModelError> {
        let rows = Row::chain(&vec![0; rows], 0);
        let begun = Instant::now();
        let caches = self.caches.iter_mut().take(sequences);
        let mut segments: Vec<Segment<'_>> =
            caches.map(|cache| Segment { cache, rows: &rows, logits: Logits::All }).collect();
        self.decoder.forward(self.work, &mut segments, Asked::default())?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        self.caches.iter_mut().take(sequences).try_for_each(|cache| cache.keep_path(&[]))?;
        Ok(took)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
