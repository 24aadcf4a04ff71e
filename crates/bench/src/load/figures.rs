//! What is known of one arm at one level.

use std::time::Duration;

use espalier_proto::SpeculationSummary;
use serde::Serialize;

use super::arms::Arm;
use super::filled::Filled;
use super::level::Level;
use super::outcome::{Finished, Outcome};
use crate::statistics::{Spread, median_interval};

/// One arm at one level for a while.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) outcomes: Vec<Outcome>,
    /// From the first request to the end of the last answer.
    pub(super) took: Duration,
    pub(super) filled: Filled,
    pub(super) peak_bytes: Option<u64>,
}

impl Turn {
    fn finished(&self) -> impl Iterator<Item = &Finished> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Finished(finished) => Some(finished.as_ref()),
            _ => None,
        })
    }
}

/// The figures of one arm at one level, pooled over its turns; none where a denominator is 0.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Figures {
    pub(super) arm: &'static str,
    pub(super) drafter: String,
    pub(super) policy: String,
    pub(super) targets: Vec<String>,
    /// Requests under way at once, in a closed loop.
    pub(super) concurrency: Option<usize>,
    /// Requests a second, in an open loop.
    pub(super) rate: Option<f64>,
    pub(super) requests: usize,
    pub(super) finished: usize,
    pub(super) refused: usize,
    /// Refusals that did not say when to come again.
    pub(super) unhinted: usize,
    pub(super) late: usize,
    pub(super) failed: usize,
    /// What the first of those failed of.
    pub(super) failure: Option<String>,
    /// Answers whose text is not the one of plain decoding alone.
    pub(super) different: usize,
    /// Times that answers had to be begun again elsewhere.
    pub(super) failovers: u64,
    pub(super) tokens: usize,
    pub(super) seconds: f64,
    pub(super) tokens_per_second: Option<f64>,
    /// Tokens a second relative to plain decoding in the turn before, at the same level: the median of all turns, and
    /// between which of them it lies.
    pub(super) ratio: Option<f64>,
    pub(super) ratio_low: Option<f64>,
    pub(super) ratio_high: Option<f64>,
    /// The same of one drafter for all targets relative to one for each; none of other ways.
    pub(super) to_each: Option<f64>,
    pub(super) to_each_low: Option<f64>,
    pub(super) to_each_high: Option<f64>,
    /// Committed tokens a round.
    pub(super) tau: Option<f64>,
    /// Nodes sent a round.
    pub(super) nodes: Option<f64>,
    /// Sequences that were in a target's forward pass at once, on average over the whole time.
    pub(super) verifying: Option<f64>,
    /// Of the open sequences past their prompt, the share that a pass held.
    pub(super) filled: Option<f64>,
    pub(super) first_token_ms: Option<Spread>,
    pub(super) token_ms: Option<Spread>,
    pub(super) refusal_ms: Option<Spread>,
    /// Of a round.
    pub(super) draft_ms: Option<f64>,
    pub(super) verify_ms: Option<f64>,
    pub(super) wait_ms: Option<f64>,
    pub(super) peak_bytes: Option<u64>,
}

impl Figures {
    /// What `turns` of an arm say beside those of plain decoding at the same level, in the same order.
    pub(super) fn new(arm: &Arm, level: Level, turns: &[&Turn], plain: &[&Turn]) -> Self {
        let (concurrency, rate) = match level {
            Level::Concurrency(count) => (Some(count), None),
            Level::Rate(rate) => (None, Some(rate)),
        };
        let policy = arm.policy.clone().unwrap_or_else(|| "-".to_owned());
        let own = Self { arm: arm.name, drafter: arm.drafter(), policy, concurrency, rate, ..Self::default() };
        own.with_counts(turns).with_pace(turns, plain).with_times(turns)
    }

    /// The same with what its `turns` are beside those of one drafter for each target.
    pub(super) fn beside_each(self, turns: &[&Turn], each: &[&Turn]) -> Self {
        let [to_each, to_each_low, to_each_high] = ratios(turns, each);
        Self { to_each, to_each_low, to_each_high, ..self }
    }

