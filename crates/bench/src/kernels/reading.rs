//! A prompt read in one pass, of which only the last token's logits are wanted.

use std::time::Instant;

use espalier_model::{Asked, Decoder, KvCache, Logits, ModelError, Row, Segment, Workspace};
use serde::Serialize;

use super::pass::{TEXT, Turns};
use crate::statistics::median;

/// Tokens of the prompt, with nothing before them.
const TOKENS: usize = 128;

/// The time of a prompt.
#[derive(Serialize)]
pub(super) struct Reading {
    pub(super) tokens: usize,
    /// How often it was measured.
    turns: usize,
    /// Median time.
    pub(super) ms: f64,
    pub(super) tokens_per_second: f64,
}

/// Measures each model, in turns.
pub(super) fn measure(decoders: &[Decoder], work: &mut Workspace) -> Result<Vec<Reading>, ModelError> {
    let mut caches: Vec<KvCache> = decoders.iter().map(Decoder::new_cache).collect();
    let mut times = vec![Vec::new(); decoders.len()];
    let mut turns = Turns::of(decoders.len());
    while turns.another() {
        for ((decoder, cache), times) in decoders.iter().zip(&mut caches).zip(&mut times) {
            times.push(read_ms(decoder, work, cache)?);
        }
    }
    Ok(times.into_iter().map(Reading::of).collect())
}

/// Reads the prompt into an empty cache, forgets it, and gives the milliseconds that it took.
fn read_ms(decoder: &Decoder, work: &mut Workspace, cache: &mut KvCache) -> Result<f64, ModelError> {
    let rows = Row::chain(&TEXT[..TOKENS], 0);
    let begun = Instant::now();
    let mut segments = [Segment { cache: &mut *cache, rows: &rows, logits: Logits::Last(1) }];
    decoder.forward(work, &mut segments, Asked::default())?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    cache.keep_path(&[])?;
    Ok(took)
}

impl Reading {
    fn of(times: Vec<f64>) -> Self {
        let turns = times.len();
        let ms = median(times).unwrap_or(f64::NAN);
        Self { tokens: TOKENS, turns, ms, tokens_per_second: TOKENS as f64 / ms * 1e3 }
    }
}
