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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// The walk that accepts the whole chain 1, 2, 3 and adds 4.
    fn all_accepted() -> (Tree, Walk) {
        let mut tree = Tree::new();
        for (parent, token) in [(0, 1), (1, 2), (2, 3)] {
            tree.push(parent, token, 0.5).unwrap();
        }
        (tree, Walk { path: vec![1, 2, 3], bonus: 4 })
    }

    fn committed(stops: &[Token], remaining: usize) -> Committed {
        let (tree, walk) = all_accepted();
        commit(&tree, &walk, stops, remaining)
    }

    #[test]
    fn an_uncut_round_commits_the_path_and_the_bonus() {
        let expected = Committed { tokens: vec![1, 2, 3, 4], accepted: 3, finish: None };
        assert_eq!(committed(&[], 100), expected);
    }

    #[test]
    fn a_stop_token_is_the_last_one_committed() {
        let stop = Some(FinishReason::Stop);
        assert_eq!(committed(&[2], 100), Committed { tokens: vec![1, 2], accepted: 2, finish: stop });
        assert_eq!(committed(&[4, 9], 100), Committed { tokens: vec![1, 2, 3, 4], accepted: 3, finish: stop });
    }

    #[test]
    fn the_limit_cuts_and_what_is_cut_is_not_accepted() {
        let length = Some(FinishReason::Length);
        assert_eq!(committed(&[], 2), Committed { tokens: vec![1, 2], accepted: 2, finish: length });
        assert_eq!(committed(&[], 4), Committed { tokens: vec![1, 2, 3, 4], accepted: 3, finish: length });
        assert_eq!(committed(&[], 0), Committed { tokens: vec![], accepted: 0, finish: length });
    }

    #[test]
    fn a_stop_at_the_limit_is_a_stop_and_one_behind_it_is_not() {
        assert_eq!(committed(&[2], 2).finish, Some(FinishReason::Stop));
        assert_eq!(committed(&[3], 2).finish, Some(FinishReason::Length));
    }

    proptest! {
        #[test]
        fn a_cut_run_is_a_prefix_of_the_uncut_one(
            stops in prop::collection::vec(0_u32..6, 0..3), remaining in 0_usize..8
        ) {
            let cut = committed(&stops, remaining);
            let whole = committed(&[], usize::MAX).tokens;
            prop_assert!(whole.starts_with(&cut.tokens) && cut.tokens.len() <= remaining);
            prop_assert!(cut.accepted <= cut.tokens.len() && cut.tokens.len() <= cut.accepted + 1);
            prop_assert_eq!(cut.finish.is_none(), cut.tokens.len() == whole.len()
                && remaining > whole.len() && !stops.contains(&4));
        }
    }
}
