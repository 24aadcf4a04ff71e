//! `cali-ts`: a chain that ends by Thompson sampling, calibrated by a trained predictor (the EESD paper, its
//! calibration algorithm).
//!
//! The chance that the target takes a drafted token is believed to be normal around the predictor's `theta_m` and the
//! sequence's own `theta_hat`, in proportion to how sure each is after `n` rounds:
//!
//! ```text
//! mu  = (s_s^2 theta_m + n s_m^2 theta_hat) / (n s_m^2 + s_s^2)
//! var = s_m^2 s_s^2 / (s_s^2 + n s_m^2)
//! ```
//!
//! After each token `theta` is drawn from `N(mu, var)`, clamped to [0, 1], and `chi` from `Bernoulli(theta)`; the chain
//! ends when `chi = 0`. A round of which `k` tokens were accepted, `t'` having been emitted by its end, gives
//! `n += 1` and `theta_hat = (theta_hat (t' - k) + k) / (t' + 1)`: the mean over emitted tokens, of which a bonus counts
//! as a failure. Where there is no predictor, `theta_hat` stands for `theta_m`.

use super::RoundStart;
use super::chain::StopTest;
use super::draws::Draws;
use super::kind::{ChainKind, chain_depth, max_nodes};
use super::param::Param;
use crate::RoundRecord;
use crate::draft::{Draft, Expansion};

/// Range of the two deviations: neither may be 0.
const DEVIATION: (f64, f64) = (0.001, 1000.0);
const S_M: Param = Param::real("s_m", 0.3, DEVIATION, "standard deviation of the predictor's error");
const S_S: Param = Param::real("s_s", 0.5, DEVIATION, "standard deviation of one round's acceptance");
const THETA_HAT0: Param = Param::real("theta_hat0", 0.5, (0.0, 1.0), "acceptance believed in before the first round");

pub(super) const KIND: ChainKind = ChainKind {
    name: "cali-ts",
    about: "a chain that ends by Thompson sampling around a predicted and an observed acceptance",
    params: &[S_M, S_S, THETA_HAT0, max_nodes(64), chain_depth()],
    build: |values| {
        let belief = CalibratedBelief::new(values.real(&S_M), values.real(&S_S), values.real(&THETA_HAT0));
        Box::new(CaliTs { belief, draws: None })
    },
};

/// What `cali-ts` believes of one sequence's acceptance.
///
/// # Examples
/// ```
/// use espalier_speculation::CalibratedBelief;
/// let mut belief = CalibratedBelief::new(0.3, 0.5, 0.5);
/// assert_eq!(belief.mean(0.8), 0.8); // nothing is known but the prediction
/// belief.observe(0, 1);
/// assert_eq!((belief.rounds(), belief.emitted(), belief.theta_hat()), (1, 1, 0.25));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibratedBelief {
    /// `s_m^2` and `s_s^2`.
    predictor_variance: f64,
    sample_variance: f64,
    theta_hat: f64,
    rounds: usize,
    emitted: usize,
}

impl CalibratedBelief {
    /// Nothing observed: `s_m` and `s_s` are positive deviations, `theta_hat` is a chance.
    pub fn new(s_m: f64, s_s: f64, theta_hat: f64) -> Self {
        Self { predictor_variance: s_m * s_m, sample_variance: s_s * s_s, theta_hat, rounds: 0, emitted: 0 }
    }

    /// `mu`: the mean of the belief where the predictor gives `theta_m`.
    pub fn mean(&self, theta_m: f64) -> f64 {
        let observed = self.rounds as f64 * self.predictor_variance;
        (self.sample_variance * theta_m + observed * self.theta_hat) / (observed + self.sample_variance)
    }

    /// `var`: the variance of the belief.
    pub fn variance(&self) -> f64 {
        let observed = self.rounds as f64 * self.predictor_variance;
        self.predictor_variance * self.sample_variance / (self.sample_variance + observed)
    }

    /// The running mean of acceptance over all tokens emitted.
    pub fn theta_hat(&self) -> f64 {
        self.theta_hat
    }

    /// `n`: rounds observed.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// `t'`: tokens emitted, every bonus included and the prompt not.
    pub fn emitted(&self) -> usize {
        self.emitted
    }

    /// Learns from a round that emitted `committed` tokens, `accepted` of them drafted.
    pub fn observe(&mut self, accepted: usize, committed: usize) {
        self.rounds += 1;
        self.emitted += committed;
        let (accepted, emitted) = (accepted as f64, self.emitted as f64);
        self.theta_hat = (self.theta_hat * (emitted - accepted) + accepted) / (emitted + 1.0);
    }
}

struct CaliTs {
    belief: CalibratedBelief,
    draws: Option<Draws>,
}

impl StopTest for CaliTs {
    fn begin(&mut self, start: &RoundStart) {
        self.draws = Some(Draws::of(start));
    }

    fn reads_predictions(&self) -> bool {
        true
    }

    fn stops(&mut self, draft: &Draft) -> bool {
        let Self { belief, draws } = self;
        let predicted = draft.newest_source().and_then(|Expansion { predicted, .. }| *predicted);
        let mean = belief.mean(predicted.unwrap_or(belief.theta_hat));
        draws.as_mut().is_none_or(|draws| {
            let theta = draws.normal(mean, belief.variance()).clamp(0.0, 1.0);
            !draws.bernoulli(theta)
        })
    }

    fn observe(&mut self, round: &RoundRecord) {
        self.belief.observe(round.accepted, round.committed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Candidates;
    use crate::testing::{LIMITS, grower, mean_length, start};

    #[test]
    fn the_more_rounds_the_less_the_predictor_counts() {
        let mut belief = CalibratedBelief::new(0.5, 0.5, 0.0);
        for rounds in 0..4 {
            let share = 1.0 / f64::from(rounds + 1);
            assert!((belief.mean(1.0) - share).abs() < 1e-12 && (belief.variance() - 0.25 * share).abs() < 1e-12);
            belief.observe(0, 1);
        }
    }

    #[test]
    fn a_bonus_counts_as_a_failure() {
        let mut belief = CalibratedBelief::new(0.3, 0.5, 0.5);
        belief.observe(3, 4);
        assert_eq!(belief.theta_hat(), (0.5 + 3.0) / 5.0);
        belief.observe(0, 1);
        assert_eq!(belief.theta_hat(), 0.7 * 5.0 / 6.0);
    }

    #[test]
    fn without_a_predictor_the_observed_acceptance_decides() {
        // A narrow belief around 3/4: chains have 4 tokens in the mean.
        let mean = mean_length("cali-ts,s_m=0.001,theta_hat0=0.75,max_depth=64");
        assert!((mean - 4.0).abs() < 0.25, "{mean}");
    }

    #[test]
    fn a_chain_ends_where_the_predictor_says_so() {
        let mut grower = grower("cali-ts,s_m=0.001", &[]);
        grower.begin_round(&start(LIMITS));
        let mut levels = 0;
        while grower.frontier().is_some() {
            levels += 1;
            let sure = if levels < 6 { 1.0 } else { 0.0 };
            let candidates = Candidates::from_probs(&[1.0], 1).unwrap().predicting(sure).unwrap();
            grower.extend(&[candidates]).unwrap();
        }
        assert!((5..=7).contains(&levels), "{levels}");
    }
}
