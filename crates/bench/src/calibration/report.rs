//! What a calibration found.

use serde::Serialize;

use super::bins::{Bin, Said, bins, calibration_error};
use super::guesses::Observation;

/// Bins of confidence, as in the paper.
const CONFIDENCE_BINS: usize = 10;

/// The width of a bin of entropy in nats.
const ENTROPY_WIDTH: f64 = 0.5;

/// Most bins of entropy: a vocabulary whose logarithm is beyond the last has yet to be seen.
const ENTROPY_BINS_MAX: usize = 30;

/// Who guessed, and whose text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) target: &'a str,
    pub(super) drafter: &'a str,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) target: String,
    pub(super) drafter: String,
    pub(super) prompts: usize,
    /// Tokens that the drafter had a guess at.
    pub(super) guessed: usize,
    /// The share of guesses that were accepted.
    pub(super) acceptance: Option<f64>,
    pub(super) mean_confidence: Option<f64>,
    pub(super) calibration_error: Option<f64>,
    pub(super) confidence: Vec<Bin>,
    /// Empty for a drafter without a distribution.
    pub(super) entropy: Vec<Bin>,
}

impl Report {
    /// Sums up what a drafter said at every token of a target's text.
    pub(super) fn new(pair: Pair<'_>, prompts: usize, seen: &[Observation]) -> Self {
        let confidences: Vec<Said> = seen.iter().map(|seen| (seen.confidence, seen.accepted)).collect();
        let entropies: Vec<Said> = seen.iter().filter_map(|seen| Some((seen.entropy?, seen.accepted))).collect();
        let whole = bins(&confidences, 1.0, 1);
        let confidence = bins(&confidences, 1.0, CONFIDENCE_BINS);
        Self {
            target: pair.target.to_owned(),
            drafter: pair.drafter.to_owned(),
            prompts,
            guessed: seen.len(),
            acceptance: whole.first().and_then(|all| all.acceptance),
            mean_confidence: whole.first().and_then(|all| all.mean),
            calibration_error: calibration_error(&confidence),
            confidence,
            entropy: entropy_bins(&entropies),
        }
    }
}

/// As many bins as the greatest entropy needs.
fn entropy_bins(said: &[Said]) -> Vec<Bin> {
    let greatest = said.iter().map(|(entropy, _)| *entropy).reduce(f64::max);
    let count = greatest.map_or(0, |greatest| ((greatest / ENTROPY_WIDTH).ceil() as usize).clamp(1, ENTROPY_BINS_MAX));
    bins(said, ENTROPY_WIDTH * count as f64, count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_bins_of_entropy_as_the_greatest_needs() {
        let bins_to = |greatest| entropy_bins(&[(0.0, true), (greatest, false)]).last().map(|bin| bin.high);
        assert_eq!([0.0, 0.5, 0.6, 8.3].map(bins_to), [Some(0.5), Some(0.5), Some(1.0), Some(8.5)]);
        assert_eq!(bins_to(1e9), Some(ENTROPY_WIDTH * ENTROPY_BINS_MAX as f64));
        assert_eq!(entropy_bins(&[]), []);
    }

    #[test]
    fn a_report_sums_up_what_was_seen() {
        let seen = |confidence, accepted| Observation { confidence, entropy: Some(1.0), accepted };
        let report = Report::new(Pair { target: "t", drafter: "d" }, 2, &[seen(0.75, true), seen(0.25, false)]);
        assert_eq!((report.guessed, report.acceptance, report.mean_confidence), (2, Some(0.5), Some(0.5)));
        assert_eq!(report.calibration_error, Some(0.25));
        assert_eq!(report.entropy.iter().map(|bin| bin.count).collect::<Vec<_>>(), [0, 2]);
    }
}
