//! All that `espalier plan` answers.

use espalier_planner::{Report, Sizing, Worth};
use serde::Serialize;

/// All that is answered.
#[derive(Serialize)]
pub(super) struct Planned {
    /// What the scenario comes to as it is.
    pub(super) report: Report,
    /// The fewest services that keep to the goals, with drafters and without; absent where there are no goals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needed: Option<Needed>,
    /// What drafting is worth at other loads.
    pub(super) worth: Vec<Worth>,
}

/// The fewest services that keep to the goals; absent where no number that was tried does.
#[derive(Serialize)]
pub(super) struct Needed {
    pub(super) drafted: Option<Sizing>,
    pub(super) plain: Option<Sizing>,
}
