//! The mathematics of speculative decoding, as pure functions: candidate trees and the policies
//! that grow them, acceptance, the cost model and the metrics.
//!
//! This crate knows no tensor, no network, no clock and no global randomness: logits arrive as
//! slices, durations and seeds as parameters, so the same inputs give the same outputs anywhere.
//!
//! A round reads from top to bottom:
//!
//! 1. [`parse_policy`] turns `pct,width=5` into a [`PolicySpec`]; a [`Grower`] drives it level by
//!    level over [`Candidates`] (from [`Sampler::rank`]) and ends with a [`Proposal`].
//! 2. The verifier parses the [`CandidateTree`] and accepts what it can of it under the request's [`Sampling`], each
//!    node with the history of its own path: [`Sampler`]. Under [`Acceptance::Rejection`] the drafter draws
//!    ([`Grower::for_drawn`], [`Drawing`]) and the verifier tries what was drawn ([`accept_drawn`]).
//! 3. [`commit`] cuts the walk at a stop token or the length limit; [`Statistics`] and
//!    [`CostModel`] learn from the round. [`StopScanner`] cuts the text that the tokens make.

mod accept;
mod acceptance;
mod acceptance_watch;
mod best;
mod candidate_tree;
mod candidates;
mod constraint;
mod cost;
mod distribution;
mod draft;
mod drawing;
mod exits;
mod forced;
mod gain;
mod gate;
mod grower;
mod gumbel_max;
mod logprobs;
mod metrics;
mod ngram;
mod noise;
mod numeric;
mod outcome;
mod policy;
mod ranking;
mod rate;
mod sampler;
mod sampling;
mod select;
mod shape;
mod shaping;
mod split_mix;
mod stop_strings;
mod support;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod tree;
mod tuner;
mod uniforms;
mod visibility;

pub use accept::{
    AcceptError, DRAWN_TREES_MAX, DrawnTree, DrawnTreeError, LawError, RejectionLaw, Walk, accept, accept_by_rejection,
    accept_drawn, arg_max, round_law, walk, winner,
};
pub use acceptance::{Acceptance, UnknownAcceptance};
pub use acceptance_watch::{AcceptanceWatch, WatchEvent};
pub use best::{Best, BestOfPart};
pub use candidate_tree::CandidateTree;
pub use candidates::{CandidateError, Candidates};
pub use constraint::{
    CONSTRAINT_BYTES_MAX, Constraint, ConstraintKind, ConstraintLength, Restriction, RestrictionFault,
};
pub use cost::{CURVE_POINTS_MAX, CostModel, Costs, Curve, PassLoad, RoundTime};
pub use distribution::{Distribution, DistributionError, PROBABILITY_SUM_SLACK};
pub use draft::{Draft, Expansion};
pub use drawing::{DRAFT_TOKENS_MAX, DrawError, Drawing, draw_candidates, draw_distinct};
pub use exits::{EXITS_MAX, ExitError, ExitThresholds};
pub use forced::{FORCED_MAX, hang_forced, keep_allowed};
pub use gain::{GainRate, LinearCosts, best_rates, rate_bound};
pub use gate::{Gate, GateRound, Mode};
pub use grower::{GrowError, Grower, Proposal};
pub use gumbel_max::{CONTENDERS, Contenders, GumbelMax, SCORE_ERROR};
pub use logprobs::{LOGPROBS_MAX, Logprobs};
pub use metrics::{RoundRecord, Statistics};
pub use ngram::{NgramLimits, propose_ngram};
pub use noise::{Gumbel, Noise, gumbel};
pub use numeric::LogitsError;
pub use outcome::{Committed, FinishReason, commit};
pub use policy::{
    BetaBelief, CalibratedBelief, Experience, Limits, Policy, PolicyError, PolicySpec, PruningPolicy, RoundStart,
    drawn_policy_names, parse_policy, policy_help, policy_names,
};
pub use ranking::rank_with_noise;
pub use sampler::Sampler;
pub use sampling::{LOGIT_BIAS_MAX, LOGIT_BIASES_MAX, Sampling, SamplingError};
pub use shape::Shape;
pub use shaping::{ADDITIVE_PENALTY_RANGE, Penalties, REPETITION_PENALTY_RANGE, Shaping};
pub use split_mix::SplitMix64;
pub use stop_strings::{STOP_STRING_BYTES_MAX, STOP_STRINGS_MAX, StopScanner, StopStringError, StopStrings};
pub use tree::{MAX_TREE_NODES, Node, Tree, TreeBounds, TreeFault};
pub use tuner::{THRESHOLD_GRID, ThresholdTuner, TunerRun};
pub use uniforms::{Side, UniformError, Uniforms};
pub use visibility::visibility;

/// An index into the vocabulary shared by drafter and target.
pub type Token = u32;
