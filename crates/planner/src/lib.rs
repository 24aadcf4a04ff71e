//! How many drafters and verifiers a load needs: a seeded simulation of a whole system.
//!
//! What Espalier decides is decided by its own rules: policies, gate, cost model, acceptance limits, balancing, admission,
//! routes, slots, shares, credit, and when a pass begins. What takes time is modelled: a pass by a curve of its rows, a
//! message by its way, a text by [a model of four numbers](Acceptance). Time and chance are given: the same scenario and seed
//! give the same report anywhere.

mod calibrate;
mod counts;
mod drafter;
mod drafting;
mod draws;
mod fit;
mod handler;
mod message;
mod queue;
mod report;
mod request;
mod scenario;
mod simulation;
mod sizing;
mod tally;
mod team;
mod text;
mod time;
mod verifier;
mod who;
mod world;

pub use calibrate::{Calibration, calibrations};
pub use report::{Report, ServiceReport, Spread, TargetReport};
pub use scenario::{
    Acceptance, Closed, Failure, Gateways, Goals, Lengths, Load, Machine, Measured, Network, Open, Own, Pool,
    SERVICES_MAX, Scenario, ScenarioError, Shared, TOKENS_MAX, Target,
};

pub use simulation::simulate;
pub use sizing::{Chance, Sizing, Worth};
