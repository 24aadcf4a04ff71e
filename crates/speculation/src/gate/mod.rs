//! Whether to draft at all: one decision for all sequences that a drafter has at a verifier.
//!
//! Drafting for one sequence slows the others down: they share the target's passes, and often the processors. So it is not
//! decided by what a sequence gains, but by the tokens a millisecond that all of them make together, as it is measured. Time
//! is cut into short *epochs* in which either all draft or all rest. Where an epoch of one kind follows one of the other,
//! the two are compared: a machine's pace drifts by more than what there is to be found out, and epochs that are next to
//! each other share it. What drafting makes of plain decoding is believed with a standard error, for each [bucket](Load) of
//! load apart, and the next epoch is a draw from that (Thompson sampling): an alternative is tried as often as it is likely
//! to be the better one, as far as the savings go. A draft model that rested has to read all that was committed meanwhile,
//! by all sequences at once, so to try may cost more than a whole epoch makes: what it cost is measured, and a share of
//! all tokens is saved up for it.

mod belief;
mod load;

use belief::{Belief, Estimate};
use load::Load;

use crate::rate::Sums;
use crate::split_mix::SplitMix64;

/// Rounds of each open sequence that make an epoch, and rounds that do so at the least. Fewer measure more the passage from
/// one way to the other, in which some draft and some rest; more put off what has to be found out, and texts end.
const EPOCH_ROUNDS: usize = 4;
const EPOCH_ROUNDS_MIN: usize = 16;

/// What drafting is hoped to make of plain decoding before it was measured anywhere, one standard error above 1: who never
/// tries never knows.
const HOPE: f64 = 1.3;

/// Standard error of what was measured at another load, as a share of it, for each bucket between: less is too sure of
/// neighbours, more tries again at every load.
const BUCKET_SPREAD: f64 = 0.1;

/// Share of all tokens that may be lost by trying to draft where that seems worse.
const EXPLORE: f64 = 0.005;

/// What an epoch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All rest, so that plain decoding is measured.
    Measure,
    /// All rest, as drafting makes less.
    Rest,
    /// All draft, as that makes more.
    Draft,
    /// All draft, to find out whether that makes more.
    Try,
}

impl Mode {
    /// Whether all draft.
    pub fn drafts(self) -> bool {
        matches!(self, Self::Draft | Self::Try)
    }
}

/// A round of one sequence, for the gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateRound {
    /// Whether it was drafted for.
    pub drafted: bool,
    /// Whether the sequence's round before it was of the other kind: this one makes up for what was missed.
    pub changed: bool,
    /// Tokens committed.
    pub tokens: usize,
    /// Time since the sequence's round before it, or since it began, in milliseconds.
    pub ms: f64,
    /// Sequences that the verifier had open.
    pub open: usize,
}

/// Decides for all sequences of one drafter at one verifier.
#[derive(Debug, Clone)]
pub struct Gate {
    mode: Mode,
    epoch: Epoch,
    /// Epochs that have ended.
    epochs: u64,
    /// Open sequences over the last rounds; none before the first.
    open: Option<f64>,
    /// The epoch before, where it measured something.
    last: Option<Measured>,
    /// Tokens that may be lost by trying to draft; below 0 it is not tried.
    savings: f64,
    /// What drafting is believed to make of plain decoding at each load where it was tried, by bucket.
    known: Vec<(Load, Belief)>,
    random: SplitMix64,
}

/// What an epoch found.
#[derive(Debug, Clone, Copy)]
struct Measured {
    drafted: bool,
    load: Load,
    /// Tokens a millisecond of all open sequences together, and of each.
    rate: Estimate,
    of_each: f64,
}

/// What was measured in the present epoch.
#[derive(Debug, Clone, Default)]
struct Epoch {
    /// Rounds that are still left out, as sequences change over: half an epoch's, until the last one has come round.
    changing: Option<usize>,
    /// Tokens a millisecond that each sequence made by plain decoding in the epoch before, if that was given up for this one.
    given_up: Option<f64>,
    /// Tokens fewer than that would have made since.
    cost: f64,
    rounds: usize,
    open: usize,
    sums: Sums,
}

impl Epoch {
    /// Open sequences on average.
    fn mean_open(&self) -> f64 {
        self.open as f64 / self.rounds.max(1) as f64
    }

    /// What it found, if it was long enough.
    fn measured(&self, drafted: bool, load: Load) -> Option<Measured> {
        let (of_each, open) = (self.sums.rate(EPOCH_ROUNDS as f64)?, self.mean_open());
        let rate = Estimate { value: of_each.value * open, error: of_each.error * open };
        Some(Measured { drafted, load, rate, of_each: of_each.value })
    }
}

impl Gate {
    /// Knows nothing yet; `seed` decides the draws.
    pub fn new(seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        let epoch = Epoch::default();
        let (mode, known) = (Mode::Measure, Vec::new());
        Self { mode, epoch, epochs: 0, open: None, last: None, savings: 0.0, known, random }
    }

