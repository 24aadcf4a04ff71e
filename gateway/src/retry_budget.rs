//! How many sequences may be opened again in a second: no more than are at work.
//!
//! So all of a service that is lost move at once, and a service that fails whoever comes gets from each about one try a
//! second, however many there are.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The time in which each sequence at work may be opened again once.
const WINDOW: Duration = Duration::from_secs(1);

/// When sequences were opened again lately.
#[derive(Debug, Default)]
pub(crate) struct RetryBudget {
    /// Those of one window, the oldest first: no more than were at work.
    spent: VecDeque<Instant>,
}

impl RetryBudget {
    /// Has a sequence opened again now, with so many `at_work`.
    ///
    /// # Errors
    /// When it may be asked for again, if as many are at work then.
    pub(crate) fn take(&mut self, now: Instant, at_work: usize) -> Result<(), Instant> {
        while self.spent.front().is_some_and(|&at| at + WINDOW <= now) {
            self.spent.pop_front();
        }
        if self.spent.len() < at_work {
            self.spent.push_back(now);
            return Ok(());
        }
        // So many have to be past that one more is below the limit.
        let last = self.spent.get(self.spent.len() - at_work);
        Err(last.copied().unwrap_or(now) + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A moment: how long after the last, how many are at work, and how many want to be opened again.
    fn moments() -> impl Strategy<Value = Vec<(Duration, usize, usize)>> {
        vec(((0..700_u64).prop_map(Duration::from_millis), 0..12_usize, 0..20_usize), 1..60)
    }

    proptest! {
        #[test]
        fn in_no_second_are_more_opened_again_than_are_at_work_and_none_waits_without_need(moments in moments()) {
            let (mut budget, mut now, mut opened) = (RetryBudget::default(), Instant::now(), Vec::new());
            for (later, at_work, wanted) in moments {
                now += later;
                for _ in 0..wanted {
                    let lately = |at: &&Instant| **at + WINDOW > now;
                    let before = opened.iter().filter(lately).count();
                    match budget.take(now, at_work) {
                        Ok(()) => {
                            opened.push(now);
                            prop_assert!(before < at_work);
                        }
                        Err(due) => {
                            prop_assert!(before >= at_work);
                            prop_assert!(now < due && due <= now + WINDOW);
                            let left = |at: Instant| opened.iter().filter(|&&one| one + WINDOW > at).count();
                            prop_assert!(at_work == 0 || left(due) < at_work, "when it is due there is room");
                            prop_assert!(left(due - Duration::from_millis(1)) >= at_work, "and not before");
                        }
                    }
                }
                prop_assert!(budget.spent.len() <= 12);
            }
        }
    }

    #[test]
    fn all_of_them_may_be_opened_again_at_once_and_again_a_second_later() {
        let (mut budget, begun) = (RetryBudget::default(), Instant::now());
        for second in 0..3 {
            let now = begun + WINDOW * second;
            assert!((0..1000).all(|_| budget.take(now, 1000).is_ok()));
            assert_eq!(budget.take(now, 1000), Err(now + WINDOW));
        }
    }
}
