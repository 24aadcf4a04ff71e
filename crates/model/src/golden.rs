//! Golden checkpoints: a checkpoint folder beside what another implementation computed with it.

use std::path::Path;

use candle_core::DType;
use espalier_speculation::{Token, arg_max};
use serde::Deserialize;

use crate::error::{ModelError, Result};
use crate::files::{read_text, required};
use crate::weights::Shards;

const TENSORS: &str = "golden.safetensors";
const TEXT: &str = "golden.json";
const TEXT_BYTES_MAX: u64 = 16 << 20;
const TAP: &str = "hidden_after_layer_";

/// The largest difference of a logit from its golden value.
pub const LOGIT_TOLERANCE: f32 = 2e-4;

/// Inputs and the outputs expected of them.
#[derive(Debug, Clone)]
pub struct Golden {
    /// One text.
    pub input_ids: Vec<Token>,
    /// (input_ids, vocab)
    pub logits: Matrix,
    /// The residual stream after some layers.
    pub taps: Vec<Tap>,
    /// The start of a text.
    pub prompt_ids: Vec<Token>,
    /// Its greedy continuation, an end of text included.
    pub greedy_ids: Vec<Token>,
    /// The largest difference of a logit when the other implementation computes in bf16, where that is known.
    pub bf16_max_abs: Option<f32>,
}

/// The residual stream after a layer.
#[derive(Debug, Clone)]
pub struct Tap {
    /// The number of layers that were run, from 1.
    pub layers: usize,
    /// (input_ids, hidden)
    pub hidden: Matrix,
}

/// Expected rows of numbers.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// The numbers, row after row.
    pub values: Vec<f32>,
    /// The length of a row.
    pub width: usize,
}

/// How far found numbers are from those expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The largest absolute difference; infinite where a number is not finite.
    pub max_abs: f32,
    /// The number of rows compared.
    pub rows: usize,
    /// The number of rows whose largest elements are at different places.
    pub arg_max_differs: usize,
    /// By how much the largest element exceeds the next one, at most, in a row expected where the places differ; zero
    /// where none do.
    pub margin_lost: f32,
}

#[derive(Deserialize)]
struct GreedyText {
    prompt_ids: Vec<Token>,
    greedy_ids: Vec<Token>,
    #[serde(default)]
    bf16_max_abs: Option<f32>,
}

impl Golden {
    /// Reads `golden.safetensors` and `golden.json`.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(TEXT);
        let text = required(read_text(&path, TEXT_BYTES_MAX)?, folder, TEXT)?;
        let text: GreedyText = serde_json::from_str(&text).map_err(|fault| ModelError::Json { path, fault })?;
        let tensors = Shards::open_file(&folder.join(TENSORS))?;
        let input_ids = tokens(&tensors, "input_ids")?;
        Ok(Self {
            logits: Matrix::read(&tensors, "logits", input_ids.len())?,
            taps: taps(&tensors, input_ids.len())?,
            input_ids,
            prompt_ids: text.prompt_ids,
            greedy_ids: text.greedy_ids,
            bf16_max_abs: text.bf16_max_abs,
        })
    }
}

impl Matrix {
    fn read(tensors: &Shards, name: &str, rows: usize) -> Result<Self> {
        let width = tensors.shape(name)?.last().copied().unwrap_or(0);
        let tensor = tensors.tensor(name, &[rows, width])?.to_dtype(DType::F32)?;
        let values = tensor.flatten_all()?.to_vec1()?;
        Ok(Self { values, width })
    }

    /// Compares rows of the same width with these.
    ///
    /// # Errors
    /// Another number of elements than expected.
    pub fn compare(&self, found: &[f32]) -> Result<Comparison> {
        if found.len() != self.values.len() || self.width == 0 {
            return Err(ModelError::Shape {
                name: "the compared matrix".to_owned(),
                expected: vec![self.values.len()],
                found: vec![found.len()],
            });
        }
        let peak = |row: &[f32]| arg_max(row).ok();
        let rows = || self.values.chunks(self.width).zip(found.chunks(self.width));
        Ok(Comparison {
            max_abs: self.values.iter().zip(found).map(|(a, b)| difference(*a, *b)).fold(0.0, f32::max),
            rows: rows().len(),
            arg_max_differs: rows().filter(|(a, b)| peak(a) != peak(b)).count(),
            margin_lost: rows().filter(|(a, b)| peak(a) != peak(b)).map(|(a, _)| margin(a)).fold(0.0, f32::max),
        })
    }
}

impl Comparison {
    /// Whether every number is within [`LOGIT_TOLERANCE`] and every row has its largest element where it should.
    pub fn agrees(&self) -> bool {
        self.max_abs <= LOGIT_TOLERANCE && self.arg_max_differs == 0
    }

    /// Whether every number is within `limit` and every row has its largest element where it should, but for rows where
    /// another one is as near.
    pub fn agrees_within(&self, limit: f32) -> bool {
        self.max_abs <= limit && self.margin_lost <= limit
    }
}

/// By how much the largest element exceeds the next one.
fn margin(row: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &value in row {
        (first, second) = if value > first { (value, first) } else { (first, second.max(value)) };
    }
    first - second
}

fn difference(expected: f32, found: f32) -> f32 {
    let difference = (expected - found).abs();
    if difference.is_finite() { difference } else { f32::INFINITY }
}

fn taps(tensors: &Shards, rows: usize) -> Result<Vec<Tap>> {
    let layer = |name: &str| name.strip_prefix(TAP)?.parse().ok();
    let mut layers: Vec<usize> = tensors.names().filter_map(layer).collect();
    layers.sort_unstable();
    let read = |layers| {
        let hidden = Matrix::read(tensors, &format!("{TAP}{layers}"), rows)?;
        Ok(Tap { layers, hidden })
    };
    layers.into_iter().map(read).collect()
}

fn tokens(tensors: &Shards, name: &str) -> Result<Vec<Token>> {
    let integers = tensors.integers(name)?;
    let token = |value: i64| Token::try_from(value).map_err(|_| ModelError::NotAToken { name: name.to_owned(), value });
    integers.into_iter().map(token).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn another_best_token_is_forgiven_where_the_next_was_as_near() {
        let expected = Matrix { values: vec![3.0, 1.0, 2.5, 0.0, 4.0, 1.0], width: 3 };
        let compare = |found: [f32; 6]| expected.compare(&found).unwrap();
        let same = compare([2.8, 1.0, 2.7, 0.0, 3.5, 1.0]);
        assert_eq!((same.arg_max_differs, same.margin_lost, same.agrees_within(0.5)), (0, 0.0, true));
        let near = compare([2.6, 1.0, 2.9, 0.0, 4.0, 1.0]);
        assert_eq!((near.arg_max_differs, near.margin_lost), (1, 0.5));
        assert_eq!([0.4, 0.5].map(|limit| near.agrees_within(limit)), [false, true]);
        assert!(!compare([3.0, 1.0, 2.5, 0.0, 1.0, 1.5]).agrees_within(2.9), "it was ahead by 3");
    }
}
