//! From a walk to the tokens a round commits.

use crate::{Token, Tree, Walk};

/// Why a sequence ends with this round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// It committed the end-of-sequence or another stop token.
    Stop,
    /// It reached its token limit.
    Length,
}

/// What one round adds to the committed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The tokens, in order. A stop token that ended the sequence is the last of them.
    pub tokens: Vec<Token>,
    /// How many of `tokens`, from the first, were drafted; those cut off do not count. The rest,
    /// one token or none, is the target's own.
    pub accepted: usize,
    /// Set if the sequence is finished.
    pub finish: Option<FinishReason>,
}

/// Commits the path of `walk` and its bonus, cut right after the first of `stops` or at
/// `remaining` tokens, whichever comes first; at the same token, the stop is the reason.
///
/// With `remaining` 0 nothing is committed and the reason is [`FinishReason::Length`]. Path
/// entries that are no nodes of `tree` are left out; [`crate::walk`] makes none.
pub fn commit(tree: &Tree, walk: &Walk, stops: &[Token], remaining: usize) -> Committed {
    let path = walk.path.iter().filter_map(|&id| tree.node(id));
    let drafted: Vec<Token> = path.map(|node| node.token).collect();
    let run = drafted.iter().copied().chain([walk.bonus]);
    let mut tokens: Vec<Token> = run.take(remaining).collect();
    let stop = tokens.iter().position(|token| stops.contains(token));
    if let Some(stop) = stop {
        tokens.truncate(stop + 1);
    }
    let finish = match stop {
        Some(_) => Some(FinishReason::Stop),
        None => (tokens.len() == remaining).then_some(FinishReason::Length),
    };
    Committed { accepted: drafted.len().min(tokens.len()), tokens, finish }
}
