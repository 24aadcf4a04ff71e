//! How sequences share rows of turns that have not enough for all.

use espalier_service_kit::Shares;

use super::command::Key;

/// What sequences had, of rounds and of prompts apart: these come second.
#[derive(Default)]
pub(super) struct RowShares {
    pub(super) rounds: Shares<Key>,
    pub(super) prompts: Shares<Key>,
}
