//! How many tokens prompts and answers have.

use serde::{Deserialize, Serialize};

use super::error::{ScenarioError, some, within};
use crate::draws::Draws;

/// The most tokens of a prompt or an answer.
pub const TOKENS_MAX: usize = 1 << 20;

/// A distribution of lengths, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Lengths {
    /// All are as long.
    Fixed(usize),
    /// From the first to the second, each as likely.
    Uniform(usize, usize),
    /// One of these, each as likely: lengths that were measured.
    Values(Vec<usize>),
    /// The logarithm is normal, which lengths of real texts are nearly.
    Lognormal {
        /// Half are longer.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// None is longer.
        max: usize,
    },
}

impl Lengths {
    /// Refuses lengths out of their range.
    pub(crate) fn check(&self, field: &str) -> Result<(), ScenarioError> {
        let token = |found: usize| within(|| field.to_owned(), found as f64, 1.0..=TOKENS_MAX as f64);
        match self {
            Self::Fixed(all) => token(*all),
            Self::Uniform(least, most) => {
                token(*least)?;
                within(|| field.to_owned(), *most as f64, *least as f64..=TOKENS_MAX as f64)
            }
            Self::Values(values) => {
                some(|| field.to_owned(), values)?;
                values.iter().try_for_each(|&one| token(one))
            }
            Self::Lognormal { median, sigma, max } => {
                within(|| format!("{field}.median"), *median, 1.0..=TOKENS_MAX as f64)?;
                within(|| format!("{field}.sigma"), *sigma, 0.0..=4.0)?;
                token(*max)
            }
        }
    }

    /// The length of one.
    pub(crate) fn draw(&self, draws: &mut Draws) -> usize {
        match self {
            Self::Fixed(all) => *all,
            Self::Uniform(least, most) => least + draws.below(most - least + 1),
            Self::Values(values) => values.get(draws.below(values.len())).copied().unwrap_or(1),
            Self::Lognormal { median, sigma, max } => {
                let drawn = median * libm::exp(sigma * draws.normal());
                (drawn.round() as usize).clamp(1, *max)
            }
        }
    }

    /// The mean length.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(all) => *all as f64,
            Self::Uniform(least, most) => (least + most) as f64 / 2.0,
            Self::Values(values) => values.iter().sum::<usize>() as f64 / values.len().max(1) as f64,
            Self::Lognormal { median, sigma, max } => (median * libm::exp(sigma * sigma / 2.0)).min(*max as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_about_their_mean_and_within_their_bounds() {
        let mut draws = Draws::new(5);
        let lognormal = Lengths::Lognormal { median: 100.0, sigma: 0.5, max: 2000 };
        for lengths in [Lengths::Fixed(7), Lengths::Uniform(3, 9), Lengths::Values(vec![1, 5]), lognormal] {
            let drawn: Vec<usize> = (0..20_000).map(|_| lengths.draw(&mut draws)).collect();
            let mean = drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
            assert!((mean / lengths.mean() - 1.0).abs() < 0.02, "{lengths:?}: {mean}");
            assert!(drawn.iter().all(|&one| (1..=2000).contains(&one)));
        }
    }

    #[test]
    fn what_is_no_length_is_refused_with_its_field() {
        let refused = |lengths: Lengths| lengths.check("answer").map_err(|error| error.to_string());
        assert_eq!(refused(Lengths::Fixed(0)), Err("`answer` is 0; it must be 1 to 1048576".to_owned()));
        assert_eq!(refused(Lengths::Uniform(9, 3)), Err("`answer` is 3; it must be 9 to 1048576".to_owned()));
        assert_eq!(refused(Lengths::Values(vec![])), Err("`answer` is empty; it must name one at least".to_owned()));
        assert!(refused(Lengths::Lognormal { median: 10.0, sigma: 9.0, max: 20 }).is_err());
    }
}
