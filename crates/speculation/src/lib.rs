//! The mathematics of speculative decoding, as pure functions: candidate trees and the policies
//! that grow them, acceptance, the cost model and the metrics.
//!
//! This crate knows no tensor, no network, no clock and no global randomness: logits arrive as
//! slices, durations and seeds as parameters, so the same inputs give the same outputs anywhere.
//!
//! A round reads from top to bottom:
//!
//! 1. [`parse_policy`] turns `pct,width=5` into a [`PolicySpec`]; a [`Grower`] drives it level by
//!    level over [`Candidates`] (from [`Sampling::rank`]) and ends with a [`Proposal`].
//! 2. The verifier parses the proposal's [`Tree`] and calls [`accept`], which walks it under the
//!    request's [`Sampling`].
//! 3. [`commit`] cuts the walk at a stop token or the length limit; [`Statistics`] and
//!    [`CostModel`] learn from the round.

mod accept;
mod candidates;
mod cost;
mod draft;
mod grower;
mod metrics;
mod ngram;
mod noise;
mod numeric;
mod outcome;
mod policy;
mod ranking;
mod sampling;
mod select;
mod support;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod tree;
mod visibility;

pub use accept::{Walk, accept, arg_max, walk, winner};
pub use candidates::{CandidateError, Candidates, Shape};
pub use cost::{CURVE_POINTS_MAX, CostModel, Costs, Curve};
pub use draft::{Draft, Expansion};
pub use grower::{GrowError, Grower, Proposal};
pub use metrics::{RoundRecord, Statistics};
pub use ngram::{NgramLimits, propose_ngram};
pub use noise::{Gumbel, Noise, gumbel};
pub use numeric::LogitsError;
pub use outcome::{Committed, FinishReason, commit};
pub use policy::{Limits, Policy, PolicyError, PolicySpec, RoundStart, parse_policy, policy_help, policy_names};
pub use ranking::rank_with_noise;
pub use sampling::{Sampling, SamplingError};
pub use tree::{MAX_TREE_NODES, Node, Tree, TreeBounds, TreeFault};
pub use visibility::visibility;

/// An index into the vocabulary shared by drafter and target.
pub type Token = u32;
