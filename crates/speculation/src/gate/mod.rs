//! Whether to draft at all: one decision for all sequences that a drafter has at a verifier.
//!
//! Drafting for one sequence slows the others down: they share the target's passes, and often the processors. So it is not
//! decided by what a sequence gains, but by the tokens a millisecond that all of them make together, as it is measured. Time
//! is cut into short *epochs* in which either all draft or all rest. What drafting gains over plain decoding is
//! [believed](belief) with a standard error, for each [bucket](Load) of load apart, and the next epoch is a draw from that
//! (Thompson sampling): an alternative is tried as often as it is likely to be the better one, as far as the savings go. A
//! draft model that rested has to read all that was committed meanwhile, by all sequences at once, so to begin to draft may
//! cost more than a whole epoch makes: what it cost is measured, and a share of all tokens is saved up for it.

mod belief;
mod load;

use belief::{Belief, Estimate};
use load::Load;

use crate::rate::{Rate, Sums};
use crate::split_mix::SplitMix64;

/// Rounds of each open sequence that make an epoch, and the sequences that it is long enough for at the least. Fewer measure
/// more the passage from one way to the other, in which some draft and some rest; more put off what has to be found out,
/// and texts end. The first looks at drafting are shorter: what loses by far is seen in few rounds.
const EPOCH_ROUNDS: usize = 4;

/// What drafting is hoped to make of plain decoding before it was measured anywhere, a standard error above 1: who never
/// tries never knows.
const HOPE: f64 = 1.3;

/// Standard error of what is believed at another load, as a share of it, for each bucket between: less is too sure of
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
    /// Time since the sequence's round before it, or since it began, in milliseconds, without what the target spent on
    /// prompts: it reads those whoever drafts.
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
    /// Sequences of this drafter that are there now.
    members: usize,
    /// Sequences that the verifier had open over the last rounds; none before the first.
    open: Option<f64>,
    /// Tokens that may be lost by beginning to draft; below 0 it is not tried.
    savings: f64,
    /// What is believed at each load where plain decoding was measured, by bucket.
    known: Vec<(Load, Belief)>,
    random: SplitMix64,
}

/// What was measured in the present epoch.
#[derive(Debug, Clone)]
struct Epoch {
    /// The load that its mode was chosen for.
    chosen_for: Load,
    /// Rounds that are still left out, as sequences change over: half an epoch's, until the last one has come round. None
    /// before the first round told how many that are.
    changing: Option<usize>,
    /// Tokens a millisecond that each sequence made by plain decoding in the epoch before, if that was given up for this one.
    given_up: Option<f64>,
    left_out: LeftOut,
    rounds: usize,
    open: usize,
    sums: Sums,
}

/// Rounds that were not measured.
#[derive(Debug, Clone, Copy, Default)]
struct LeftOut {
    tokens: f64,
    ms: f64,
}

impl Epoch {
    fn new(chosen_for: Load, changing: Option<usize>) -> Self {
        Self {
            chosen_for,
            changing,
            given_up: None,
            left_out: LeftOut::default(),
            rounds: 0,
            open: 0,
            sums: Sums::default(),
        }
    }

    /// Measures a round.
    fn measure(&mut self, round: &GateRound, open: usize) {
        self.rounds += 1;
        self.open += open;
        self.sums.add(round.tokens as f64, round.ms);
    }

    /// Leaves a round out of what is measured: also that of a sequence that has not begun yet, but waits beside the others.
    fn leave_out(&mut self, round: &GateRound) {
        self.left_out.tokens += round.tokens as f64;
        self.left_out.ms += round.ms;
    }

    /// Tokens that it cost to begin to draft: what plain decoding would have made meanwhile, less what was made. All took
    /// `too_long` times as long as is believed.
    fn cost(&self, too_long: f64) -> f64 {
        let LeftOut { tokens, ms } = self.left_out;
        self.given_up.map_or(0.0, |rate| (rate * ms / too_long - tokens).max(0.0))
    }

    /// The load that it was measured at.
    fn load(&self) -> Load {
        Load::of(self.mean_open())
    }

    /// Open sequences on average.
    fn mean_open(&self) -> f64 {
        self.open as f64 / self.rounds.max(1) as f64
    }

    /// Tokens a millisecond of each sequence, if it was long enough.
    fn of_each(&self) -> Option<Rate> {
        self.sums.rate(EPOCH_ROUNDS as f64)
    }
}

impl Gate {
    /// Knows nothing yet; `seed` decides the draws.
    pub fn new(seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        let epoch = Epoch::new(Load::of(1.0), None);
        let (mode, known) = (Mode::Measure, Vec::new());
        Self { mode, epoch, epochs: 0, members: 0, open: None, savings: 0.0, known, random }
    }

    /// What the present epoch is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sequences of this drafter that are there now.
    pub fn members(&self) -> usize {
        self.members
    }

    /// What drafting is believed to make of plain decoding at the present load, as a factor; none before it was tried.
    pub fn speedup(&self) -> Option<f64> {
        let tried = self.known.iter().any(|(_, belief)| belief.is_tried());
        tried.then(|| libm::exp(self.supposed(self.epoch.chosen_for).value))
    }

    /// A sequence of this drafter begins. Where many begin at once, what was decided for few does not hold until they tell
    /// of their first rounds: by then each prompt would have been read in vain.
    pub fn enter(&mut self) {
        self.members += 1;
        let now = Load::of(self.members as f64);
        if now > self.epoch.chosen_for && now.is_far_from(self.epoch.chosen_for) {
            self.open = Some(self.members as f64);
            self.end_epoch(now);
            // The target reads their prompts now, which says nothing of either way.
            self.epoch.changing = None;
        }
    }

