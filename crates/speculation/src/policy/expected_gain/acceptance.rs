//! How likely drafted tokens are accepted, learnt from those that were tried.
//!
//! A drafter's probabilities are no chances of acceptance: it may be too sure of itself, and a
//! greedy target takes its favourite more often than the favourite's probability says.

/// Where the classes of probability that are told apart end, in thousandths.
const BOUNDS: [usize; CLASSES] = [20, 50, 100, 200, 350, 500, 650, 800, 900, 970, 990, 997, 1000];
pub(super) const CLASSES: usize = 13;

/// The class of every probability in thousandths: looking it up is faster than comparing with the bounds.
const CLASS_OF: [u8; 1001] = {
    let (mut classes, mut class, mut prob) = ([0; 1001], 0, 0);
    while prob <= 1000 {
        if prob == BOUNDS[class] && class < CLASSES - 1 {
            class += 1;
        }
        classes[prob] = class as u8;
        prob += 1;
    }
    classes
};

/// The probability that stands for a class.
pub(super) fn middle(class: usize) -> f64 {
    let below = class.checked_sub(1).map_or(0, |below| BOUNDS[below]);
    (below + BOUNDS[class]) as f64 / 2000.0
}

/// What the chance of a drafted token hangs on, its depth apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Child {
    /// Its draft probability, and the class of that.
    prob: f64,
    class: u8,
    /// Whether it is its parent's most probable child.
    pub(super) first: bool,
}

impl Child {
    /// A child of draft probability `prob`.
    pub(super) fn new(prob: f64, first: bool) -> Self {
        let thousandths = (prob * 1000.0) as usize;
        Self { prob, class: CLASS_OF[thousandths.min(1000)], first }
    }

    /// The class of its probability, below [`CLASSES`].
    pub(super) fn class(self) -> usize {
        usize::from(self.class)
    }
}

/// Share of its weight that a token tried keeps when another one is: the last hundred decide.
const TRIALS_KEEP: f64 = 0.99;

/// Tokens accepted and rejected of all classes together, or of a depth, and tokens tried of one class, before what was seen
/// counts half.
const TRIALS_BELIEF: f64 = 2.0;
const CLASS_BELIEF: f64 = 4.0;

/// How many times their odds favourites are hoped to have before any was tried.
const FAVOURITE_ODDS: f64 = 2.0;

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
        Self { groups: [Group::new(1.0), Group::new(FAVOURITE_ODDS)] }
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

    /// The chance that is usual for such a child, as a fraction: whoever reckons on divides only once.
    fn usual(&self, child: Child) -> (f64, f64) {
        let class = &self.classes[child.class()];
        let (believed, of) = with_odds(child.prob, 1.0, self.all.ratio);
        let (usual, of) = (class.accepted * of + CLASS_BELIEF * believed, (class.tried + CLASS_BELIEF) * of);
        (usual.min(CHANCE_MAX * of), of)
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
        let trials = Trials { accepted: TRIALS_BELIEF * (ratio - 1.0) / (ratio + 1.0), ..Trials::default() };
        Self { trials, ratio }
    }

    fn add(&mut self, expected: f64, accepted: bool) {
        self.trials.add(expected, accepted);
        let Trials { tried, expected, accepted } = self.trials;
        let odds = |accepted: f64| (accepted + TRIALS_BELIEF) / (tried - accepted + TRIALS_BELIEF);
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
        self.tried = TRIALS_KEEP * self.tried + 1.0;
        self.expected = TRIALS_KEEP * self.expected + prob;
        self.accepted = TRIALS_KEEP * self.accepted + f64::from(u8::from(accepted));
    }
}

/// The probability of so many times the odds of `prob / of`, as a fraction too.
fn with_odds(prob: f64, of: f64, ratio: f64) -> (f64, f64) {
    let odds = ratio * prob;
    (odds, odds + of - prob)
}

impl Acceptance {
    /// The chance that `child` is accepted once its parent, of `depth`, is.
    pub(super) fn chance(&self, depth: usize, child: Child) -> f64 {
        let group = &self.groups[usize::from(child.first)];
        let (usual, of) = group.usual(child);
        let (chance, of) = with_odds(usual, of, group.depths[depth.min(DEPTHS - 1)].ratio);
        (chance / of).min(CHANCE_MAX)
    }

    /// `child` was tried, its parent being of `depth`.
    pub(super) fn observe(&mut self, depth: usize, child: Child, accepted: bool) {
        let group = &mut self.groups[usize::from(child.first)];
        let (usual, of) = group.usual(child);
        group.depths[depth.min(DEPTHS - 1)].add(usual / of, accepted);
        group.all.add(child.prob, accepted);
        group.classes[child.class()].add(child.prob, accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after `rounds` rounds in which tokens of `prob` were accepted each `nth` time.
    fn after(rounds: usize, prob: f64, nth: usize) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for round in 0..rounds {
            acceptance.observe(round % 5, Child::new(prob, true), round % nth == 0);
        }
        acceptance
    }

    #[test]
    fn at_first_the_drafter_is_believed_and_its_favourites_are_hoped_to_be_better() {
        let unknown = Acceptance::default();
        let hoped = |prob: f64| FAVOURITE_ODDS * prob / (FAVOURITE_ODDS * prob + 1.0 - prob);
        for prob in [0.001, 0.3, 0.99] {
            assert!((unknown.chance(9, Child::new(prob, false)) - prob).abs() < 1e-12);
            assert!((unknown.chance(9, Child::new(prob, true)) - hoped(prob)).abs() < 1e-12);
        }
        assert!((unknown.groups[1].all.ratio - FAVOURITE_ODDS).abs() < 1e-12);
    }

    #[test]
    fn a_drafter_too_sure_of_itself_is_believed_less_and_a_modest_one_more() {
        assert!((after(200, 0.9, 3).chance(9, Child::new(0.9, true)) - 0.33).abs() < 0.05);
        assert!((after(200, 0.4, 1).chance(9, Child::new(0.4, true)) - 1.0).abs() < 0.05);
    }

    #[test]
    fn what_is_learnt_of_one_class_is_a_first_guess_for_the_others() {
        let chance = after(200, 0.9, 3).chance(9, Child::new(0.6, true));
        assert!(chance < 0.3, "{chance}");
        // Sure tokens that never fail say that unsure ones are better than they look.
        let chance = after(200, 0.9, 1).chance(9, Child::new(0.4, true));
        assert!(chance > 0.7, "{chance}");
    }

    #[test]
    fn first_children_say_nothing_of_the_others() {
        assert!((after(200, 0.4, 1).chance(9, Child::new(0.4, false)) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn every_probability_has_a_class_and_nothing_is_certain() {
        assert_eq!([0.0, 0.0199, 0.02, 0.998, 1.0].map(|prob| Child::new(prob, true).class()), [0, 0, 1, 12, 12]);
        assert!((0..CLASSES).all(|class| Child::new(middle(class), true).class() == class));
        assert!(after(500, 1.0, 1).chance(9, Child::new(1.0, true)) < 1.0);
    }
}
