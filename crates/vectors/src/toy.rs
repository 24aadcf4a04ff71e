//! The toy models of the vectors: tables of next-token probabilities.

use std::collections::HashMap;

use espalier_speculation::{Candidates, Token};
use serde::Deserialize;

/// All toy models, by id.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "File")]
pub(crate) struct Models(HashMap<String, Toy>);

#[derive(Deserialize)]
struct File {
    models: Vec<Toy>,
}

impl From<File> for Models {
    fn from(file: File) -> Self {
        Self(file.models.into_iter().map(|model| (model.id.clone(), model)).collect())
    }
}

impl Models {
    /// The model of this id.
    pub(crate) fn get(&self, id: &str) -> Result<&Toy, String> {
        self.0.get(id).ok_or_else(|| format!("names the model {id}, which there is not"))
    }
}

/// A draft and a target distribution that depend on the last one or two tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct Toy {
    id: String,
    /// Next-token probabilities of the drafter.
    pub(crate) draft: Table,
    /// Next-token probabilities of the target.
    pub(crate) target: Table,
}

/// Next-token probabilities, by the tokens before.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Table {
    /// By the last token.
    OrderOne(Vec<Vec<f64>>),
    /// By the last but one, then the last.
    OrderTwo(Vec<Vec<Vec<f64>>>),
}

impl Table {
    /// The distribution after `text`.
    pub(crate) fn row(&self, text: &[Token]) -> Result<&[f64], String> {
        let row = match (self, text) {
            (Self::OrderOne(rows), [.., last]) => rows.get(*last as usize),
            (Self::OrderTwo(rows), [.., before, last]) => {
                rows.get(*before as usize).and_then(|rows| rows.get(*last as usize))
            }
            _ => None,
        };
        row.map(Vec::as_slice).ok_or_else(|| format!("the model has no row for {text:?}"))
    }

    /// The `k` best tokens after `text`.
    pub(crate) fn candidates(&self, text: &[Token], k: usize) -> Result<Candidates, String> {
        Candidates::from_probs(self.row(text)?, k).map_err(|error| error.to_string())
    }

    /// The most probable token after `text`.
    pub(crate) fn best(&self, text: &[Token]) -> Result<Token, String> {
        let best = self.candidates(text, 1)?.tokens().first().copied();
        best.map(|(token, _)| token).ok_or_else(|| "the model gives no token".to_owned())
    }
}
