//! The walk down a verified tree: one for every way of deciding.

use crate::{LogitsError, Sampler, Token, Tree};

/// How far the target agreed with a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The accepted nodes, from the root (excluded) downwards.
    pub path: Vec<usize>,
    /// The target's own token after the last accepted node.
    pub bonus: Token,
}

/// Follows the target's decisions from the root: while a child carries the decided token, go
/// there; the first token that no child carries is the bonus.
///
/// `decide` is asked once for each node on the way, the root (0) first, and for no other.
///
/// # Errors
/// The first error of `decide`.
///
/// # Examples
/// ```
/// use espalier_speculation::{Tree, walk};
/// let mut tree = Tree::new();
/// let first = tree.push(0, 10, 0.5)?;
/// let walk = walk(&tree, |node| Ok::<_, ()>(if node == 0 { 10 } else { 99 })).unwrap();
/// assert_eq!((walk.path, walk.bonus), (vec![first], 99));
/// # Ok::<_, espalier_speculation::TreeFault>(())
/// ```
pub fn walk<E>(tree: &Tree, mut decide: impl FnMut(usize) -> Result<Token, E>) -> Result<Walk, E> {
    let (mut path, mut at) = (Vec::new(), 0);
    loop {
        let token = decide(at)?;
        match tree.child_with(at, token) {
            Some(child) => {
                path.push(child);
                at = child;
            }
            None => return Ok(Walk { path, bonus: token }),
        }
    }
}

/// Verifies `tree` against the target's logits; `sampler` holds the request's parameters and the text up to the root,
/// and is left as it was.
///
/// `logits(node)` gives the target's logits at a node (0 is the root); only nodes on the accepted
/// path are asked for.
///
/// # Errors
/// Logits that allow no decision: empty, NaN, plus infinity, or all minus infinity.
pub fn accept<'a>(
    tree: &Tree,
    sampler: &mut Sampler,
    mut logits: impl FnMut(usize) -> &'a [f32],
) -> Result<Walk, LogitsError> {
    let mut path = Vec::new();
    walk(tree, |node| {
        // The walk goes down, so each node it asks about extends the path; the root has no token of its own.
        path.extend(tree.node(node).map(|node| node.token));
        sampler.decide(logits(node), &path)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Sampling;

    /// The sampler of a text of `length` tokens.
    fn sampler(sampling: Sampling, length: usize) -> Sampler {
        Sampler::new(sampling, &vec![0; length], &[])
    }

    /// The tree `1 (3) 2` below the root.
    fn tree() -> Tree {
        let mut tree = Tree::new();
        for (parent, token) in [(0, 1), (0, 2), (1, 3)] {
            tree.push(parent, token, 0.5).unwrap();
        }
        tree
    }

    /// Logits over four tokens whose arg-max is `token`.
    fn favouring(token: usize) -> [f32; 4] {
        std::array::from_fn(|other| if other == token { 1.0 } else { 0.0 })
    }

    #[test]
    fn it_goes_down_as_long_as_a_child_carries_the_decided_token() {
        let decisions = [1, 9, 9, 0];
        let walk = walk(&tree(), |node| Ok::<_, ()>(if node == 1 { 3 } else { decisions[node] })).unwrap();
        assert_eq!(walk, Walk { path: vec![1, 3], bonus: 0 });
    }

    #[test]
    fn what_no_child_carries_is_the_bonus() {
        assert_eq!(walk(&tree(), |_| Ok::<_, ()>(3)), Ok(Walk { path: vec![], bonus: 3 }));
        assert_eq!(walk(&Tree::new(), |_| Ok::<_, ()>(7)), Ok(Walk { path: vec![], bonus: 7 }));
    }

    #[test]
    fn only_nodes_on_the_way_are_decided() {
        let mut asked = Vec::new();
        let mut greedy = sampler(Sampling::greedy(), 11);
        let rows = [favouring(2), favouring(0), favouring(1), favouring(0)];
        let walk = accept(&tree(), &mut greedy, |node| {
            asked.push(node);
            &rows[node]
        });
        assert_eq!(walk, Ok(Walk { path: vec![2], bonus: 1 }));
        assert_eq!(asked, [0, 2]);
    }

    #[test]
    fn a_node_decides_the_position_after_its_own() {
        let sampling = Sampling::new(1.0, 0, 1.0, 5).unwrap();
        let flat = [0.0; 4];
        let decided = |position| sampling.decide(&flat, position).unwrap();
        let mut chain = Tree::new();
        let first = chain.push(0, decided(11), 0.5).unwrap();
        let second = chain.push(first, decided(12), 0.5).unwrap();
        // The root is the last token of the text, so it stands at position 10.
        let walk = accept(&chain, &mut sampler(sampling.clone(), 11), |_| &flat).unwrap();
        assert_eq!(walk, Walk { path: vec![first, second], bonus: decided(13) });
    }

    #[test]
    fn logits_that_decide_nothing_are_an_error() {
        let error = accept(&tree(), &mut sampler(Sampling::greedy(), 1), |_| &[f32::NAN]);
        assert_eq!(error, Err(LogitsError::NotFinite { token: 0 }));
    }
}