    /// Whether all requests came to what they should, or were refused.
    pub(super) fn is_sound(&self) -> bool {
        self.late + self.failed + self.different == 0
    }

    fn with_counts(mut self, turns: &[&Turn]) -> Self {
        for outcome in turns.iter().flat_map(|turn| &turn.outcomes) {
            self.requests += 1;
            match outcome {
                Outcome::Finished(finished) => {
                    self.finished += 1;
                    self.tokens += finished.tokens;
                    self.different += usize::from(!finished.identical);
                    self.failovers += u64::from(finished.speculation.failovers);
                }
                Outcome::Refused { hint, .. } => {
                    self.refused += 1;
                    self.unhinted += usize::from(hint.is_none());
                }
                Outcome::Late => self.late += 1,
                Outcome::Failed(why) => {
                    self.failed += 1;
                    self.failure.get_or_insert_with(|| why.clone());
                }
            }
        }
        self
    }

    fn with_pace(self, turns: &[&Turn], plain: &[&Turn]) -> Self {
        let [ratio, ratio_low, ratio_high] = ratios(turns, plain);
        Self {
            seconds: seconds(turns),
            tokens_per_second: rate(turns),
            ratio,
            ratio_low,
            ratio_high,
            peak_bytes: turns.iter().filter_map(|turn| turn.peak_bytes).max(),
            ..self
        }
    }

    fn with_times(self, turns: &[&Turn]) -> Self {
        let finished = || turns.iter().flat_map(|turn| turn.finished());
        let count = |f: fn(&SpeculationSummary) -> u64| finished().map(|one| f(&one.speculation)).sum::<u64>() as f64;
        let spent = |f: fn(&SpeculationSummary) -> Duration| finished().map(|one| ms(f(&one.speculation))).sum::<f64>();
        let rounds = count(|sums| sums.rounds);
        let a_round = |sum: f64| (rounds > 0.0).then(|| sum / rounds);
        let refusals = turns.iter().flat_map(|turn| &turn.outcomes).filter_map(|outcome| match outcome {
            Outcome::Refused { after, .. } => Some(ms(*after)),
            _ => None,
        });
        let verify = spent(|sums| sums.verify);
        Self {
            tau: a_round(self.tokens as f64),
            nodes: a_round(count(|sums| sums.verified)),
            verifying: (self.seconds > 0.0).then(|| verify / (1e3 * self.seconds)),
            filled: Filled::share(turns.iter().map(|turn| turn.filled)),
            first_token_ms: Spread::of(finished().map(|one| ms(one.first))),
            token_ms: Spread::of(finished().filter_map(token_ms)),
            refusal_ms: Spread::of(refusals),
            draft_ms: a_round(spent(|sums| sums.draft)),
            verify_ms: a_round(verify),
            wait_ms: a_round(spent(|sums| sums.wait)),
            ..self
        }
    }
}

/// Tokens a second of turns relative to those of the others, two by two, as one took place beside the other: the machine's
/// pace changes. See [`median_interval`].
fn ratios(turns: &[&Turn], others: &[&Turn]) -> [Option<f64>; 3] {
    let ratio = |(turn, other): (&&Turn, &&Turn)| Some(rate(&[turn])? / rate(&[other])?);
    let found = median_interval(turns.iter().zip(others).filter_map(ratio));
    found.map_or([None; 3], |found| found.map(Some))
}

/// Tokens a second of several turns; none where nothing was answered.
fn rate(turns: &[&Turn]) -> Option<f64> {
    let tokens: usize = turns.iter().flat_map(|turn| turn.finished()).map(|one| one.tokens).sum();
    let seconds = seconds(turns);
    (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds)
}

fn seconds(turns: &[&Turn]) -> f64 {
    turns.iter().map(|turn| turn.took.as_secs_f64()).sum()
}

/// The time of a token after the first ones.
fn token_ms(finished: &Finished) -> Option<f64> {
    let (tokens, took) = finished.decoded;
    (tokens > 0).then(|| ms(took) / tokens as f64)
}

