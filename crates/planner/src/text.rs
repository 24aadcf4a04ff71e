//! What the target will say, as far as a draft model sees it coming.
//!
//! At position `t` of a text the draft model gives its favourite the probability `c_t`, with
//!
//! ```text
//! ln(c_t / (1 - c_t)) = ln(f / (1 - f)) + s z_t        z_(t+1) = r z_t + sqrt(1 - r^2) n_t
//! ```
//!
//! where `f` is the median chance (`favourite`), `s` the `spread`, `r` the `persistence` and the `n_t` are independent draws
//! from a normal distribution: logit-normal chances whose difficulty is an autoregressive process, as passages of a text are
//! easy or hard. The target's token is the favourite with chance `c_t`: the model is calibrated, and what a policy sees is as
//! good as what it could know. Otherwise it is the second candidate with chance `g` (`runner_up`), or else the third with the
//! same chance, and so on; the draft model gives them these chances as well. Tokens are numbered by rank.
//!
//! A chain of `d` tokens is accepted with chance `S_d = E[c_1 c_2 ... c_d]`, which is what `accepted_by_depth` of a chain
//! counts: the three parameters are found from that by least squares. `w` candidates hold the target's token with chance
//! `1 - E[1 - c] (1 - g)^(w - 1)`, from which `g` is found.

use std::collections::VecDeque;

use espalier_speculation::Candidates;

use crate::draws::Draws;

/// Chances that are told apart.
const BINS: usize = 64;

/// How many standard deviations they reach.
const REACH: f64 = 4.0;

/// Candidates that a distribution is made of.
const RANKS: usize = 24;

/// What is known of a target and who drafts for it.
#[derive(Debug, Clone)]
pub(crate) struct TextModel {
    parameters: Parameters,
    /// The chance of each bin's favourite, and what the draft model says there.
    bins: Vec<Bin>,
}

/// The parameters of the module's model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) favourite: f64,
    pub(crate) spread: f64,
    pub(crate) persistence: f64,
    pub(crate) runner_up: f64,
}

#[derive(Debug, Clone)]
struct Bin {
    chance: f64,
    candidates: Candidates,
}

/// One position: how sure the draft model is there, and the rank of the target's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ahead {
    bin: u8,
    rank: u8,
}

impl Ahead {
    /// The target's token.
    pub(crate) fn token(self) -> u32 {
        u32::from(self.rank)
    }
}

/// The text of one sequence from its last committed token on.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    draws: Draws,
    /// Of the position after those that are known.
    difficulty: f64,
    known: VecDeque<Ahead>,
}

/// The number of these odds' logarithm as a chance.
pub(crate) fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-log_odds))
}

pub(crate) fn log_odds(chance: f64) -> f64 {
    libm::log(chance / (1.0 - chance))
}

impl TextModel {
    /// For a policy that asks for so many candidates of each node.
    pub(crate) fn new(parameters: Parameters, width: usize) -> Self {
        let bins = (0..BINS).map(|bin| Bin::new(&parameters, bin, width)).collect();
        Self { parameters, bins }
    }

    /// What the draft model says at a position where the text is still the target's.
    pub(crate) fn candidates(&self, at: Ahead) -> Candidates {
        self.bins[usize::from(at.bin)].candidates.clone()
    }

    /// What it says after some other text, of which nothing comes; `bits` decide.
    pub(crate) fn elsewhere(&self, bits: u64) -> Candidates {
        let difficulty = Draws::new(bits).normal();
        self.bins[bin_of(difficulty)].candidates.clone()
    }

    fn draw(&self, draws: &mut Draws, difficulty: f64) -> Ahead {
        let bin = bin_of(difficulty);
        let rank = if draws.unit() < self.bins[bin].chance { 0 } else { 1 + self.runner_up(draws) };
        Ahead { bin: bin as u8, rank }
    }

    fn runner_up(&self, draws: &mut Draws) -> u8 {
        let failed = libm::log(1.0 - draws.unit()) / libm::log(1.0 - self.parameters.runner_up);
        failed.clamp(0.0, 250.0) as u8
    }

    /// The difficulty so many positions further on.
    fn after(&self, draws: &mut Draws, difficulty: f64, positions: usize) -> f64 {
        let kept = libm::pow(self.parameters.persistence, positions as f64);
        kept * difficulty + libm::sqrt(1.0 - kept * kept) * draws.normal()
    }
}

