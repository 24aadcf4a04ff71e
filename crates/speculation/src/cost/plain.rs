//! What a round of plain decoding costs.

use super::way::Way;

/// How many times more or fewer sequences may be open than when plain rounds were measured that these tell of.
const NEAR: f64 = 1.5;

/// Rounds with a tree after which what plain rounds cost is measured anew: so many after the first time, twice as many each
/// time, up to the most. The first time may have been an unlucky one, and while all draft nothing else tells.
const HOLDS: f64 = 256.0;
const HOLDS_MAX: f64 = 16384.0;

/// Measurements by each sequence that was open, after which those count that were made while others drafted.
const DISTURBED: usize = 2;

/// Rounds with a tree after which they tell how the machine changes: before, they may be dearer because drafting began.
const SETTLED: f64 = 16.0;

/// Plain rounds as they were measured, by the number of sequences that were open.
///
/// They are not worked out from rounds with trees: on processors that drafter and target share, those take longer than
/// they would if nobody drafted, and by such figures drafting always pays. But as such rounds grow dearer or cheaper, so do
/// plain ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Plain {
    /// Nothing before the target is warm: its first rounds are slow.
    is_warm: bool,
    /// One for each [`kind`] at the most.
    measured: Vec<Measured>,
}

#[derive(Debug, Clone)]
struct Measured {
    open: usize,
    took: Way,
    /// Whether nobody drafted meanwhile.
    undisturbed: bool,
    /// What an empty tree cost once rounds with trees had [`SETTLED`].
    empty_tree_ms: Option<f64>,
    /// Rounds with a tree since, and after how many it is out of date.
    age: f64,
    holds: f64,
}

impl Plain {
    /// Plain rounds took this long while `open` sequences were open and, if they were `undisturbed`, none drafted.
    pub(super) fn add(&mut self, ms: f64, open: usize, undisturbed: bool) {
        if !self.is_warm {
            self.is_warm = true;
            return;
        }
        let found = self.measured.iter().position(|measured| kind(measured.open) == kind(open));
        let found = found.map(|place| self.measured.swap_remove(place));
        let (before, holds) = match found {
            None => (None, HOLDS),
            Some(measured) if !measured.is_valid() => (None, (2.0 * measured.holds).min(HOLDS_MAX)),
            // What was measured while others drafted says nothing beside what was not.
            Some(measured) if measured.undisturbed && !undisturbed => return self.measured.push(measured),
            Some(measured) if measured.undisturbed == undisturbed => (Some(measured.took), measured.holds),
            Some(measured) => (None, measured.holds),
        };
        let mut took = before.unwrap_or_else(|| Way::new(ms));
        took.add_one_of(ms, open);
        self.measured.push(Measured { open, took, undisturbed, empty_tree_ms: None, age: 0.0, holds });
    }

    /// A round with a tree went by while so many sequences were open; an empty tree costs this much now.
    pub(super) fn drafted(&mut self, open: usize, empty_tree_ms: f64) {
        for measured in self.measured.iter_mut().filter(|measured| kind(measured.open) == kind(open)) {
            measured.age += 1.0;
            if measured.age >= SETTLED * open as f64 {
                measured.empty_tree_ms.get_or_insert(empty_tree_ms);
            }
        }
    }

    /// A plain round where `open` sequences are open and an empty tree costs what `empty_tree_ms` says for such a number,
    /// which is no less; nothing where none was measured with about as many.
    pub(super) fn ms(&self, open: usize, empty_tree_ms: impl Fn(usize) -> f64) -> Option<f64> {
        let apart = |measured: &&Measured| ratio(measured.open, open);
        let nearest =
            self.measured.iter().filter(|measured| measured.counts()).min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        let now = empty_tree_ms(open);
        let before = nearest.empty_tree_ms.unwrap_or_else(|| empty_tree_ms(nearest.open));
        let took = nearest.took.ms() * now / before.max(f64::MIN_POSITIVE);
        (apart(&nearest) <= NEAR).then_some(took.min(now))
    }
}

impl Measured {
    /// All that wait for plain rounds to be measured stop drafting for a while, so most are measured while nobody drafts. If
    /// not, somebody always does, and it will have to do. Where prompts are read beside them one takes twice as long as
    /// another, so as many measurements count as there are sequences.
    fn counts(&self) -> bool {
        let needed = if self.undisturbed { self.open } else { DISTURBED * self.open + 1 };
        self.is_valid() && self.took.times() >= needed
    }

    /// Whether it is not out of date.
    fn is_valid(&self) -> bool {
        self.age <= self.holds
    }
}

