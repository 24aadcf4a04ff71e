//! How much of what is drafted a target accepts, as it is given or measured.

use serde::{Deserialize, Serialize};

use super::error::{ScenarioError, within};

/// The most depths that are told of.
const DEPTHS_MAX: f64 = 64.0;

/// The parameters of the model of `text`, or what to find them from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Acceptance {
    /// The parameters.
    Model {
        /// Median chance of the drafter's favourite.
        favourite: f64,
        /// Standard deviation of the logarithm of its odds: how much positions differ.
        spread: f64,
        /// Correlation of that with the next position's: how long easy passages are.
        persistence: f64,
        /// Of what the favourite leaves, the share of the second candidate; of what that leaves, the third's, and so on.
        runner_up: f64,
    },
    /// What was measured, from which the parameters are found.
    Measured(Measured),
}

/// What `espalier bench policies` counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The share of rounds that accepted the first token of a chain, the first two, the first three, …: `accepted_by_depth`
    /// of a policy `constant,k=…` over `rounds`.
    pub by_depth: Vec<f64>,
    /// Numbers of candidates, and the share of rounds that accepted one of so many: `tau` less 1 of policies
    /// `vanilla-tree,width=…,depth=1`. With less than two of them a second candidate is supposed to be right half as often as
    /// the first is wrong.
    #[serde(default)]
    pub by_width: Vec<(usize, f64)>,
}

impl Acceptance {
    pub(super) fn check(&self, field: &str) -> Result<(), ScenarioError> {
        let at = |name: &str| format!("{field}.{name}");
        match self {
            Self::Model { favourite, spread, persistence, runner_up } => {
                within(|| at("model.favourite"), *favourite, 0.001..=0.999)?;
                within(|| at("model.spread"), *spread, 0.0..=10.0)?;
                within(|| at("model.persistence"), *persistence, 0.0..=0.999)?;
                within(|| at("model.runner_up"), *runner_up, 0.0..=0.999)
            }
            Self::Measured(Measured { by_depth, by_width }) => {
                let share = |name: &str, share: f64| within(|| at(name), share, 0.0..=1.0);
                within(|| at("measured.by_depth"), by_depth.len() as f64, 1.0..=DEPTHS_MAX)?;
                by_depth.iter().try_for_each(|&one| share("measured.by_depth", one))?;
                by_width.iter().try_for_each(|width| {
                    within(|| at("measured.by_width"), width.0 as f64, 1.0..=1024.0)?;
                    share("measured.by_width", width.1)
                })
            }
        }
    }
}
