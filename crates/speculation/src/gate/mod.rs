//! Whether to draft at all: one decision for all sequences that a drafter has at a verifier.
//!
//! Drafting for one sequence slows the others down: they share the target's passes, and often the processors. So it is not
//! decided by what a sequence gains, but by the tokens a millisecond that all of them make together, as it is measured. Time
//! is cut into short *epochs* in which either all draft or all rest. What each of the two makes is believed with a standard
//! error, for each [bucket](Load) of load apart, and the next epoch is a draw from these beliefs (Thompson sampling): an
//! alternative is tried as often as it is likely to be the better one.

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

/// What the other way must make of the present one for all to change over, in the draw: a drafter that rested has to read
/// what was committed meanwhile, which no epoch shows.
const CHANGE: f64 = 1.03;

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
    /// Whether it was drafted for; the one before it was or was not, too.
    pub drafted: bool,
    /// Tokens committed.
    pub tokens: usize,
    /// Time since the sequence's round before it, in milliseconds.
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
    /// What is believed at each load that there was, by bucket.
    known: Vec<(Load, Arms)>,
    random: SplitMix64,
}

/// What was measured in the present epoch.
#[derive(Debug, Clone, Default)]
struct Epoch {
    /// Rounds that are still left out, as sequences change over.
    changing: Option<usize>,
    rounds: usize,
    open: usize,
    sums: Sums,
}

impl Epoch {
    /// Open sequences on average.
    fn mean_open(&self) -> f64 {
        self.open as f64 / self.rounds.max(1) as f64
    }

    /// Tokens a millisecond of all open sequences together.
    fn rate(&self) -> Option<Estimate> {
        let of_one = self.sums.rate(EPOCH_ROUNDS as f64)?;
        Some(Estimate { rate: of_one.value, error: of_one.error }.scaled(self.mean_open(), 0.0))
    }
}

/// What each way makes, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
struct Arms {
    plain: Option<Belief>,
    draft: Option<Belief>,
}

impl Gate {
    /// Knows nothing yet; `seed` decides the draws.
    pub fn new(seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        Self { mode: Mode::Measure, epoch: Epoch::default(), epochs: 0, open: None, known: Vec::new(), random }
    }

    /// What the present epoch is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes a round into account. One of another kind than the present epoch's is left out: some still rest, or draft,
    /// when others have begun to do otherwise.
    pub fn observe(&mut self, round: &GateRound) {
        if round.drafted != self.mode.drafts() || round.ms.is_nan() {
            return;
        }
        let (open, lately) = (round.open.max(1), self.follow(round.open.max(1)));
        let changing = self.epoch.changing.get_or_insert(open);
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

    /// The load lately: where one sequence follows another there is one more or one less for a moment.
    fn follow(&mut self, open: usize) -> Load {
        let open = open as f64;
        let lately = self.open.map_or(open, |lately| lately + (open - lately) / (2 * EPOCH_ROUNDS) as f64);
        self.open = Some(lately);
        Load::of(lately)
    }

    /// Takes what an epoch at the load `measured` found, and begins another at the load `now`.
    fn end_epoch(&mut self, now: Load, measured: Load) {
        self.epochs += 1;
        if let Some(rate) = self.epoch.rate() {
            let (drafts, epochs) = (self.mode.drafts(), self.epochs);
            let arms = self.arms(measured);
            let arm = if drafts { &mut arms.draft } else { &mut arms.plain };
            match arm {
                Some(belief) => belief.update(rate, epochs),
                None => *arm = Some(Belief::new(rate, epochs)),
            }
        }
        let mode = self.choose(now);
        let changes = mode.drafts() != self.mode.drafts();
        self.mode = mode;
        self.epoch = Epoch { changing: (!changes).then_some(0), ..Epoch::default() };
    }

    /// What is known at a load.
    fn arms(&mut self, load: Load) -> &mut Arms {
        let place = self.known.iter().position(|(known, _)| *known == load).unwrap_or_else(|| {
            self.known.push((load, Arms::default()));
            self.known.len() - 1
        });
        &mut self.known[place].1
    }

    /// Draws what to do next.
    fn choose(&mut self, load: Load) -> Mode {
        let Some(Expected { plain, draft }) = self.expected(load) else { return Mode::Measure };
        let keep = if self.mode.drafts() { [1.0, CHANGE] } else { [CHANGE, 1.0] };
        let [plain_draw, draft_draw] = [plain, draft].map(|estimate| self.draw(estimate));
        let drafts = draft_draw * keep[1] > plain_draw * keep[0];
        match (drafts, draft.rate > plain.rate) {
            (true, true) => Mode::Draft,
            (true, false) => Mode::Try,
            (false, true) => Mode::Measure,
            (false, false) => Mode::Rest,
        }
    }

    /// What each way is expected to make at a load; what was not measured there follows from the nearest load where both
    /// were. None where nothing was measured at all.
    fn expected(&self, load: Load) -> Option<Expected> {
        let arms = self.known.iter().find(|(known, _)| *known == load).map(|(_, arms)| *arms).unwrap_or_default();
        let [plain, draft] = [arms.plain, arms.draft].map(|belief| belief.map(|belief| belief.at(self.epochs)));
        let Ratio { value, spread } = self.ratio_near(load);
        Some(match (plain, draft) {
            (Some(plain), Some(draft)) => Expected { plain, draft },
            (Some(plain), None) => Expected { plain, draft: plain.scaled(value, spread) },
            (None, Some(draft)) => Expected { plain: draft.scaled(1.0 / value, spread), draft },
            (None, None) if self.known.is_empty() => return None,
            (None, None) => {
                let plain = Estimate { rate: 1.0, error: 0.0 };
                Expected { plain, draft: plain.scaled(value, spread) }
            }
        })
    }

    /// What drafting makes of plain decoding at the nearest load where both were measured; what is hoped for where there is
    /// none.
    fn ratio_near(&self, load: Load) -> Ratio {
        let ratio = |arms: &Arms| {
            let [plain, draft] = [arms.plain?, arms.draft?].map(|belief| belief.at(self.epochs).rate);
            Some(draft / plain.max(f64::MIN_POSITIVE))
        };
        let known = self.known.iter().filter_map(|(known, arms)| Some((known.distance(load), ratio(arms)?)));
        let nearest = known.min_by_key(|(distance, _)| *distance);
        nearest.map_or(Ratio { value: HOPE, spread: HOPE - 1.0 }, |(distance, value)| Ratio {
            value,
            spread: (BUCKET_SPREAD * f64::from(distance)).min(HOPE - 1.0),
        })
    }

    /// A draw from a normal distribution: twelve uniform numbers sum to one of variance 1 and mean 6.
    fn draw(&mut self, estimate: Estimate) -> f64 {
        let sum: f64 = (0..12).map(|_| self.random.unit()).sum();
        estimate.rate + (sum - 6.0) * estimate.error
    }
}

/// What drafting makes of plain decoding, and how sure that is, as a share of it.
struct Ratio {
    value: f64,
    spread: f64,
}

/// What each way is expected to make.
struct Expected {
    plain: Estimate,
    draft: Estimate,
}

#[cfg(test)]
mod tests;
