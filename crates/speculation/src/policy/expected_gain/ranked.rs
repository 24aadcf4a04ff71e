//! Draft nodes in the order of their chances.

/// A draft node with its chance; the likeliest come first, of equals the older.
///
/// Both are one integer, which is sorted several times as fast as a pair: the bits of chances, which are not negative, are
/// in their order. Chances that an `f32` cannot tell apart are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked(u64);

impl Ranked {
    /// Node `id`, below 2^32, of this chance in [0, 1].
    pub(super) fn new(chance: f64, id: usize) -> Self {
        Self((u64::from(!(chance as f32).to_bits()) << 32) | (id as u64 & u64::from(u32::MAX)))
    }

    /// The node's chance, to the precision of an `f32`.
    pub(super) fn chance(self) -> f64 {
        f64::from(f32::from_bits(!((self.0 >> 32) as u32)))
    }

    /// The node's number.
    pub(super) fn id(self) -> usize {
        self.0 as u32 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first_and_of_equals_the_older() {
        let mut nodes =
            [(0.0, 1), (0.25, 7), (1.0, 4), (0.5, 5), (0.25, 6)].map(|(chance, id)| Ranked::new(chance, id));
        nodes.sort_unstable();
        let found = nodes.map(|node| (node.chance(), node.id()));
        assert_eq!(found, [(1.0, 4), (0.5, 5), (0.25, 6), (0.25, 7), (0.0, 1)]);
    }
}
