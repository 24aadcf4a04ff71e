//! What the frozen target says at every position, as probabilities.

use espalier_speculation::{Token, arg_max};
use rayon::prelude::*;

use crate::error::Result;

/// The target's distributions over the vocabulary, or a mix of several models' and the text's.
///
/// The divergence from a mix is the mix of the divergences, its negative entropy being the mix of the parts': a loss
/// towards it is towards all parts at once, at the cost of one.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    /// (positions, vocab)
    pub(super) probs: Vec<f32>,
    /// The length of a row.
    pub(super) vocab: usize,
    /// Per position, `sum p ln p`: what a cross-entropy lacks to a divergence. 0 where the position does not count.
    pub(super) negative_entropy: Vec<f64>,
    /// Per position, the token that is best to say, where the position counts.
    pub(super) best: Vec<Option<Token>>,
}

impl Distribution {
    /// The softmax of `logits` (positions, vocab) at temperature 1, at the positions that count.
    ///
    /// # Errors
    /// Logits that are not finite.
    pub(crate) fn of_logits(mut logits: Vec<f32>, vocab: usize, counted: &[bool]) -> Result<Self> {
        let rows = logits.par_chunks_mut(vocab).zip(counted);
        let rows = rows.map(|(row, counted)| if *counted { normalise(row).map(Some) } else { Ok(None) });
        let rows: Vec<Option<(Token, f64)>> = rows.collect::<Result<_>>()?;
        let negative_entropy = rows.iter().map(|row| row.map_or(0.0, |(_, sum)| sum)).collect();
        let best = rows.into_iter().map(|row| row.map(|(best, _)| best)).collect();
        Ok(Self { probs: logits, vocab, negative_entropy, best })
    }

    /// The beginning of a mix: the text's own next tokens with a weight. Positions without one do not count.
    pub(super) fn of_tokens(tokens: &[Option<Token>], vocab: usize, weight: f64) -> Self {
        let mut probs = vec![0.0; tokens.len() * vocab];
        for (row, token) in probs.chunks_exact_mut(vocab).zip(tokens) {
            token.iter().for_each(|token| row[*token as usize] = weight as f32);
        }
        Self { probs, vocab, negative_entropy: vec![0.0; tokens.len()], best: tokens.to_vec() }
    }

    /// Adds what another model says, with a weight; those of all parts must come to 1. What is best to say stays.
    pub(super) fn add(&mut self, other: &Self, weight: f64) {
        let scale = weight as f32;
        let pairs = self.probs.par_iter_mut().zip(&other.probs);
        pairs.for_each(|(sum, prob)| *sum += prob * scale);
        let pairs = self.negative_entropy.iter_mut().zip(&other.negative_entropy);
        pairs.for_each(|(sum, negative_entropy)| *sum += negative_entropy * weight);
    }
}

/// Turns logits into probabilities; the most probable token, and `sum p ln p`.
fn normalise(row: &mut [f32]) -> Result<(Token, f64)> {
    let best = arg_max(row).map_err(espalier_model::ModelError::from)?;
    let max = row[best as usize];
    let mut weighted = 0.0_f64;
    let mut total = 0.0_f64;
    for value in row.iter_mut() {
        let above = *value - max;
        *value = above.exp();
        total += f64::from(*value);
        // A token of weight 0 adds nothing, also where its logit is minus infinity.
        weighted += if *value > 0.0 { f64::from(*value) * f64::from(above) } else { 0.0 };
    }
    let scale = (1.0 / total) as f32;
    row.iter_mut().for_each(|value| *value *= scale);
    Ok((best, weighted / total - total.ln()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn logits_become_probabilities_and_their_entropy() {
        let logits = vec![1.0, 3.0, f32::NEG_INFINITY, 9.0, 9.0, 9.0];
        let found = Distribution::of_logits(logits, 3, &[true, false]).unwrap();
        let q = 1.0 / (1.0 + 2.0_f64.exp());
        assert!((f64::from(found.probs[0]) - q).abs() < 1e-7 && found.probs[2] == 0.0);
        let expected = q * q.ln() + (1.0 - q) * (1.0 - q).ln();
        assert!((found.negative_entropy[0] - expected).abs() < 1e-6);
        assert_eq!((&found.best, found.negative_entropy[1]), (&vec![Some(1), None], 0.0));
    }

    #[test]
    fn logits_that_are_not_finite_are_refused() {
        assert!(Distribution::of_logits(vec![0.0, f32::NAN], 2, &[true]).is_err());
        assert!(Distribution::of_logits(vec![0.0, f32::NAN], 2, &[false]).is_ok());
    }
}
