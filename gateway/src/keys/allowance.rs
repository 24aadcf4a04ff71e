//! How much of something may be used in a minute: a token bucket that is filled steadily and holds a minute's worth.
//!
//! It has no clock: whoever asks says when.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// Parts of one unit in which the level is kept: what flows in during a nanosecond is a whole number of them, so nothing
/// is lost by rounding, however often somebody asks.
const PARTS: i128 = 60_000_000_000;

/// Parts that flow in during a millisecond for each unit a minute.
const PARTS_PER_MILLISECOND: i128 = 1_000_000;

/// What may still be used; all of a minute at first.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    per_minute: NonZeroU32,
    /// In parts; below zero it is in debt.
    level: i128,
    /// When the level was that.
    at: Instant,
}

/// What is left of an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    /// Units that flow in a minute.
    pub(crate) limit: u32,
    /// Whole units that may be used now.
    pub(crate) left: u32,
    /// When it holds a minute's worth again, if nothing is used meanwhile.
    pub(crate) full_in: Duration,
}

impl Allowance {
    pub(super) fn new(per_minute: NonZeroU32, now: Instant) -> Self {
        Self { per_minute, level: capacity(per_minute), at: now }
    }

    /// Units that flow in a minute, and that it holds.
    pub(super) fn per_minute(&self) -> u32 {
        self.per_minute.get()
    }

    /// From now on so much flows in, and no more is held. What is left and what is owed stay.
    pub(super) fn set_rate(&mut self, per_minute: NonZeroU32, now: Instant) {
        self.refill(now);
        self.per_minute = per_minute;
        self.level = self.level.min(capacity(per_minute));
    }

    /// What is left of it; nothing where it is in debt.
    pub(super) fn left(&mut self, now: Instant) -> Left {
        self.refill(now);
        let left = u32::try_from((self.level / PARTS).max(0)).unwrap_or(u32::MAX);
        let full_in = self.has(capacity(self.per_minute)).err().unwrap_or_default();
        Left { limit: self.per_minute.get(), left, full_in }
    }

