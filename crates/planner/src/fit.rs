//! Finds the parameters of the model of texts from what was measured.

use crate::draws::Draws;
use crate::scenario::{Acceptance, Measured};
use crate::text::{Parameters, log_odds, logistic};

/// Texts that a fit is made over, their length, and the seed that decides them: fits of the same figures are the same.
const TEXTS: usize = 400;
const LENGTH: usize = 96;
const SEED: u64 = 11;

/// What is believed where too few depths were measured to tell.
const USUAL: [f64; 3] = [0.8, 1.5, 0.4];

/// How much being off what is usual counts, beside being off what was measured.
const CAUTION: f64 = 1e-5;

/// What a second candidate is supposed to be worth where it was not measured.
const RUNNER_UP: f64 = 0.5;

/// The parameters of what was given or measured.
pub(crate) fn parameters(acceptance: &Acceptance) -> Parameters {
    match acceptance {
        &Acceptance::Model { favourite, spread, persistence, runner_up } => {
            Parameters { favourite, spread, persistence, runner_up }
        }
        Acceptance::Measured(measured) => fit(measured),
    }
}

fn fit(measured: &Measured) -> Parameters {
    let texts = Texts::new(measured.by_depth.len());
    let usual = [log_odds(USUAL[0]), USUAL[1], USUAL[2]];
    let loss = |at: &[f64; 3]| {
        let found = texts.survival(at);
        let off: f64 = found.iter().zip(&measured.by_depth).map(|(found, share)| (found - share).powi(2)).sum();
        off + CAUTION * at.iter().zip(usual).map(|(at, usual)| (at - usual).powi(2)).sum::<f64>()
    };
    let [middle, spread, persistence] = descend(usual, loss);
    Parameters { favourite: logistic(middle), spread, persistence, runner_up: runner_up(&measured.by_width) }
}

/// Looks about in steps that become smaller.
fn descend(mut at: [f64; 3], loss: impl Fn(&[f64; 3]) -> f64) -> [f64; 3] {
    let (mut best, mut step) = (loss(&at), 0.8);
    while step > 5e-3 {
        let steps = (0..3).flat_map(|i| [(i, step), (i, -step)]);
        let tried = steps.map(|(i, by)| {
            let mut tried = at;
            tried[i] += by;
            let tried = [tried[0].clamp(-6.0, 6.0), tried[1].clamp(0.0, 8.0), tried[2].clamp(0.0, 0.99)];
            (loss(&tried), tried)
        });
        match tried.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(found, _)| *found < best) {
            Some((found, tried)) => (best, at) = (found, tried),
            None => step /= 2.0,
        }
    }
    at
}

/// Draws that all parameters are tried on: of each position a normal and a uniform one.
struct Texts {
    depth: usize,
    draws: Vec<(f64, f64)>,
}

impl Texts {
    fn new(depth: usize) -> Self {
        let mut draws = Draws::new(SEED);
        Self { depth, draws: (0..TEXTS * LENGTH).map(|_| (draws.normal(), draws.unit())).collect() }
    }

    /// The share of rounds that accept a chain up to each depth. Rounds follow each other: where the last one failed the
    /// text is hard, and the next begins.
    fn survival(&self, at: &[f64; 3]) -> Vec<f64> {
        let [middle, spread, persistence] = *at;
        let fresh = libm::sqrt(1.0 - persistence * persistence);
        let (mut rounds, mut counts) = (0.0, vec![0.0; self.depth]);
        for draws in self.draws.chunks(LENGTH) {
            let (mut difficulty, mut accepted) = (draws[0].0, 0);
            for &(normal, unit) in draws {
                difficulty = persistence * difficulty + fresh * normal;
                if accepted < self.depth && unit < logistic(middle + spread * difficulty) {
                    counts[accepted] += 1.0;
                    accepted += 1;
                } else {
                    // The target's own token ends the round.
                    (rounds, accepted) = (rounds + 1.0, 0);
                }
            }
        }
        counts.iter().map(|count| count / rounds).collect()
    }
}

/// The share of a second candidate, from how often one of so many was right.
fn runner_up(by_width: &[(usize, f64)]) -> f64 {
    let Some(&(narrow, first)) = by_width.iter().min_by_key(|width| width.0) else { return RUNNER_UP };
    let wider = by_width.iter().filter(|width| width.0 > narrow && width.1 < 1.0 && first < 1.0);
    let each: Vec<f64> =
        wider.map(|width| libm::log((1.0 - width.1) / (1.0 - first)) / (width.0 - narrow) as f64).collect();
    if each.is_empty() {
        return RUNNER_UP;
    }
    (1.0 - libm::exp(each.iter().sum::<f64>() / each.len() as f64)).clamp(0.0, 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_made_the_figures_are_found_again_as_far_as_the_figures_tell() {
        let made = Texts::new(8).survival(&[log_odds(0.85), 2.0, 0.5]);
        let by_width = vec![(1, 0.7), (2, 1.0 - 0.3 * 0.6), (4, 1.0 - 0.3 * 0.216)];
        let found = fit(&Measured { by_depth: made.clone(), by_width });
        let again = Texts::new(8).survival(&[log_odds(found.favourite), found.spread, found.persistence]);
        assert!(made.iter().zip(&again).all(|(made, again)| (made - again).abs() < 0.02), "{made:?} {again:?}");
        assert!((found.runner_up - 0.4).abs() < 1e-9);
    }

    #[test]
    fn of_one_depth_the_mean_is_kept_and_the_rest_is_as_usual() {
        let found = fit(&Measured { by_depth: vec![0.6], by_width: vec![] });
        let again = Texts::new(1).survival(&[log_odds(found.favourite), found.spread, found.persistence]);
        assert!((again[0] - 0.6).abs() < 0.02, "{again:?}");
        assert_eq!(found.runner_up, RUNNER_UP);
    }

    #[test]
    fn given_parameters_are_taken_as_they_are() {
        let given = Acceptance::Model { favourite: 0.6, spread: 1.0, persistence: 0.2, runner_up: 0.3 };
        let expected = Parameters { favourite: 0.6, spread: 1.0, persistence: 0.2, runner_up: 0.3 };
        assert_eq!(parameters(&given), expected);
    }
}