fn ms(took: Duration) -> f64 {
    1e3 * took.as_secs_f64()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn finished(first_ms: u64, tokens: usize, identical: bool) -> Outcome {
        let speculation = SpeculationSummary {
            rounds: 5,
            drafted: 30,
            verified: 20,
            depth: 10,
            accepted: 5,
            accepted_by_depth: vec![5],
            tau: Some(2.0),
            draft: Duration::from_millis(10),
            verify: Duration::from_millis(50),
            wait: Duration::from_millis(15),
            drafter: "small".to_owned(),
            policy: "svip".to_owned(),
            failovers: 1,
        };
        let decoded = (tokens - 1, Duration::from_millis(2 * (tokens as u64 - 1)));
        let first = Duration::from_millis(first_ms);
        Outcome::Finished(Box::new(Finished { first, decoded, tokens, speculation, identical }))
    }

    fn turn(outcomes: Vec<Outcome>, millis: u64, peak: u64) -> Turn {
        let filled = Filled::default();
        Turn { outcomes, took: Duration::from_millis(millis), filled, peak_bytes: Some(peak) }
    }

    fn arm() -> Arm {
        Arm { name: "shared", drafters: vec!["small".to_owned(); 2], policy: Some("svip".to_owned()) }
    }

    #[test]
    fn figures_are_pooled_over_turns_and_held_against_plain_decoding() {
        let own = [turn(vec![finished(4, 10, true); 2], 100, 7), turn(vec![finished(8, 10, false)], 50, 9)];
        let plain = [turn(vec![finished(4, 10, true)], 100, 7), turn(vec![finished(8, 10, true)], 25, 9)];
        let level = Level::Concurrency(4);
        let figures = Figures::new(&arm(), level, &own.each_ref(), &plain.each_ref());
        assert_eq!((figures.requests, figures.finished, figures.different, figures.failovers), (3, 3, 1, 3));
        assert_eq!((figures.concurrency, figures.rate, figures.tokens), (Some(4), None, 30));
        assert_eq!(figures.drafter, "small");
        let near = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-9, "{found:?}");
        near(figures.tokens_per_second, 200.0);
        near(figures.ratio, (2.0 + 0.5) / 2.0);
        near(figures.ratio_low, 0.5);
        near(figures.ratio_high, 2.0);
        near(figures.tau, 2.0);
        near(figures.nodes, 4.0);
        near(figures.verifying, 1.0);
        near(figures.verify_ms, 10.0);
        assert_eq!(figures.first_token_ms.unwrap().p50, 4.0);
        assert_eq!(figures.token_ms.unwrap().p99, 2.0);
        assert_eq!(figures.peak_bytes, Some(9));
        assert!(!figures.is_sound());
        assert_eq!((figures.to_each, figures.to_each_low), (None, None));
        let figures = figures.beside_each(&own.each_ref(), &plain.each_ref());
        near(figures.to_each, (2.0 + 0.5) / 2.0);
        near(figures.to_each_low, 0.5);
        near(figures.to_each_high, 2.0);
    }

    #[test]
    fn refusals_are_no_failures_but_lateness_is_one() {
        let refused = |hint| Outcome::Refused { after: Duration::from_millis(3), hint };
        let refusals = turn(vec![refused(Some(Duration::from_millis(250))), refused(None)], 10, 1);
        let figures = Figures::new(&arm(), Level::Rate(2.0), &[&refusals], &[&refusals]);
        assert_eq!((figures.refused, figures.unhinted, figures.rate), (2, 1, Some(2.0)));
        assert_eq!(figures.refusal_ms.unwrap().p95, 3.0);
        assert_eq!((figures.tau, figures.ratio, figures.tokens_per_second), (None, None, None));
        assert!(figures.is_sound());
        let failures =
            turn(vec![Outcome::Late, Outcome::Failed("a".to_owned()), Outcome::Failed("b".to_owned())], 10, 1);
        let figures = Figures::new(&arm(), Level::Rate(2.0), &[&failures], &[&failures]);
        assert_eq!((figures.late, figures.failed, figures.failure.as_deref()), (1, 2, Some("a")));
        assert!(!figures.is_sound());
    }
}
