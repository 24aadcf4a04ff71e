//! Which nodes a node sees: the tree's attention mask, as plain booleans.

use crate::Tree;

/// The ancestor rows of `tree`, shape `(n + 1, n + 1)` for `n` nodes, the root being 0.
///
/// `rows[i][j]` is true where node `i` attends to node `j`: for `j = i`, for every ancestor of
/// `i`, and so always for the root. Committed tokens before the root are visible to every node
/// and have no column. The empty tree gives `[[true]]`.
pub fn visibility(tree: &Tree) -> Vec<Vec<bool>> {
    let size = tree.len() + 1;
    let mut rows = vec![vec![false; size]];
    rows[0][0] = true;
    for (index, node) in tree.nodes().iter().enumerate() {
        let mut row = rows[node.parent].clone();
        row[index + 1] = true;
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_node_sees_its_ancestors_and_itself() {
        let mut tree = Tree::new();
        let left = tree.push(0, 1, 0.5).unwrap();
        let right = tree.push(0, 2, 0.5).unwrap();
        let below = tree.push(left, 3, 0.5).unwrap();
        assert_eq!((left, right, below), (1, 2, 3));
        assert_eq!(
            visibility(&tree),
            [
                [true, false, false, false],
                [true, true, false, false],
                [true, false, true, false],
                [true, true, false, true],
            ]
        );
    }

    #[test]
    fn without_a_tree_the_root_sees_itself() {
        assert_eq!(visibility(&Tree::new()), [[true]]);
    }
}
