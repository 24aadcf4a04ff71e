//! Who asks, and how often.

use serde::{Deserialize, Serialize};

use super::error::{ScenarioError, within};

/// The most seconds that are simulated.
const SECONDS_MAX: f64 = 1e6;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Clients of which each asks again once it has its answer.
    Closed(Closed),
    /// Requests that come whatever becomes of those before: each target's `rate` a second.
    Open(Open),
}

/// Clients of a closed loop. Targets are asked in turns, by their rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// How many.
    pub clients: usize,
    /// Requests of all of them together; until the time is over if absent.
    #[serde(default)]
    pub requests: Option<usize>,
    /// When clients stop to ask; never if absent.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// They begin over so many seconds; if absent each begins when the one before it has its first token, as those of
    /// `espalier bench load`.
    #[serde(default)]
    pub start_seconds: Option<f64>,
    /// What each waits after an answer.
    #[serde(default)]
    pub think_ms: f64,
    /// Requests that came before count for nothing.
    #[serde(default)]
    pub warmup_seconds: f64,
}

/// Requests that come at random, independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// For how long.
    pub seconds: f64,
    /// Requests that came before count for nothing.
    #[serde(default)]
    pub warmup_seconds: f64,
}

impl Load {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        match self {
            Self::Closed(closed) => closed.check(),
            Self::Open(open) => {
                within(|| "load.open.seconds".to_owned(), open.seconds, 1e-3..=SECONDS_MAX)?;
                within(|| "load.open.warmup_seconds".to_owned(), open.warmup_seconds, 0.0..=open.seconds)
            }
        }
    }

    /// When no request comes any more, where that is known.
    pub(crate) fn seconds(&self) -> Option<f64> {
        match self {
            Self::Closed(closed) => closed.seconds,
            Self::Open(open) => Some(open.seconds),
        }
    }

    /// Until when nothing counts.
    pub(crate) fn warmup_seconds(&self) -> f64 {
        match self {
            Self::Closed(closed) => closed.warmup_seconds,
            Self::Open(open) => open.warmup_seconds,
        }
    }
}

impl Closed {
    fn check(&self) -> Result<(), ScenarioError> {
        let field = |name: &str| format!("load.closed.{name}");
        within(|| field("clients"), self.clients as f64, 1.0..=1e7)?;
        if let Some(requests) = self.requests {
            within(|| field("requests"), requests as f64, 1.0..=1e9)?;
        }
        // Without an end they would ask for ever.
        let seconds = self.seconds.unwrap_or(if self.requests.is_some() { SECONDS_MAX } else { f64::INFINITY });
        within(|| field("seconds"), seconds, 1e-3..=SECONDS_MAX)?;
        within(|| field("start_seconds"), self.start_seconds.unwrap_or(0.0), 0.0..=SECONDS_MAX)?;
        within(|| field("think_ms"), self.think_ms, 0.0..=1e9)?;
        within(|| field("warmup_seconds"), self.warmup_seconds, 0.0..=seconds)
    }
}
