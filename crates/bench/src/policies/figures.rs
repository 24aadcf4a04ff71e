//! What is known of one arm on the prompts of one label.

use std::time::Duration;

use espalier_client::Answer;
use espalier_proto::SpeculationSummary;
use espalier_speculation::{RoundRecord, Statistics};
use serde::Serialize;

use super::arms::Arm;
use super::speedup::{Pair, interval, speedup};
use crate::pace::Pace;
use crate::statistics::median;

/// One answer, as far as it counts.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Whether its text is plain decoding's.
    identical: bool,
    statistics: Statistics,
    draft: Duration,
    verify: Duration,
    wait: Duration,
    /// How often it had to be begun again elsewhere.
    failovers: u32,
    pace: Pace,
}

impl Sample {
    pub(super) fn new(answer: &Answer, plain: &Answer) -> Self {
        let speculation = &answer.completion.speculation;
        Self {
            identical: answer.ids() == plain.ids() && answer.text() == plain.text(),
            statistics: statistics(speculation, answer.tokens.len()),
            draft: speculation.draft,
            verify: speculation.verify,
            wait: speculation.wait,
            failovers: speculation.failovers,
            pace: Pace::of(answer),
        }
    }
}

/// What the gateway counted.
fn statistics(speculation: &SpeculationSummary, committed: usize) -> Statistics {
    let sums = RoundRecord {
        drafted: speculation.drafted as usize,
        verified: speculation.verified as usize,
        depth: speculation.depth as usize,
        accepted: speculation.accepted as usize,
        committed,
    };
    let by_depth = speculation.accepted_by_depth.iter().map(|&count| count as usize).collect();
    Statistics::from_sums(speculation.rounds as usize, sums, by_depth)
}

/// The figures of one arm on one label, pooled over its prompts; none where a denominator is 0.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Figures {
    pub(super) target: String,
    pub(super) drafter: String,
    pub(super) policy: String,
    pub(super) label: String,
    pub(super) temperature: f64,
    pub(super) seed: u64,
    pub(super) prompts: usize,
    /// Prompts whose text is not plain decoding's.
    pub(super) different: usize,
    pub(super) failovers: u32,
    pub(super) tokens: usize,
    pub(super) rounds: usize,
    pub(super) drafted: usize,
    pub(super) verified: usize,
    pub(super) accepted: usize,
    /// Rounds that accepted a node of depth `i + 1`, at index `i`.
    pub(super) accepted_by_depth: Vec<usize>,
    /// Committed tokens a round.
    pub(super) tau: Option<f64>,
    /// Accepted / depth of the deepest node sent; of a chain, accepted / drafted.
    pub(super) alpha: Option<f64>,
    /// Accepted / verified.
    pub(super) draft_efficiency: Option<f64>,
    /// Accepted / drafted.
    pub(super) v_d: Option<f64>,
    /// Accepted / committed.
    pub(super) r_d: Option<f64>,
    /// The harmonic mean of `v_d` and `r_d`.
    pub(super) hm: Option<f64>,
    pub(super) mean_nodes: Option<f64>,
    pub(super) mean_depth: Option<f64>,
    pub(super) draft_seconds: f64,
    pub(super) verify_seconds: f64,
    pub(super) wait_seconds: f64,
    /// After the first tokens of each answer.
    pub(super) tokens_per_second: Option<f64>,
    /// Relative to plain decoding of the same prompts in the same run.
    pub(super) speedup: Option<f64>,
    /// The bounds of its 95 % bootstrap interval over prompts.
    pub(super) speedup_low: Option<f64>,
    pub(super) speedup_high: Option<f64>,
    /// The median over prompts, which a hiccup of the machine does not touch.
    pub(super) speedup_median: Option<f64>,
}

impl Figures {
    /// Pools the samples of `arm`, each beside plain decoding's of the same prompt; what all arms have in common
    /// is left to the caller.
    pub(super) fn of(arm: &Arm, samples: &[(&Sample, &Sample)]) -> Self {
        let mut statistics = Statistics::default();
        samples.iter().for_each(|(_, sample)| statistics.merge(&sample.statistics));
        let figures = Self {
            drafter: arm.drafter.clone(),
            policy: arm.policy().to_owned(),
            prompts: samples.len(),
            different: samples.iter().filter(|(_, sample)| !sample.identical).count(),
            failovers: samples.iter().map(|(_, sample)| sample.failovers).sum(),
            ..Self::default()
        };
        figures.with_counts(&statistics).with_times(samples)
    }

