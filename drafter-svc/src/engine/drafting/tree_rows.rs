//! Where the root and the nodes of a tree lie in the tail of the draft model's cache.

use std::collections::HashMap;
use std::ops::Range;

/// The tail rows of the round under way.
#[derive(Default)]
pub(super) struct TreeRows {
    /// Of the last committed tokens, as far as they were run in this round; the root's is the last.
    committed: Vec<usize>,
    /// Of each draft node that was run.
    drafted: HashMap<usize, usize>,
    /// The draft node of each node sent.
    sent: Vec<usize>,
}

impl TreeRows {
    /// Committed tokens up to the root were run in these rows.
    pub(super) fn read(&mut self, rows: Range<usize>) {
        self.committed.extend(rows);
    }

    /// Draft nodes were run in these rows.
    pub(super) fn drafted(&mut self, nodes: &[usize], rows: Range<usize>) {
        self.drafted.extend(nodes.iter().copied().zip(rows));
    }

    /// These draft nodes were sent, in this order.
    pub(super) fn sent(&mut self, nodes: Vec<usize>) {
        self.sent = nodes;
    }

    /// The row of draft node `id`; 0 is the root.
    pub(super) fn of(&self, id: usize) -> Option<usize> {
        if id == 0 { self.committed.last().copied() } else { self.drafted.get(&id).copied() }
    }

    /// The rows of the root, of what was read before it, and of the nodes of `path`, as sent, as far as they were run. The
    /// round is over.
    pub(super) fn take_path(&mut self, path: &[usize]) -> Vec<usize> {
        let Self { committed, drafted, sent } = std::mem::take(self);
        let ran = path.iter().map_while(|node| drafted.get(sent.get(node.checked_sub(1)?)?).copied());
        committed.into_iter().chain(ran).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_ends_where_nothing_was_run() {
        let mut rows = TreeRows::default();
        rows.read(0..3);
        rows.drafted(&[1, 4], 3..5);
        rows.sent(vec![1, 2, 4, 9]);
        assert_eq!((rows.of(0), rows.of(4), rows.of(2)), (Some(2), Some(4), None));
        assert_eq!(rows.take_path(&[1, 3, 4]), [0, 1, 2, 3, 4]);
        assert_eq!(rows.take_path(&[1]), [0_usize; 0]);
    }
}