/// Numbers of sequences of one kind are told as one: all up to 4, then two to each doubling.
fn kind(open: usize) -> u32 {
    (2.0 * libm::log2(open.max(1) as f64)).round() as u32
}

/// How many times the lesser of two counts the greater is.
fn ratio(a: usize, b: usize) -> f64 {
    a.max(b).max(1) as f64 / a.min(b).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round with an empty tree takes 4 ms and 2 more for each sequence beyond the first.
    fn empty(open: usize) -> f64 {
        2.0 + 2.0 * open as f64
    }

    fn warm() -> Plain {
        Plain { is_warm: true, ..Plain::default() }
    }

    /// As many undisturbed measurements as count.
    fn measure(plain: &mut Plain, ms: f64, open: usize) {
        (0..open).for_each(|_| plain.add(ms, open, true));
    }

    #[test]
    fn the_first_rounds_of_a_cold_target_do_not_count() {
        let mut plain = Plain::default();
        plain.add(9.0, 1, true);
        assert_eq!(plain.ms(1, empty), None);
        plain.add(1.0, 1, true);
        assert_eq!(plain.ms(1, empty), Some(1.0));
    }

    #[test]
    fn they_are_known_where_about_as_many_sequences_were_open() {
        let mut plain = warm();
        measure(&mut plain, 3.0, 2);
        measure(&mut plain, 9.0, 8);
        let found = [1, 2, 3, 4, 6, 8, 12, 13].map(|open| plain.ms(open, empty));
        assert_eq!(found, [None, Some(3.0), Some(4.0), None, Some(7.0), Some(9.0), Some(13.0), None]);
    }

    #[test]
    fn they_follow_rounds_with_trees_once_these_have_settled() {
        let mut plain = warm();
        measure(&mut plain, 1.0, 1);
        assert_eq!(plain.ms(1, |_| 7.0), Some(1.0));
        (1..SETTLED as usize).for_each(|_| plain.drafted(1, 9.0));
        assert_eq!(plain.ms(1, |_| 7.0), Some(1.0), "drafting has begun, no more");
        plain.drafted(1, 2.0);
        plain.drafted(1, 5.0);
        assert_eq!(plain.ms(1, |_| 6.0), Some(3.0));
    }

    #[test]
    fn they_are_never_dearer_than_an_empty_tree() {
        let mut plain = warm();
        measure(&mut plain, 3.0, 1);
        assert_eq!(plain.ms(1, |_| 2.0), Some(2.0));
    }

    #[test]
    fn what_was_measured_beside_drafts_counts_late_and_until_something_better_is_known() {
        let mut plain = warm();
        (0..4 * DISTURBED).for_each(|_| plain.add(5.0, 4, false));
        assert_eq!(plain.ms(4, empty), None);
        plain.add(5.0, 4, false);
        assert_eq!(plain.ms(4, empty), Some(5.0));
        measure(&mut plain, 3.0, 4);
        assert_eq!(plain.ms(4, empty), Some(3.0));
        (0..9).for_each(|_| plain.add(5.0, 4, false));
        assert_eq!(plain.ms(4, empty), Some(3.0));
    }

    #[test]
    fn as_many_measurements_count_as_there_are_sequences_and_all_of_them() {
        let mut plain = warm();
        (0..31).for_each(|i| plain.add(if i < 16 { 40.0 } else { 20.0 }, 32, true));
        assert_eq!(plain.ms(32, empty), None);
        plain.add(20.0, 32, true);
        let found = plain.ms(32, empty).unwrap_or_default();
        assert!((28.0..33.0).contains(&found), "{found}");
        // A single sequence follows the newest ones.
        (0..16).for_each(|_| plain.add(40.0, 1, true));
        (0..64).for_each(|_| plain.add(20.0, 1, true));
        assert!(plain.ms(1, |_| 100.0).is_some_and(|found| found < 22.0));
    }

    #[test]
    fn after_many_rounds_with_trees_they_are_measured_anew() {
        let mut plain = warm();
        for (measured, holds) in [(3.5, HOLDS), (3.0, 2.0 * HOLDS), (2.5, 4.0 * HOLDS)] {
            measure(&mut plain, measured, 2);
            (0..holds as usize).for_each(|_| plain.drafted(2, 4.0));
            assert_eq!(plain.ms(2, |_| 4.0), Some(measured), "what was before does not count");
            plain.drafted(2, 4.0);
            assert_eq!(plain.ms(2, |_| 4.0), None);
        }
    }

    #[test]
    fn all_counts_are_of_few_kinds() {
        assert_eq!([1, 2, 3, 4, 5, 6, 8, 11, 16, 64].map(kind), [0, 2, 3, 4, 5, 5, 6, 7, 8, 12]);
    }
}
