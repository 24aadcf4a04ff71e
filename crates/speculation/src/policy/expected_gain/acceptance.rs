//! How likely drafted tokens are accepted, learnt from those that were tried.
//!
//! A drafter's probabilities are no chances of acceptance: it may be too sure of itself, and a
//! greedy target takes its favourite more often than the favourite's probability says.

/// Upper bounds of the classes of probability that are told apart.
pub(super) const BOUNDS: [f64; CLASSES] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0];
pub(super) const CLASSES: usize = 11;

/// Share of its weight that experience keeps in a round.
const KEEP: f64 = 0.99;

/// Accepted tokens to be expected before what was seen counts half: of a class, and of all
/// classes together.
const CLASS_BELIEF: f64 = 2.0;
const BELIEF: f64 = 4.0;

/// Nothing is certain.
const CHANCE_MAX: f64 = 0.995;

/// Acceptance by class of probability, first children apart from the others.
#[derive(Debug, Clone, Default)]
pub(super) struct Acceptance {
    groups: [Group; 2],
}

#[derive(Debug, Clone, Default)]
struct Group {
    classes: [Trials; CLASSES],
    all: Trials,
}

/// Faded counts of tokens tried.
#[derive(Debug, Clone, Copy, Default)]
struct Trials {
    expected: f64,
    accepted: f64,
}

impl Trials {
    /// Accepted for each one expected, starting from `believed`.
    fn ratio(&self, believed: f64, belief: f64) -> f64 {
        (self.accepted + belief * believed) / (self.expected + belief)
    }

    fn add(&mut self, expected: f64, accepted: bool) {
        self.expected += expected;
        self.accepted += f64::from(u8::from(accepted));
    }

    fn fade(&mut self) {
        self.expected *= KEEP;
        self.accepted *= KEEP;
    }
}

/// The class of `prob`.
pub(super) fn class_of(prob: f64) -> usize {
    BOUNDS.partition_point(|&bound| bound < prob).min(CLASSES - 1)
}

impl Acceptance {
    /// The chance that a child of draft probability `prob` is accepted once its parent is.
    pub(super) fn chance(&self, prob: f64, first: bool) -> f64 {
        let group = &self.groups[usize::from(first)];
        let overall = group.all.ratio(1.0, BELIEF);
        let ratio = group.classes[class_of(prob)].ratio(overall, CLASS_BELIEF);
        (prob * ratio).min(CHANCE_MAX)
    }

    /// A child of draft probability `prob` was tried.
    pub(super) fn observe(&mut self, prob: f64, first: bool, accepted: bool) {
        let group = &mut self.groups[usize::from(first)];
        group.all.add(prob, accepted);
        group.classes[class_of(prob)].add(prob, accepted);
    }

    /// A round goes by.
    pub(super) fn fade(&mut self) {
        for group in &mut self.groups {
            group.all.fade();
            group.classes.iter_mut().for_each(Trials::fade);
        }
    }
}