    /// A sequence of this drafter has ended.
    pub fn leave(&mut self) {
        self.members = self.members.saturating_sub(1);
    }

    /// Takes a round into account. One of another kind than the present epoch's is not measured: some still rest, or draft,
    /// when others have begun to do otherwise.
    pub fn observe(&mut self, round: &GateRound) {
        if round.ms.is_nan() {
            return;
        }
        self.savings += EXPLORE * round.tokens as f64;
        if round.changed || round.drafted != self.mode.drafts() {
            return self.epoch.leave_out(round);
        }
        let open = round.open.max(1);
        let lately = self.follow(open);
        let changing = self.epoch.changing.get_or_insert(EPOCH_ROUNDS / 2 * open);
        if *changing > 0 {
            *changing -= 1;
            return self.epoch.leave_out(round);
        }
        self.epoch.measure(round, open);
        let long_enough = self.epoch.rounds >= EPOCH_ROUNDS * open.max(self.sequences_min());
        // Among twice as many sequences, or half as many, what was decided for others does not hold.
        if long_enough || self.epoch.load().is_far_from(lately) {
            self.end_epoch(lately);
        }
    }

    /// Sequences that the present epoch is long enough for at the least: the first look at drafting is of 4 rounds, each
    /// next one twice as long, unless it surprised.
    fn sequences_min(&self) -> usize {
        let known = self.known.iter().find(|(known, _)| *known == self.epoch.chosen_for);
        let looks = known.map_or(0, |(_, belief)| belief.looks());
        if self.mode.drafts() { EPOCH_ROUNDS.min(2_usize.saturating_pow(looks)) } else { EPOCH_ROUNDS }
    }

    /// The load lately: where one sequence follows another there is one more or one less for a moment.
    fn follow(&mut self, open: usize) -> Load {
        let open = open as f64;
        let lately = self.open.map_or(open, |lately| lately + (open - lately) / (2 * EPOCH_ROUNDS) as f64);
        self.open = Some(lately);
        Load::of(lately)
    }

    /// Takes into account what an epoch found, and begins another at the load `now`.
    fn end_epoch(&mut self, now: Load) {
        self.epochs += 1;
        let (drafted, load, of_each) = (self.mode.drafts(), self.epoch.load(), self.epoch.of_each());
        let surprise = of_each.and_then(|of_each| {
            let open = self.epoch.mean_open();
            self.learn(drafted, load, Rate { value: open * of_each.value, error: open * of_each.error })
        });
        // What is not believed was not the price of drafting either.
        self.savings -= self.epoch.cost(surprise.unwrap_or(1.0));
        self.mode = self.choose(now, surprise.is_some());
        let changes = self.mode.drafts() != drafted;
        self.epoch = Epoch::new(now, (!changes).then_some(0));
        if changes && !drafted && now == load {
            self.epoch.given_up = of_each.map(|of_each| of_each.value);
        }
    }

    /// Takes into account what all made together in an epoch at a load. If that surprises, it gives how many times the
    /// rate is that is believed nevertheless.
    fn learn(&mut self, drafted: bool, load: Load, rate: Rate) -> Option<f64> {
        let (measured, supposed, epoch) = (Estimate::log_of(rate), self.supposed(load), self.epochs);
        let Some((_, belief)) = self.known.iter_mut().find(|(known, _)| *known == load) else {
            // What drafting makes says nothing beside nothing.
            if !drafted {
                self.known.push((load, Belief::new(measured, epoch)));
            }
            return None;
        };
        if drafted && !belief.is_tried() {
            belief.suppose(supposed);
        }
        belief.update(drafted, measured, epoch)
    }

    /// Draws what to do next. After a surprise plain decoding is measured again, whatever way it was about: it costs little,
    /// and to draft upon a spoilt measure of it may cost half of all.
    fn choose(&mut self, load: Load, surprised: bool) -> Mode {
        // Drafting can be compared only where plain decoding was measured, and is believed in only near where it was tried.
        let of_use = |(known, belief): &(Load, Belief)| *known == load || belief.is_tried() && !known.is_far_from(load);
        if !self.known.iter().any(of_use) {
            return Mode::Measure;
        }
        let gain = self.supposed(load);
        let drawn = self.draw(gain);
        let pays = gain.value > 0.0;
        // To measure plain decoding costs little: who rested for an epoch has little to read.
        let drafts = !surprised && drawn > 0.0 && (pays || self.savings >= 0.0);
        match (drafts, pays) {
            (true, true) => Mode::Draft,
            (true, false) => Mode::Try,
            (false, true) => Mode::Measure,
            (false, false) => Mode::Rest,
        }
    }

    /// What drafting is supposed to gain at a load, as a logarithm: what is believed at the nearest one where it was tried,
    /// or what is hoped for if there is none.
    fn supposed(&self, load: Load) -> Estimate {
        let hoped = libm::log(HOPE);
        let tried = self.known.iter().filter(|(_, belief)| belief.is_tried());
        let nearest = tried.min_by_key(|(known, _)| known.distance(load));
        nearest.map_or(Estimate { value: hoped, error: hoped }, |(known, belief)| {
            let off = BUCKET_SPREAD * f64::from(known.distance(load));
            belief.gain_at(self.epochs).less_sure(off.min(hoped))
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
