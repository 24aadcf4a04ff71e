//! When rows leave a drafter with several exits.

use std::sync::Arc;

use espalier_model::{DraftKind, DraftModel};
use espalier_speculation::{ExitError, ExitThresholds, LogitsError, Logprobs, arg_max};

use crate::config::Config;

/// The least confidence at which an exit answers unless told otherwise: between what the paper found best for small
/// targets (0.5) and for large ones (0.75).
const THRESHOLD: f64 = 0.6;

/// When rows leave: where they are sure enough, or after the last layer alone.
#[derive(Debug, Clone)]
pub(crate) struct Exits {
    /// None where nothing is asked before the last layer.
    thresholds: Option<Arc<ExitThresholds>>,
    /// The logits of so many tokens count; those after them are padding.
    vocab: usize,
}

impl Exits {
    /// The exits that `config` asks for. A model that is cut to some layers answers after them alone, unless thresholds
    /// are given.
    pub(crate) fn new(model: &DraftModel, config: &Config, vocab: usize) -> Result<Self, ExitError> {
        let exits = model.exits().len();
        let usual = *model.kind() == DraftKind::Sorted && config.layers.is_none();
        let thresholds = match &config.thresholds {
            Some(text) => Some(ExitThresholds::parse(text, exits)?),
            None if usual => Some(ExitThresholds::new(vec![THRESHOLD; exits.saturating_sub(1)], exits)?),
            None => None,
        };
        Ok(Self { thresholds: thresholds.filter(|thresholds| thresholds.exits() > 1).map(Arc::new), vocab })
    }

    /// Whether rows may leave before the last layer.
    pub(crate) fn are_several(&self) -> bool {
        self.thresholds.is_some()
    }

    /// Whether a row with these `logits` at `exit`, counted from 0, goes on to the next.
    pub(crate) fn goes_on(&self, exit: usize, logits: &[f32]) -> bool {
        let Some(thresholds) = &self.thresholds else { return true };
        // Logits of which nothing can be made are found out at the last exit.
        let confidence = confidence(logits.get(..self.vocab).unwrap_or(logits));
        !confidence.is_ok_and(|confidence| thresholds.answers(exit, confidence) == Ok(true))
    }
}

/// The greatest probability of the distribution, at temperature 1.
fn confidence(logits: &[f32]) -> Result<f64, LogitsError> {
    let best = arg_max(logits)?;
    Ok(Logprobs::new(logits, best, 0)?.chosen.exp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn exits(thresholds: &[f64]) -> Exits {
        let thresholds = ExitThresholds::new(thresholds.to_vec(), thresholds.len() + 1).unwrap();
        Exits { thresholds: Some(Arc::new(thresholds)), vocab: 2 }
    }

    #[test]
    fn a_row_leaves_where_its_confidence_reaches_the_threshold() {
        // Probabilities 0.75 and 0.25, whatever the padding holds.
        let logits = [3.0_f32.ln(), 0.0, 50.0];
        assert!((confidence(&logits[..2]).unwrap() - 0.75).abs() < 1e-6);
        assert!(!exits(&[0.7]).goes_on(0, &logits));
        assert!(exits(&[0.8]).goes_on(0, &logits));
        assert!(!exits(&[0.8, 0.7]).goes_on(1, &logits));
    }

    #[test]
    fn without_thresholds_or_with_impossible_logits_rows_go_on() {
        assert!(Exits { thresholds: None, vocab: 2 }.goes_on(0, &[9.0, 0.0]));
        assert!(exits(&[0.0]).goes_on(0, &[f32::NAN, 0.0]));
        assert!(exits(&[0.0]).goes_on(0, &[]));
    }
}
