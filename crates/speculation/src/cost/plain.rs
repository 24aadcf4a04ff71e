//! What a round of plain decoding costs.

use super::way::Way;

/// A running mean of plain rounds, which follows the load while there are none.
///
/// Rounds with trees tell of the load: as they grow dearer or cheaper, so do plain ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Plain {
    /// Nothing before the target is warm: its first rounds are slow.
    took: Option<Way>,
    is_warm: bool,
    /// What an empty tree cost when plain rounds were measured last, or when that was first known.
    empty_tree_ms: Option<f64>,
}

impl Plain {
    /// Plain rounds took this long when an empty tree cost `empty_tree_ms`, if that is known.
    pub(super) fn add(&mut self, ms: f64, empty_tree_ms: Option<f64>) {
        if !self.is_warm {
            self.is_warm = true;
            return;
        }
        self.took.get_or_insert_with(|| Way::new(ms)).add(ms);
        self.empty_tree_ms = empty_tree_ms;
    }

    /// An empty tree costs this much now.
    pub(super) fn compare(&mut self, empty_tree_ms: f64) {
        self.empty_tree_ms.get_or_insert(empty_tree_ms);
    }

    /// A plain round where an empty tree costs `empty_tree_ms`, which is no less; nothing before one was measured.
    pub(super) fn ms(&self, empty_tree_ms: f64) -> Option<f64> {
        let took_ms = self.took.as_ref()?.ms();
        let load = self.empty_tree_ms.map_or(1.0, |before| empty_tree_ms / before.max(f64::MIN_POSITIVE));
        Some((took_ms * load).min(empty_tree_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rounds_of_a_cold_target_do_not_count() {
        let mut plain = Plain::default();
        plain.add(9.0, Some(2.0));
        assert_eq!(plain.ms(2.0), None);
        plain.add(1.0, Some(2.0));
        assert_eq!(plain.ms(2.0), Some(1.0));
    }

    #[test]
    fn it_follows_the_load_from_when_that_is_known() {
        let mut plain = Plain::default();
        (0..2).for_each(|_| plain.add(1.0, None));
        assert_eq!(plain.ms(7.0), Some(1.0));
        plain.compare(2.0);
        plain.compare(5.0);
        assert_eq!(plain.ms(6.0), Some(3.0));
    }

    #[test]
    fn it_is_never_dearer_than_an_empty_tree() {
        let mut plain = Plain::default();
        (0..2).for_each(|_| plain.add(3.0, Some(2.0)));
        assert_eq!(plain.ms(2.0), Some(2.0));
    }
}
