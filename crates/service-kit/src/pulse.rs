//! Whether a thread that works in turns still ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);

/// A turn that has taken so many times as long as it does alone, and this long at least, has no end: others may want the
/// processors, too.
const TURN_MARGIN: u32 = 20;
const TURN_MAX_LEAST: Duration = Duration::from_secs(20);

/// Beats when a turn begins and when it ends; clones are the same pulse.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// Odd while a turn is at work.
    beats: Arc<AtomicU64>,
    /// When the last turn began, in microseconds since the pulse was made.
    begun: Arc<AtomicU64>,
    made: Instant,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { beats: Arc::default(), begun: Arc::default(), made: Instant::now() }
    }
}

/// A turn at work; it ends when this is dropped.
#[derive(Debug)]
pub struct Beat<'p>(&'p Pulse);

impl Pulse {
    /// A turn begins.
    pub fn begin(&self) -> Beat<'_> {
        self.begun.store(self.micros(), Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
        Beat(self)
    }

    /// How long the turn at work has taken so far; nothing between two turns.
    pub fn turn_age(&self) -> Duration {
        let at_work = self.beats.load(Ordering::Relaxed) % 2 == 1;
        let age = self.micros().saturating_sub(self.begun.load(Ordering::Relaxed));
        Duration::from_micros(if at_work { age } else { 0 })
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Ready, with how long it has taken, when a turn has no end; the largest takes `alone` where nothing else runs. The time
    /// is counted in looks, not by a clock, so that a process that was stopped as a whole is not taken for one whose thread
    /// hangs.
    pub async fn stuck(&self, alone: Duration) -> Duration {
        let limit = (alone * TURN_MARGIN).max(TURN_MAX_LEAST);
        let looks_max = limit.as_secs();
        let (mut seen, mut looks) = (0, 0);
        while looks < looks_max {
            sleep(LOOK).await;
            let beats = self.beats.load(Ordering::Relaxed);
            looks = if beats == seen && beats % 2 == 1 { looks + 1 } else { 0 };
            seen = beats;
        }
        limit
    }
}

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::time::timeout;

    use super::*;

    const ALONE: Duration = Duration::from_secs(2);
    const LIMIT: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_end_is_noticed() {
        let pulse = Pulse::default();
        let (began, _beat) = (Instant::now(), pulse.begin());
        assert_eq!(pulse.clone().stuck(ALONE).await, LIMIT);
        assert_eq!(began.elapsed(), LIMIT + LOOK);
        assert_eq!(pulse.stuck(Duration::ZERO).await, TURN_MAX_LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_has_an_age_until_it_ends() {
        let pulse = Pulse::default();
        sleep(ALONE).await;
        assert_eq!(pulse.turn_age(), Duration::ZERO);
        let beat = pulse.begin();
        sleep(ALONE).await;
        assert_eq!(pulse.turn_age(), ALONE);
        drop(beat);
        assert_eq!(pulse.turn_age(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_to_do_or_ends_its_turns_is_not_stuck() {
        let pulse = Pulse::default();
        assert!(timeout(100 * LIMIT, pulse.stuck(ALONE)).await.is_err());
        let turns = async {
            for _ in 0..100 {
                let beat = pulse.begin();
                sleep(LIMIT - LOOK).await;
                drop(beat);
            }
        };
        tokio::select! {
            _ = pulse.stuck(ALONE) => panic!("turns that end were taken for one that does not"),
            () = turns => {}
        }
    }
}
