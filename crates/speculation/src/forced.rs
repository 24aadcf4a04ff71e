//! Drafts for a text that is held to a constraint: what it allows of them, and what must follow them.

use crate::{Restriction, Token, Tree};

/// Tokens that are hung behind a tree at most because they must follow: each is a row of the target's pass, and it is not
/// sure that what they follow is accepted.
pub const FORCED_MAX: usize = 24;

/// The nodes of a tree that may follow, each with all that is above it.
pub fn keep_allowed(tree: &Tree, restriction: &mut dyn Restriction) -> Tree {
    let mut kept = Tree::new();
    // Where each node of `tree` is in `kept`, and its path.
    let mut places: Vec<Option<(usize, Vec<Token>)>> = vec![Some((0, Vec::new()))];
    for node in tree.nodes() {
        let above = places.get(node.parent).cloned().flatten();
        let above = above.filter(|(_, path)| restriction.allows(path, node.token));
        places.push(above.and_then(|(parent, mut path)| {
            path.push(node.token);
            Some((kept.push(parent, node.token, node.prob).ok()?, path))
        }));
    }
    kept
}

/// Hangs behind the most probable leaf of a tree what must follow there: `forced` is given the path to it and how many
/// tokens there is room for. Gives how many nodes that were.
pub fn hang_forced(
    tree: &mut Tree,
    max_nodes: usize,
    max_depth: usize,
    forced: impl FnOnce(&[Token], usize) -> Vec<Token>,
) -> usize {
    let (mut path, mut leaf) = (Vec::new(), 0);
    while let Some(child) = tree.best_child(leaf) {
        path.extend(tree.node(child).map(|node| node.token));
        leaf = child;
    }
    let room = max_nodes.saturating_sub(tree.len()).min(max_depth.saturating_sub(path.len())).min(FORCED_MAX);
    let tokens = if room == 0 { Vec::new() } else { forced(&path, room) };
    let before = tree.len();
    for token in tokens.into_iter().take(room) {
        let Ok(node) = tree.push(leaf, token, 1.0) else { break };
        leaf = node;
    }
    tree.len() - before
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::RestrictionFault;

    /// Tokens must rise by one, from that of the root, which is 0, to 5.
    #[derive(Debug)]
    struct Rising;

    impl Restriction for Rising {
        fn restrict(&mut self, _: &[Token], _: &mut [f32]) -> Result<(), RestrictionFault> {
            unreachable!("nothing is decided here")
        }

        fn allows(&mut self, path: &[Token], token: Token) -> bool {
            token == path.last().map_or(1, |last| last + 1) && token <= 5
        }

        fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token> {
            (path.last().map_or(1, |last| last + 1)..=5).take(most).collect()
        }

        fn push(&mut self, _: &[Token]) {}
    }

    /// Parent, token and probability of each node.
    fn tree(nodes: &[(usize, Token, f64)]) -> Tree {
        let mut tree = Tree::new();
        for &(parent, token, prob) in nodes {
            tree.push(parent, token, prob).unwrap();
        }
        tree
    }

    fn nodes(tree: &Tree) -> Vec<(usize, Token, f64)> {
        tree.nodes().iter().map(|node| (node.parent, node.token, node.prob)).collect()
    }

    #[test]
    fn what_may_not_follow_goes_with_all_that_is_below_it() {
        let guesses = tree(&[(0, 7, 0.5), (0, 1, 0.25), (1, 1, 0.5), (2, 2, 0.75), (4, 9, 0.5), (4, 3, 0.5)]);
        assert_eq!(nodes(&keep_allowed(&guesses, &mut Rising)), [(0, 1, 0.25), (1, 2, 0.75), (2, 3, 0.5)]);
    }

    #[test]
    fn what_must_follow_hangs_behind_the_most_probable_leaf() {
        let hung = |mut guesses: Tree, max_nodes, max_depth| {
            let count = hang_forced(&mut guesses, max_nodes, max_depth, |path, most| Rising.forced(path, most));
            (count, nodes(&guesses))
        };
        assert_eq!(hung(Tree::new(), 2, 9), (2, vec![(0, 1, 1.0), (1, 2, 1.0)]));
        let guesses = || tree(&[(0, 3, 0.5), (0, 2, 0.25)]);
        assert_eq!(hung(guesses(), 9, 9).1[2..], [(1, 4, 1.0), (3, 5, 1.0)]);
        assert_eq!(hung(guesses(), 9, 2).1[2..], [(1, 4, 1.0)]);
        assert_eq!((hung(guesses(), 2, 9).0, hung(guesses(), 9, 1).0), (0, 0));
    }
}
