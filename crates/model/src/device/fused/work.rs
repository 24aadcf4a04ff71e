//! What a pass comes to: a list of work of which each item says all that shapes its launches. Two passes of the same list
//! differ in the numbers of their sheets alone, so the one is done by replaying the other.

/// Rows from which on there are no graphs: such passes are rare, and long.
pub(super) const GRAPH_ROWS_MAX: usize = 128;

/// Rows that go through a layer at once.
pub(super) const ROWS_AT_ONCE: usize = 512;

/// Rows that a product takes side by side, at most.
const GROUP: usize = 64;

/// One thing to do. Rows are [`bucketed`]; places are those of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Embeds tokens.
    Embed { rows: usize, at: usize },
    /// Takes states as they are.
    Load { rows: usize, at: usize },
    /// Leaves some rows in the stream.
    Keep { rows: usize, at: usize },
    /// Moves keys and values: after the place of a memory's addresses, {from, to} so many times.
    Move { count: usize, at: usize },
    /// Says where rows stand.
    Place(Stand),
    /// Runs a layer.
    Layer(usize),
    /// Stores a layer's keys and values, of tokens or of states.
    KeysAndValues { layer: usize, of_states: bool },
    /// Adds to the stream what is yet to be added.
    Settle,
    /// Runs the head.
    Head,
    /// Finds the best tokens of some rows.
    Decide { rows: usize, count: usize, at: usize },
    /// Gathers the logits of some rows.
    Gather { rows: usize, at: usize },
}

/// Where rows stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stand {
    /// The first of their places.
    pub(super) at: usize,
    /// Parts of what they see, a power of two.
    pub(super) parts: usize,
}

/// What is known of the stream when a list of work begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    /// Its rows, bucketed.
    pub(super) rows: usize,
    /// Whether it is in the second of its two places.
    pub(super) is_second: bool,
    pub(super) stand: Stand,
}

/// So many rows, filled up: kernels are made for these numbers.
pub(super) fn bucketed(rows: usize) -> usize {
    match rows {
        0..=8 => 8,
        9..=32 => rows.next_power_of_two(),
        _ => rows.next_multiple_of(GROUP),
    }
}

/// Tiles of 8 rows that a product of so many rows takes side by side.
pub(super) fn row_tiles(rows: usize) -> usize {
    rows.min(GROUP) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_up_to_what_kernels_take() {
        let buckets = [1, 8, 9, 16, 17, 33, 64, 65, 300].map(bucketed);
        assert_eq!(buckets, [8, 8, 16, 16, 32, 64, 64, 128, 320]);
        assert_eq!(buckets.map(row_tiles), [1, 1, 2, 2, 4, 8, 8, 8, 8]);
    }
}