    /// What the present epoch is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes a round into account. One of another kind than the present epoch's is left out: some still rest, or draft,
    /// when others have begun to do otherwise.
    pub fn observe(&mut self, round: &GateRound) {
        if round.ms.is_nan() {
            return;
        }
        self.save(round);
        if round.changed || round.drafted != self.mode.drafts() {
            return;
        }
        let (open, lately) = (round.open.max(1), self.follow(round.open.max(1)));
        let changing = self.epoch.changing.get_or_insert(EPOCH_ROUNDS / 2 * open);
        if *changing > 0 {
            *changing -= 1;
            return;
        }
        self.epoch.rounds += 1;
        self.epoch.open += open;
        self.epoch.sums.add(round.tokens as f64, round.ms);
        let load = Load::of(self.epoch.mean_open());
        // Among twice as many sequences, or half as many, what was decided for others does not hold.
        if self.epoch.rounds >= EPOCH_ROUNDS_MIN.max(EPOCH_ROUNDS * open) || load.is_far_from(lately) {
            self.end_epoch(lately, load);
        }
    }

    /// A share of all tokens is saved; to begin to draft costs what plain decoding would have made in the time of a round,
    /// less what the round did make: also of those who have not begun yet, but wait beside the others.
    fn save(&mut self, round: &GateRound) {
        let tokens = round.tokens as f64;
        self.savings += EXPLORE * tokens;
        self.epoch.cost += self.epoch.given_up.map_or(0.0, |rate| rate * round.ms - tokens);
    }

    /// The load lately: where one sequence follows another there is one more or one less for a moment.
    fn follow(&mut self, open: usize) -> Load {
        let open = open as f64;
        let lately = self.open.map_or(open, |lately| lately + (open - lately) / (2 * EPOCH_ROUNDS) as f64);
        self.open = Some(lately);
        Load::of(lately)
    }

    /// Takes what an epoch at the load `load` found, and begins another at the load `now`.
    fn end_epoch(&mut self, now: Load, load: Load) {
        self.epochs += 1;
        // What was gained is no leave to lose it again.
        self.savings -= self.epoch.cost.max(0.0);
        let drafted = self.mode.drafts();
        let before = self.last.take();
        self.last = self.epoch.measured(drafted, load);
        if let (Some(before), Some(last)) = (before, self.last)
            && before.load == load
            && before.drafted != drafted
        {
            let [plain, draft] = if drafted { [before, last] } else { [last, before] };
            self.learn(load, draft.rate.over(plain.rate));
        }
        self.mode = self.choose(now);
        let changes = self.mode.drafts() != drafted;
        let begins = changes && self.mode.drafts();
        let given_up = self.last.filter(|_| begins).map(|last| last.of_each);
        self.epoch = Epoch { changing: (!changes).then_some(0), given_up, ..Epoch::default() };
    }

    /// Takes into account what drafting made of plain decoding at a load.
    fn learn(&mut self, load: Load, ratio: Estimate) {
        let epoch = self.epochs;
        match self.known.iter_mut().find(|(known, _)| *known == load) {
            Some((_, belief)) => belief.update(ratio, epoch),
            None => {
                let mut belief = Belief::new(self.supposed(load), epoch);
                belief.update(ratio, epoch);
                self.known.push((load, belief));
            }
        }
    }

    /// Draws what to do next.
    fn choose(&mut self, load: Load) -> Mode {
        let ratio = self.supposed(load);
        let drawn = self.draw(ratio);
        let pays = ratio.value > 1.0;
        // To measure plain decoding costs little: who rested for an epoch has little to read.
        let drafts = drawn > 1.0 && (pays || self.savings >= 0.0);
        match (drafts, pays) {
            (true, true) => Mode::Draft,
            (true, false) => Mode::Try,
            (false, true) => Mode::Measure,
            (false, false) => Mode::Rest,
        }
    }

    /// What drafting is supposed to make of plain decoding at a load: what was found at the nearest one, or what is hoped
    /// for where it was never tried.
    fn supposed(&self, load: Load) -> Estimate {
        let hoped = HOPE - 1.0;
        let nearest = self.known.iter().min_by_key(|(known, _)| known.distance(load));
        nearest.map_or(Estimate { value: HOPE, error: hoped }, |(known, belief)| {
            let off = BUCKET_SPREAD * f64::from(known.distance(load));
            belief.at(self.epochs).less_sure(off.min(hoped))
        })
    }

    /// A draw from a normal distribution: twelve uniform numbers sum to one of variance 1 and mean 6.
    fn draw(&mut self, estimate: Estimate) -> f64 {
        let sum: f64 = (0..12).map(|_| self.random.unit()).sum();
        estimate.value + (sum - 6.0) * estimate.error
    }
}

#[cfg(test)]
mod tests;