    fn with_counts(self, statistics: &Statistics) -> Self {
        let sums = statistics.sums();
        Self {
            tokens: sums.committed,
            rounds: statistics.rounds(),
            drafted: sums.drafted,
            verified: sums.verified,
            accepted: sums.accepted,
            accepted_by_depth: statistics.accepted_by_depth().to_vec(),
            tau: statistics.tau(),
            alpha: statistics.alpha_tree(),
            draft_efficiency: statistics.draft_efficiency(),
            v_d: statistics.v_d(),
            r_d: statistics.r_d(),
            hm: statistics.hm(),
            mean_nodes: statistics.mean_nodes(),
            mean_depth: statistics.mean_depth(),
            ..self
        }
    }

    fn with_times(self, samples: &[(&Sample, &Sample)]) -> Self {
        let seconds =
            |time: fn(&Sample) -> Duration| samples.iter().map(|(_, sample)| time(sample).as_secs_f64()).sum();
        let pairs: Vec<Pair> = samples.iter().map(|(plain, sample)| (plain.pace, sample.pace)).collect();
        let (low, high) = interval(&pairs).unzip();
        Self {
            draft_seconds: seconds(|sample| sample.draft),
            verify_seconds: seconds(|sample| sample.verify),
            wait_seconds: seconds(|sample| sample.wait),
            tokens_per_second: samples.iter().map(|(_, sample)| sample.pace).sum::<Pace>().rate(),
            speedup: speedup(pairs.iter()),
            speedup_low: low,
            speedup_high: high,
            speedup_median: median(pairs.iter().filter_map(|pair| speedup([*pair].iter()))),
            ..self
        }
    }

    /// Milliseconds a round of drafting, verifying and waiting.
    pub(super) fn round_ms(&self) -> [Option<f64>; 3] {
        let rounds = self.rounds as f64;
        [self.draft_seconds, self.verify_seconds, self.wait_seconds]
            .map(|seconds| (self.rounds > 0).then(|| 1e3 * seconds / rounds))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sample(rounds: usize, accepted: usize, tokens: usize, seconds: f64) -> Sample {
        let sums =
            RoundRecord { drafted: 5 * rounds, verified: 4 * rounds, depth: 2 * rounds, accepted, committed: tokens };
        Sample {
            identical: true,
            statistics: Statistics::from_sums(rounds, sums, vec![accepted]),
            draft: Duration::from_millis(10),
            verify: Duration::from_millis(20),
            wait: Duration::from_millis(30),
            failovers: 0,
            pace: Pace { tokens, seconds },
        }
    }

    #[test]
    fn figures_are_pooled_over_prompts() {
        let plain = sample(10, 0, 10, 1.0);
        let (first, second) = (sample(5, 5, 10, 0.25), Sample { identical: false, ..sample(10, 0, 10, 0.75) });
        let figures = Figures::of(&Arm::plain(), &[(&plain, &first), (&plain, &second)]);
        assert_eq!((figures.prompts, figures.different, figures.tokens, figures.rounds), (2, 1, 20, 15));
        assert_eq!(figures.tau, Some(20.0 / 15.0));
        assert_eq!((figures.alpha, figures.draft_efficiency), (Some(5.0 / 30.0), Some(5.0 / 60.0)));
        assert_eq!((figures.v_d, figures.r_d), (Some(5.0 / 75.0), Some(0.25)));
        assert!((figures.hm.unwrap() - 10.0 / 95.0).abs() < 1e-15);
        assert_eq!((figures.mean_nodes, figures.mean_depth), (Some(4.0), Some(2.0)));
        assert_eq!((figures.tokens_per_second, figures.speedup), (Some(20.0), Some(2.0)));
        assert!((figures.speedup_median.unwrap() - (4.0 + 4.0 / 3.0) / 2.0).abs() < 1e-12);
        assert!(figures.speedup_low.unwrap() < 2.0 && figures.speedup_high.unwrap() > 2.0);
        assert_eq!(figures.round_ms()[1], Some(40.0 / 15.0));
    }

    #[test]
    fn without_prompts_figures_are_undefined() {
        let figures = Figures::of(&Arm::plain(), &[]);
        assert_eq!(
            (figures.tau, figures.speedup, figures.speedup_low, figures.round_ms()),
            (None, None, None, [None; 3])
        );
    }
}