impl Bin {
    fn new(parameters: &Parameters, bin: usize, width: usize) -> Self {
        let difficulty = REACH * (2.0 * (bin as f64 + 0.5) / BINS as f64 - 1.0);
        let chance = logistic(log_odds(parameters.favourite) + parameters.spread * difficulty);
        let left = 1.0 - chance;
        let others = (0..RANKS).scan(left, |left, _| {
            let prob = *left * parameters.runner_up;
            *left -= prob;
            Some(prob)
        });
        // A favourite that is less likely than the second is none: the ranks stay, and the chances are in order.
        let probs: Vec<f64> = [chance].into_iter().chain(others).collect();
        let candidates = Candidates::from_probs(&probs, width);
        Self { chance, candidates: candidates.unwrap_or_else(|_| unreachable_probs()) }
    }
}

/// Probabilities are made of numbers that have been checked.
fn unreachable_probs() -> Candidates {
    Candidates::from_probs(&[1.0], 1).unwrap_or_else(|_| unreachable!("1 is a probability"))
}

fn bin_of(difficulty: f64) -> usize {
    let share = (difficulty / REACH + 1.0) / 2.0;
    ((share * BINS as f64).max(0.0) as usize).min(BINS - 1)
}

impl Text {
    /// A text of which nothing is known.
    pub(crate) fn new(mut draws: Draws) -> Self {
        let difficulty = draws.normal();
        Self { draws, difficulty, known: VecDeque::new() }
    }

    /// The position so many after the last committed token's next.
    pub(crate) fn ahead(&mut self, model: &TextModel, positions: usize) -> Ahead {
        while self.known.len() <= positions {
            let next = model.draw(&mut self.draws, self.difficulty);
            self.difficulty = model.after(&mut self.draws, self.difficulty, 1);
            self.known.push_back(next);
        }
        self.known[positions]
    }

    /// So many tokens are committed.
    pub(crate) fn advance(&mut self, model: &TextModel, tokens: usize) {
        let unknown = tokens.saturating_sub(self.known.len());
        self.known.drain(..tokens - unknown);
        if unknown > 0 {
            self.difficulty = model.after(&mut self.draws, self.difficulty, unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: Parameters = Parameters { favourite: 0.7, spread: 1.5, persistence: 0.4, runner_up: 0.4 };

    fn expected_chance() -> f64 {
        let chance = |i: i32| {
            let z = f64::from(i) / 50.0;
            (libm::exp(-z * z / 2.0), logistic(log_odds(0.7) + 1.5 * z))
        };
        let (weights, sum) =
            (-300..300).map(chance).fold((0.0, 0.0), |(w, s), (weight, c)| (w + weight, s + weight * c));
        sum / weights
    }

    #[test]
    fn the_favourite_is_right_as_often_as_it_says_and_the_second_as_often_as_is_left() {
        let model = TextModel::new(PARAMETERS, 5);
        let mut text = Text::new(Draws::new(1));
        let (mut right, mut second, mut said, mut sure) = (0.0, 0.0, 0.0, (0.0, 0.0));
        const COUNT: usize = 100_000;
        for _ in 0..COUNT {
            let at = text.ahead(&model, 0);
            let chance = model.bins[usize::from(at.bin)].chance;
            said += chance;
            right += f64::from(u8::from(at.rank == 0));
            second += f64::from(u8::from(at.rank == 1));
            if chance > 0.9 {
                sure = (sure.0 + 1.0, sure.1 + f64::from(u8::from(at.rank == 0)));
            }
            text.advance(&model, 1);
        }
        let count = COUNT as f64;
        assert!((right / said - 1.0).abs() < 0.01 && (right / count - expected_chance()).abs() < 0.01);
        assert!((second / (count - right) - 0.4).abs() < 0.01);
        assert!(sure.1 / sure.0 > 0.93, "who is sure is right more often: {sure:?}");
    }

    #[test]
    fn what_is_skipped_is_never_drawn_and_what_was_seen_stays() {
        let model = TextModel::new(PARAMETERS, 5);
        let mut text = Text::new(Draws::new(2));
        let seen: Vec<Ahead> = (0..5).map(|i| text.ahead(&model, i)).collect();
        text.advance(&model, 2);
        assert_eq!((0..3).map(|i| text.ahead(&model, i)).collect::<Vec<_>>(), seen[2..]);
        text.advance(&model, 100);
        assert!(text.known.is_empty());
    }

    #[test]
    fn candidates_are_in_the_order_of_their_chances_and_as_many_as_asked_for() {
        let model = TextModel::new(PARAMETERS, 5);
        for bits in 0..200 {
            let candidates = model.elsewhere(bits);
            assert_eq!(candidates.tokens().len(), 5);
            assert!(candidates.tokens().is_sorted_by(|a, b| a.1 >= b.1));
        }
    }
}
