//! `espalier bench perplexity`: what an arithmetic does to a model's predictions.
//!
//! A text is read as it is, nothing is generated: each token's probability is that which the model gives it after those
//! before.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_command::prompts::{self, Task};
use espalier_command::{Verdict, report};
use espalier_local::{DEFAULT_TARGETS, SystemArgs, checkpoint};
use espalier_model::{Arithmetic, Asked, Checkpoint, Decoder, LoadOptions, Logits, Row, Segment, Workspace};
use espalier_speculation::{Token, arg_max};
use espalier_text::{Message, Tokenizer};
use serde::Serialize;

use crate::error::BenchError;

/// Tokens that are read in one pass.
const ROWS: usize = 64;

/// The options of `espalier bench perplexity`.
#[derive(Debug, clap::Args)]
pub struct Perplexity {
    /// Models to measure.
    #[arg(long, value_delimiter = ',', default_values = DEFAULT_TARGETS, value_name = "T[,T…]")]
    targets: Vec<String>,
    /// Texts, one JSON object a line: a `question` and its `answer`, or a `prompt` alone.
    #[arg(long, value_name = "FILE.jsonl")]
    texts: PathBuf,
    /// Only the first so many texts.
    #[arg(long, default_value = "40", value_name = "N")]
    limit: NonZeroUsize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a model makes of all texts in one arithmetic.
#[derive(Debug, Serialize)]
struct Measured {
    target: String,
    arithmetic: &'static str,
    /// Bytes of weights that a pass reads.
    weight_bytes: usize,
    /// Tokens whose probability was asked for.
    tokens: usize,
    perplexity: f64,
    /// Relative to the first arithmetic: 0.01 is 1 % worse.
    worse_by: f64,
    /// Share of tokens for which the same one is the most probable as in the first arithmetic.
    same_best: f64,
}

/// The predictions of a model, token by token.
#[derive(Debug, Default)]
struct Predictions {
    /// Natural logarithm of the probability of the token that follows.
    logprobs: Vec<f64>,
    /// The most probable token.
    best: Vec<Token>,
}

pub(crate) fn run(system: &SystemArgs, args: &Perplexity) -> Result<Verdict, BenchError> {
    let tasks = prompts::read_tasks(&args.texts, Some(args.limit.get()))?;
    let mut work = Workspace::new(system.threads());
    let mut rows = Vec::new();
    for target in &args.targets {
        let checkpoint = Checkpoint::open(checkpoint(target, system)?)?;
        let tokenizer = Tokenizer::open(&checkpoint.path)?;
        let texts = tasks.iter().map(|task| tokens(&tokenizer, task)).collect::<Result<Vec<_>, _>>()?;
        let mut first = None;
        for arithmetic in Arithmetic::ALL {
            let options = LoadOptions { arithmetic, ..LoadOptions::default() };
            let decoder = Decoder::load(&checkpoint, &options)?;
            let found = predict_all(&decoder, &mut work, &texts)?;
            rows.push(measured(target, &decoder, &found, first.as_ref().unwrap_or(&found)));
            first.get_or_insert(found);
        }
    }
    print(&rows, args.json);
    Ok(Verdict::Good)
}

/// A task as the model would have seen it: asked by a user, and answered.
fn tokens(tokenizer: &Tokenizer, task: &Task) -> Result<Vec<Token>, BenchError> {
    let mut text = match tokenizer.has_chat_template() {
        true => tokenizer.encode_chat(&Message::user(task.prompt.clone()).into())?,
        false => tokenizer.encode(&task.prompt, true)?,
    };
    text.extend(tokenizer.encode(task.answer.as_deref().unwrap_or_default(), false)?);
    Ok(text)
}

fn predict_all(decoder: &Decoder, work: &mut Workspace, texts: &[Vec<Token>]) -> Result<Predictions, BenchError> {
    let mut found = Predictions::default();
    for text in texts {
        predict(decoder, work, &text[..text.len().min(decoder.config().context)], &mut found)?;
    }
    Ok(found)
}

/// Adds what is predicted for all tokens of a text but its first.
fn predict(decoder: &Decoder, work: &mut Workspace, text: &[Token], found: &mut Predictions) -> Result<(), BenchError> {
    let mut cache = decoder.new_cache();
    for (at, chunk) in text.chunks(ROWS).enumerate() {
        let rows = Row::chain(chunk, 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
        let output = decoder.forward(work, &mut [segment], Asked::default())?;
        let following = text[at * ROWS..].iter().skip(1).take(rows.len());
        for (row, &token) in following.enumerate() {
            let logits = output.logits(0, row);
            found.logprobs.push(logprob(logits, token));
            found.best.push(arg_max(logits)?);
        }
        cache.keep_path(&(0..rows.len()).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The logarithm of a token's probability.
fn logprob(logits: &[f32], token: Token) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|logit| f64::from(logit - top).exp()).sum();
    logits.get(token as usize).map_or(f64::NEG_INFINITY, |logit| f64::from(logit - top) - total.ln())
}

fn measured(target: &str, decoder: &Decoder, found: &Predictions, first: &Predictions) -> Measured {
    let tokens = found.best.len();
    let share = |count: usize| count as f64 / tokens.max(1) as f64;
    Measured {
        target: target.to_owned(),
        arithmetic: decoder.arithmetic().name(),
        weight_bytes: decoder.weight_bytes(),
        tokens,
        perplexity: perplexity(found),
        worse_by: perplexity(found) / perplexity(first) - 1.0,
        same_best: share(found.best.iter().zip(&first.best).filter(|(a, b)| a == b).count()),
    }
}

/// `exp` of the mean of what the tokens were improbable.
fn perplexity(found: &Predictions) -> f64 {
    (-found.logprobs.iter().sum::<f64>() / found.logprobs.len().max(1) as f64).exp()
}

fn print(rows: &[Measured], json: bool) {
    if json {
        return rows.iter().for_each(report::json);
    }
    let cells = |row: &Measured| {
        vec![
            row.target.clone(),
            row.arithmetic.to_owned(),
            format!("{:.1}", row.weight_bytes as f64 / 1e6),
            row.tokens.to_string(),
            format!("{:.4}", row.perplexity),
            format!("{:+.3} %", row.worse_by * 100.0),
            format!("{:.2} %", row.same_best * 100.0),
        ]
    };
    let head = ["target", "arithmetic", "weights (MB)", "tokens", "perplexity", "worse by", "same best token"];
    anstream::println!("{}", report::table(&head, rows.iter().map(cells)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_is_the_number_of_equally_probable_tokens() {
        let logits = [1.5; 8];
        let found = Predictions { logprobs: vec![logprob(&logits, 3); 5], best: vec![0; 5] };
        assert!((perplexity(&found) - 8.0).abs() < 1e-9);
        assert_eq!(logprob(&logits, 8), f64::NEG_INFINITY);
    }

    #[test]
    fn a_probable_token_has_a_logarithm_near_zero_however_large_the_logits() {
        assert!(logprob(&[900.0, 0.0, -900.0], 0).abs() < 1e-9);
        assert!((logprob(&[900.0, 0.0, -900.0], 1) + 900.0).abs() < 1e-6);
    }
}