    /// Takes a unit.
    ///
    /// # Errors
    /// How long until there is a whole one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        self.has(PARTS)?;
        self.level -= PARTS;
        Ok(())
    }

    /// Whether anything is left.
    ///
    /// # Errors
    /// How long until something is.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        self.has(1)
    }

    /// Takes units that were used already, whether they are there or not.
    pub(super) fn charge(&mut self, units: usize, now: Instant) {
        self.refill(now);
        let units = i128::try_from(units).unwrap_or(i128::MAX);
        self.level = self.level.saturating_sub(units.saturating_mul(PARTS));
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let inflow = i128::try_from(elapsed).unwrap_or(i128::MAX).saturating_mul(i128::from(self.per_minute.get()));
        self.level = self.level.saturating_add(inflow).min(capacity(self.per_minute));
        self.at = self.at.max(now);
    }

    /// Whether the level is so high; else how long until it is, in whole milliseconds: hints travel in those, and one that
    /// were rounded down would have somebody come too early.
    fn has(&self, parts: i128) -> Result<(), Duration> {
        let missing = parts.saturating_sub(self.level);
        if missing <= 0 {
            return Ok(());
        }
        let each = PARTS_PER_MILLISECOND * i128::from(self.per_minute.get());
        let millis = missing.saturating_add(each - 1) / each;
        Err(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

fn capacity(per_minute: NonZeroU32) -> i128 {
    PARTS * i128::from(per_minute.get())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn allowance(per_minute: u32, now: Instant) -> Allowance {
        Allowance::new(NonZeroU32::new(per_minute).unwrap(), now)
    }

    #[test]
    fn a_minutes_worth_may_be_taken_at_once_and_then_as_much_as_flows_in() {
        let begun = Instant::now();
        let mut allowance = allowance(6, begun);
        assert!((0..6).all(|_| allowance.take(begun).is_ok()));
        assert_eq!(allowance.take(begun), Err(10 * SECOND));
        assert_eq!(allowance.take(begun + 4 * SECOND), Err(6 * SECOND));
        assert_eq!(allowance.take(begun + 10 * SECOND), Ok(()));
        assert_eq!(allowance.take(begun + 10 * SECOND), Err(10 * SECOND));
        let rested = begun + 3600 * SECOND;
        assert!((0..6).all(|_| allowance.take(rested).is_ok()));
        assert!(allowance.take(rested).is_err(), "it holds no more than a minute's worth");
    }

    #[test]
    fn what_is_left_is_told() {
        let begun = Instant::now();
        let mut allowance = allowance(60, begun);
        assert_eq!(allowance.left(begun), Left { limit: 60, left: 60, full_in: Duration::ZERO });
        allowance.charge(45, begun);
        assert_eq!(allowance.left(begun), Left { limit: 60, left: 15, full_in: 45 * SECOND });
        allowance.charge(45, begun);
        assert_eq!(allowance.left(begun + SECOND), Left { limit: 60, left: 0, full_in: 89 * SECOND });
    }

    #[test]
    fn what_was_used_is_owed() {
        let begun = Instant::now();
        let mut allowance = allowance(60, begun);
        allowance.charge(59, begun);
        assert_eq!(allowance.check(begun), Ok(()));
        allowance.charge(31, begun);
        let free = begun + 30 * SECOND;
        assert_eq!(allowance.check(begun), Err(30 * SECOND + Duration::from_millis(1)), "nothing left is not enough");
        assert_eq!(allowance.check(free), Err(Duration::from_millis(1)));
        assert_eq!(allowance.check(free + Duration::from_millis(1)), Ok(()));
    }

    #[test]
    fn another_rate_keeps_what_is_left_and_what_is_owed() {
        let begun = Instant::now();
        let rate = |per_minute| NonZeroU32::new(per_minute).unwrap();
        let mut full = allowance(60, begun);
        full.set_rate(rate(2), begun);
        assert!(full.take(begun).is_ok() && full.take(begun).is_ok() && full.take(begun).is_err());
        let mut owing = allowance(60, begun);
        owing.charge(120, begun);
        owing.set_rate(rate(3600), begun + 30 * SECOND);
        assert_eq!(owing.take(begun + 30 * SECOND), Err(Duration::from_millis(517)), "30 are owed, 60 come a second");
    }

    #[test]
    fn time_that_runs_backwards_and_huge_charges_break_nothing() {
        let begun = Instant::now();
        let mut allowance = allowance(u32::MAX, begun + SECOND);
        assert_eq!(allowance.take(begun), Ok(()));
        allowance.charge(usize::MAX, begun);
        allowance.charge(usize::MAX, begun);
        assert!(allowance.check(begun + SECOND).is_err());
    }

    proptest! {
        #[test]
        fn in_no_span_of_time_is_more_taken_than_a_minutes_worth_and_what_flows_in(
            per_minute in 1..300u32,
            pauses in proptest::collection::vec(0..3_000_000_000u64, 1..200),
        ) {
            let mut now = Instant::now();
            let mut allowance = allowance(per_minute, now);
            let mut taken = Vec::new();
            for pause in pauses {
                now += Duration::from_nanos(pause);
                taken.extend(allowance.take(now).is_ok().then_some(now));
            }
            for (i, &first) in taken.iter().enumerate() {
                for (count, &last) in (1u128..).zip(&taken[i..]) {
                    let inflow = (last - first).as_nanos() * u128::from(per_minute);
                    prop_assert!(count * 60_000_000_000 <= u128::from(per_minute) * 60_000_000_000 + inflow);
                }
            }
        }

        #[test]
        fn who_comes_when_told_finds_it_and_who_comes_earlier_does_not(
            per_minute in 1..100_000u32,
            used in 0..1_000_000usize,
            pause in 0..60_000_000_000u64,
        ) {
            let begun = Instant::now();
            let mut allowance = allowance(per_minute, begun);
            allowance.charge(used, begun);
            let asked = begun + Duration::from_nanos(pause);
            for ask in [Allowance::take, Allowance::check] {
                let wait = ask(&mut allowance.clone(), asked).err().unwrap_or_default();
                prop_assert_eq!(ask(&mut allowance.clone(), asked + wait), Ok(()));
                if let Some(early) = wait.checked_sub(Duration::from_millis(1)) {
                    prop_assert!(ask(&mut allowance.clone(), asked + early).is_err());
                }
            }
        }

        #[test]
        fn it_makes_no_difference_how_often_somebody_asks(
            per_minute in 1..1000u32,
            used in 0..5000usize,
            looks in proptest::collection::vec(0..1_000_000_000u64, 0..50),
        ) {
            let begun = Instant::now();
            let mut asked = allowance(per_minute, begun);
            let mut left_alone = asked.clone();
            asked.charge(used, begun);
            left_alone.charge(used, begun);
            let mut now = begun;
            for look in looks {
                now += Duration::from_nanos(look);
                let _ = asked.check(now);
            }
            prop_assert_eq!(asked.check(now), left_alone.check(now));
            prop_assert_eq!(asked.level, left_alone.level);
        }
    }
}
