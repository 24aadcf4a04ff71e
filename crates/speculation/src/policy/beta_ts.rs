//! `beta-ts`: a chain that ends by Thompson sampling (the EESD paper, its Beta-Bernoulli algorithm).
//!
//! Whether the target takes a drafted token is a Bernoulli trial of unknown chance `theta`, believed to be
//! `Beta(a, b)`. After each token `theta` is drawn from that belief and `chi` from `Bernoulli(theta)`; the chain ends
//! when `chi = 0`. A round of `m` tokens of which `k` were accepted gives
//!
//! ```text
//! r = max(k - 1, 0)    n = min(k + 1, m)    a += r    b += n - r
//! ```
//!
//! The paper's `r` is -1 where nothing was accepted; here it is 0.

use super::RoundStart;
use super::chain::StopTest;
use super::draws::Draws;
use super::kind::{ChainKind, chain_depth, max_nodes};
use super::param::Param;
use crate::RoundRecord;
use crate::draft::Draft;

/// Range of `a0` and `b0`.
const PRIOR: (f64, f64) = (0.001, 1e6);
const A0: Param = Param::real("a0", 1.0, PRIOR, "acceptances believed in before the first");
const B0: Param = Param::real("b0", 1.0, PRIOR, "rejections believed in before the first");

pub(super) const KIND: ChainKind = ChainKind {
    name: "beta-ts",
    about: "a chain that ends by Thompson sampling from a Beta belief of acceptance",
    params: &[A0, B0, max_nodes(64), chain_depth()],
    build: |values| Box::new(BetaTs { belief: BetaBelief::new(values.real(&A0), values.real(&B0)), draws: None }),
};

/// What `beta-ts` believes of one sequence's acceptance: `Beta(a, b)`.
///
/// # Examples
/// ```
/// use espalier_speculation::BetaBelief;
/// let mut belief = BetaBelief::new(1.0, 1.0);
/// belief.observe(3, 5);
/// assert_eq!((belief.a(), belief.b()), (3.0, 3.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetaBelief {
    a: f64,
    b: f64,
}

impl BetaBelief {
    /// The prior `Beta(a, b)`; both are positive.
    pub fn new(a: f64, b: f64) -> Self {
        Self { a, b }
    }

    /// The weight of acceptances.
    pub fn a(&self) -> f64 {
        self.a
    }

    /// The weight of rejections.
    pub fn b(&self) -> f64 {
        self.b
    }

    /// Learns from a chain of `drafted` tokens of which the first `accepted` were.
    pub fn observe(&mut self, accepted: usize, drafted: usize) {
        let tried = accepted.saturating_add(1).min(drafted);
        let successes = accepted.saturating_sub(1).min(tried);
        self.a += successes as f64;
        self.b += (tried - successes) as f64;
    }
}

struct BetaTs {
    belief: BetaBelief,
    draws: Option<Draws>,
}

impl StopTest for BetaTs {
    fn begin(&mut self, start: &RoundStart) {
        self.draws = Some(Draws::of(start));
    }

    fn stops(&mut self, _draft: &Draft) -> bool {
        let Self { belief, draws } = self;
        draws.as_mut().is_none_or(|draws| {
            let theta = draws.beta(belief.a, belief.b);
            !draws.bernoulli(theta)
        })
    }

    fn observe(&mut self, round: &RoundRecord) {
        self.belief.observe(round.accepted, round.drafted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LIMITS, draft, grower, mean_length, start};

    #[test]
    fn a_round_counts_one_success_less_than_were_accepted() {
        for (accepted, drafted, expected) in
            [(0, 4, (1.0, 2.0)), (1, 4, (1.0, 3.0)), (4, 4, (4.0, 2.0)), (0, 0, (1.0, 1.0))]
        {
            let mut belief = BetaBelief::new(1.0, 1.0);
            belief.observe(accepted, drafted);
            assert_eq!((belief.a(), belief.b()), expected, "{accepted} of {drafted}");
        }
    }

    #[test]
    fn a_chain_goes_on_with_the_chance_believed_in() {
        // The mean of Beta(3, 1) is 3/4, so chains have 4 tokens in the mean.
        let mean = mean_length("beta-ts,a0=3,b0=1,max_depth=64");
        assert!((mean - 4.0).abs() < 0.25, "{mean}");
    }

    #[test]
    fn chains_become_short_where_nothing_is_accepted() {
        let mut grower = grower("beta-ts", &[]);
        let lengths: Vec<usize> = (0..200)
            .map(|position| {
                let begin = RoundStart { position, ..start(LIMITS) };
                let length = draft(&mut grower, &begin, |_| vec![1.0]).tree.len();
                grower.observe(&[], 1);
                length
            })
            .collect();
        assert!(lengths.iter().all(|&length| length >= 1));
        assert!(lengths[100..].iter().sum::<usize>() < 105, "{lengths:?}");
    }
}
