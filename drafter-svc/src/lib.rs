//! The drafter: a small model that grows candidate trees and drives the rounds of many sequences, for several targets.
//!
//! For every sequence it grows a tree, sends it down the sequence's `Verify` stream to the target, applies the outcome
//! and reports to the gateway. The model lives on one engine thread; sequences travel to it and back with each request, so
//! a sequence that is dropped takes everything it holds with it.
//!
//! Drafters of all kinds are served by one engine. What they differ in is how committed positions become known to them
//! (by their tokens, or by the target's hidden states), and whether rows may leave before the last layer. A trained
//! predictor may say of each draft how likely the target is to take it.

mod allowed;
mod config;
mod engine;
mod error;
mod held;
mod learned;
mod predictors;
mod proposer;
mod service;
mod slots;
mod status;
mod target_shares;
mod verifiers;

pub use allowed::{AllowedHost, AllowedHostError};
pub use config::{Args, Config, ConfigError, ConfigFault};
pub use engine::{LEVEL_ROWS_MAX, PASS_ROWS, RowShares, SequenceNumber, StepAsk};
pub use error::{DrafterError, PredictorError, PredictorFault};
pub use learned::{Circumstances, GateKey, Learned, SharedCosts, SharedGate};
pub use service::{Drafter, serve};
pub use slots::SlotShares;
pub use target_shares::{ShareError, TargetShare};
