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
