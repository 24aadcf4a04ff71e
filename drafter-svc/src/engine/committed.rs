//! How committed positions become known to a draft model.

use espalier_model::{DraftKind, DraftModel};
use espalier_proto::{HiddenStates, Outcome};
use espalier_speculation::Token;

use crate::error::SequenceError;

/// What a draft model reads of the positions before the root.
pub(crate) enum CommittedState {
    /// Their tokens.
    Tokens,
    /// The target's hidden states, of which these have come and have not been read.
    States(HiddenStates),
    /// Their tokens, and beside them the states: the first round has the tokens alone.
    TokensAndStates(HiddenStates),
}

impl CommittedState {
    /// What `model` reads; nothing has come yet.
    pub(crate) fn of(model: &DraftModel) -> Self {
        let DraftKind::Edd { tokens_beside_states, .. } = model.kind() else { return Self::Tokens };
        let nothing = HiddenStates::new(0, model.decoder().config().hidden);
        if *tokens_beside_states { Self::TokensAndStates(nothing) } else { Self::States(nothing) }
    }

    /// The tokens, of those that are `committed`, whose keys and values may come from another sequence: all but the
    /// root's, which is run anew each round, if they are known by their tokens.
    pub(crate) fn shareable<'t>(model: &DraftModel, committed: &'t [Token]) -> &'t [Token] {
        match (Self::of(model), committed.split_last()) {
            (Self::Tokens, Some((_, known))) => known,
            _ => &[],
        }
    }

    /// Whether enough has come to know the first `positions`.
    pub(crate) fn reaches(&self, positions: usize) -> bool {
        match self {
            Self::Tokens | Self::TokensAndStates(_) => true,
            Self::States(unread) => unread.end() == positions,
        }
    }

    /// How many positions have been read by their states; none if they are not read so.
    pub(crate) fn stated(&self) -> Option<usize> {
        match self {
            Self::Tokens => None,
            Self::States(unread) | Self::TokensAndStates(unread) => Some(unread.first()),
        }
    }

    /// Positions whose states have come and have not been read.
    pub(crate) fn unread_rows(&self) -> usize {
        match self {
            Self::Tokens => 0,
            Self::States(unread) | Self::TokensAndStates(unread) => unread.rows(),
        }
    }

    /// States to read next, at most `rows`, and whether there are more of them.
    pub(crate) fn unread_states(&self, rows: usize) -> (Option<HiddenStates>, bool) {
        match self {
            Self::States(unread) | Self::TokensAndStates(unread) if unread.rows() > 0 => {
                (Some(unread.front(rows)), unread.rows() > rows)
            }
            _ => (None, false),
        }
    }

    /// The first so many states have been read.
    pub(crate) fn read(&mut self, rows: usize) {
        if let Self::States(unread) | Self::TokensAndStates(unread) = self {
            drop(unread.split_front(rows));
        }
    }

    /// Of the `committed` tokens, the last of which is the root, those to run when `known` positions are in the cache.
    pub(crate) fn unread_tokens<'t>(&self, committed: &'t [Token], known: usize) -> &'t [Token] {
        let root = committed.len().saturating_sub(1);
        let first = match self {
            Self::Tokens => known,
            // States that have come are read first, and stand for the tokens of their positions.
            Self::TokensAndStates(unread) if unread.end() < root => known.max(unread.end()),
            Self::States(_) | Self::TokensAndStates(_) => root,
        };
        committed.get(first..).unwrap_or_default()
    }

    /// Takes what an outcome tells of the positions that it commits; where it may tell that later, nothing.
    pub(crate) fn commit(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        let (Self::States(unread) | Self::TokensAndStates(unread)) = self else { return Ok(()) };
        let Some(states) = outcome.states.clone() else { return Ok(()) };
        unread.append(states).map_err(|fault| SequenceError::States { round: outcome.round, fault })
    }
}
