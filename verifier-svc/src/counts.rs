//! What the engine counts.

use std::sync::Arc;

use espalier_proto::{PassCounters, RoundCounters};
use espalier_service_kit::Gauge;

/// What the engine counts: its thread adds and never waits, anybody reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) passes: Arc<PassCounters>,
    pub(crate) rounds: Arc<RoundCounters>,
    /// Trees handed in and not answered yet.
    pub(crate) waiting: Gauge,
}
