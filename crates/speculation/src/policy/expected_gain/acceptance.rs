//! How likely drafted tokens are accepted, learnt from those that were tried.
//!
//! A drafter's probabilities are no chances of acceptance: it may be too sure of itself, and a
//! greedy target takes its favourite more often than the favourite's probability says.

/// Upper bounds of the classes of probability that are told apart.
pub(super) const BOUNDS: [f64; CLASSES] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.997, 1.0];
pub(super) const CLASSES: usize = 13;

/// Share of its weight that a token tried keeps when another one is: the last hundred decide.
const KEEP: f64 = 0.99;

/// Tokens accepted and rejected of all classes together, or of a depth, and tokens tried of one class, before what was seen
/// counts half.
const BELIEF: f64 = 2.0;
const CLASS_BELIEF: f64 = 4.0;

/// How many times their odds favourites are hoped to have before any was tried.
const HOPE: f64 = 2.0;

/// Nothing is certain.
const CHANCE_MAX: f64 = 0.999;

/// Depths that are told apart; the last stands for all deeper ones.
pub(super) const DEPTHS: usize = 8;

/// Acceptance of first children apart from that of others.
#[derive(Debug, Clone)]
pub(super) struct Acceptance {
    groups: [Group; 2],
}

impl Default for Acceptance {
    /// Others are believed; favourites are hoped to be better than they look, as they mostly are: a greedy target takes its
    /// favourite whatever its probability, and shared noise favours the same tokens on both sides.
    fn default() -> Self {
        Self { groups: [Group::new(1.0), Group::new(HOPE)] }
    }
}

#[derive(Debug, Clone)]
struct Group {
    /// By class of probability.
    classes: [Trials; CLASSES],
    /// All of them, against their probabilities.
    all: Odds,
    /// By depth, against what their classes led to expect: where three tokens were accepted the passage is an easy one, and
    /// so the fourth is likelier than it looks.
    depths: [Odds; DEPTHS],
}

impl Group {
    /// A group of which nothing is known but the ratio of odds that is hoped for.
    fn new(hope: f64) -> Self {
        Self { classes: Default::default(), all: Odds::new(hope), depths: [Odds::new(1.0); DEPTHS] }
    }

    /// The chance that is usual for a probability.
    fn usual(&self, prob: f64) -> f64 {
        let class = &self.classes[class_of(prob)];
        let believed = with_odds(prob, self.all.ratio);
        ((class.accepted + CLASS_BELIEF * believed) / (class.tried + CLASS_BELIEF)).min(CHANCE_MAX)
    }
}

/// How many times their expected odds the odds of acceptance are. Unlike a ratio of the chances it says something of
/// unlikely tokens where only likely ones were tried.
#[derive(Debug, Clone, Copy)]
struct Odds {
    trials: Trials,
    ratio: f64,
}

impl Odds {
    fn new(ratio: f64) -> Self {
        // So many accepted beyond those tried make this ratio; they fade like the others.
        let trials = Trials { accepted: BELIEF * (ratio - 1.0) / (ratio + 1.0), ..Trials::default() };
        Self { trials, ratio }
    }

    fn add(&mut self, expected: f64, accepted: bool) {
        self.trials.add(expected, accepted);
        let Trials { tried, expected, accepted } = self.trials;
        let odds = |accepted: f64| (accepted + BELIEF) / (tried - accepted + BELIEF);
        self.ratio = odds(accepted) / odds(expected);
    }
}

/// Faded counts of tokens tried.
#[derive(Debug, Clone, Copy, Default)]
struct Trials {
    tried: f64,
    /// Sum of their draft probabilities.
    expected: f64,
    accepted: f64,
}

impl Trials {
    fn add(&mut self, prob: f64, accepted: bool) {
        self.tried = KEEP * self.tried + 1.0;
        self.expected = KEEP * self.expected + prob;
        self.accepted = KEEP * self.accepted + f64::from(u8::from(accepted));
    }
}

/// The probability of so many times the odds of `prob`.
fn with_odds(prob: f64, ratio: f64) -> f64 {
    let odds = ratio * prob;
    odds / (odds + 1.0 - prob)
}

/// The class of `prob`.
pub(super) fn class_of(prob: f64) -> usize {
    // Without branches a look at all is faster than a search.
    BOUNDS[..CLASSES - 1].iter().filter(|&&bound| bound < prob).count()
}

impl Acceptance {
    /// The chance that a child of draft probability `prob` is accepted once its parent, of `depth`, is.
    pub(super) fn chance(&self, depth: usize, prob: f64, first: bool) -> f64 {
        let group = &self.groups[usize::from(first)];
        with_odds(group.usual(prob), group.depths[depth.min(DEPTHS - 1)].ratio).min(CHANCE_MAX)
    }

    /// A child of draft probability `prob` was tried, its parent being of `depth`.
    pub(super) fn observe(&mut self, depth: usize, (prob, first): (f64, bool), accepted: bool) {
        let group = &mut self.groups[usize::from(first)];
        let usual = group.usual(prob);
        group.depths[depth.min(DEPTHS - 1)].add(usual, accepted);
        group.all.add(prob, accepted);
        group.classes[class_of(prob)].add(prob, accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after `rounds` rounds in which tokens of `prob` were accepted each `nth` time.
    fn after(rounds: usize, prob: f64, nth: usize) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for round in 0..rounds {
            acceptance.observe(round % 5, (prob, true), round % nth == 0);
        }
        acceptance
    }

    #[test]
    fn at_first_the_drafter_is_believed_and_its_favourites_are_hoped_to_be_better() {
        let unknown = Acceptance::default();
        for prob in [0.001, 0.3, 0.99] {
            assert!((unknown.chance(9, prob, false) - prob).abs() < 1e-12);
            assert!((unknown.chance(9, prob, true) - with_odds(prob, HOPE)).abs() < 1e-12);
        }
        assert!((unknown.groups[1].all.ratio - HOPE).abs() < 1e-12);
    }

    #[test]
    fn a_drafter_too_sure_of_itself_is_believed_less_and_a_modest_one_more() {
        assert!((after(200, 0.9, 3).chance(9, 0.9, true) - 0.33).abs() < 0.05);
        assert!((after(200, 0.4, 1).chance(9, 0.4, true) - 1.0).abs() < 0.05);
    }

    #[test]
    fn what_is_learnt_of_one_class_is_a_first_guess_for_the_others() {
        let chance = after(200, 0.9, 3).chance(9, 0.6, true);
        assert!(chance < 0.3, "{chance}");
        // Sure tokens that never fail say that unsure ones are better than they look.
        let chance = after(200, 0.9, 1).chance(9, 0.4, true);
        assert!(chance > 0.7, "{chance}");
    }

    #[test]
    fn first_children_say_nothing_of_the_others() {
        assert!((after(200, 0.4, 1).chance(9, 0.4, false) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn every_probability_has_a_class_and_nothing_is_certain() {
        assert_eq!((class_of(0.0), class_of(0.02), class_of(0.021), class_of(1.0)), (0, 0, 1, CLASSES - 1));
        assert!(after(500, 1.0, 1).chance(9, 1.0, true) < 1.0);
    }
}
