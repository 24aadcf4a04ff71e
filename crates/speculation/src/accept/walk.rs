//! The walk down a verified tree: one for every way of deciding.

use crate::{LogitsError, Sampling, Token, Tree};

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

/// Verifies `tree` against the target's logits under the request's `sampling`.
///
/// `root_position` is the absolute position of the root, so a node of depth `d` decides the token
/// at `root_position + d + 1`. `logits(node)` gives the target's logits at a node (0 is the
/// root); only nodes on the accepted path are asked for.
///
/// # Errors
/// Logits that allow no decision: empty, NaN, plus infinity, or all minus infinity.
pub fn accept<'a>(
    tree: &Tree,
    sampling: &Sampling,
    root_position: u64,
    mut logits: impl FnMut(usize) -> &'a [f32],
) -> Result<Walk, LogitsError> {
    let mut decided = root_position;
    walk(tree, |node| {
        decided += 1;
        sampling.decide(logits(node), decided)
    })
}
