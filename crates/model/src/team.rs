//! Threads that the models of one process share.
//!
//! A forward pass keeps all its threads busy. Two at once would have more of them than there are processors: the system
//! then takes processors away in the middle of regions that all others wait for, for milliseconds at a time. So a team
//! computes for one pass at a time, and between layers a long pass lets those that wait go first.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{FairMutex, FairMutexGuard};

use crate::pool::Pool;

/// How long a pass computes before it lets another go first, between layers.
const SLICE: Duration = Duration::from_micros(300);

/// Threads that compute for one forward pass at a time. A clone is the same team.
#[derive(Clone)]
pub struct Team {
    pool: Arc<FairMutex<Pool>>,
    threads: usize,
    /// Passes that have it or wait for it.
    passes: Arc<AtomicUsize>,
}

impl Team {
    /// A team of so many threads (at least one), of which one is the caller's whose pass it is.
    pub fn new(threads: usize) -> Self {
        let pool = Pool::new(threads);
        Self { threads: pool.threads(), pool: Arc::new(FairMutex::new(pool)), passes: Arc::default() }
    }

    /// Threads of the team.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether it computes for a pass, or is about to.
    pub(crate) fn is_busy(&self) -> bool {
        self.passes.load(Ordering::Relaxed) > 0
    }

    /// Waits until the team is free, and has it until the turn is dropped. `waited` becomes the time that others had it
    /// meanwhile.
    pub(crate) fn turn<'a>(&'a self, waited: &'a mut Duration) -> Turn<'a> {
        let counted = Counted::new(&self.passes);
        *waited = Duration::ZERO;
        let pool = self.pool.try_lock().unwrap_or_else(|| {
            let asked = Instant::now();
            let pool = self.pool.lock();
            *waited = asked.elapsed();
            pool
        });
        Turn { pool, begun: Instant::now(), waited, counted }
    }
}

/// A pass that is counted as long as this lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(passes: &'a AtomicUsize) -> Self {
        passes.fetch_add(1, Ordering::Relaxed);
        Self(passes)
    }

    /// Whether others are counted besides.
    fn others(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A team at the disposal of one pass.
pub(crate) struct Turn<'a> {
    pool: FairMutexGuard<'a, Pool>,
    begun: Instant,
    waited: &'a mut Duration,
    counted: Counted<'a>,
}

impl Turn<'_> {
    /// Lets another pass go first if one waits and this one has computed for a while.
    pub(crate) fn give_way(&mut self) {
        if self.counted.others() && self.begun.elapsed() >= SLICE {
            let gave = Instant::now();
            FairMutexGuard::bump(&mut self.pool);
            self.begun = Instant::now();
            *self.waited += self.begun - gave;
        }
    }
}

impl Deref for Turn<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::thread;

    use super::*;

    /// Runs regions of a turn until `ended`, giving way between them.
    fn long_pass(team: &Team, regions: &AtomicU64, ended: impl Fn() -> bool) {
        let mut waited = Duration::ZERO;
        let mut turn = team.turn(&mut waited);
        while !ended() {
            turn.run(4, &|_| {});
            regions.fetch_add(1, Ordering::Relaxed);
            turn.give_way();
        }
    }

    #[test]
    fn a_long_pass_lets_a_short_one_in_between() {
        let (team, done, regions) = (Team::new(2), AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| long_pass(&team, &regions, || done.load(Ordering::Relaxed)));
            while regions.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            // The long pass does not end before this one has.
            let mut waited = Duration::ZERO;
            team.turn(&mut waited).run(4, &|_| {});
            assert!(waited > Duration::ZERO && team.is_busy());
            done.store(true, Ordering::Relaxed);
        });
        assert!(!team.is_busy());
    }

    #[test]
    fn passes_never_overlap() {
        let (team, inside) = (Team::new(2), AtomicU64::new(0));
        let pass = || {
            for _ in 0..200 {
                let mut waited = Duration::ZERO;
                let mut turn = team.turn(&mut waited);
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                turn.run(8, &|_| assert_eq!(inside.load(Ordering::SeqCst), 1));
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            let passes: Vec<_> = (0..3).map(|_| scope.spawn(pass)).collect();
            passes.into_iter().for_each(|pass| pass.join().unwrap());
        });
    }

    #[test]
    fn a_team_has_one_thread_at_least() {
        assert_eq!([0, 1, 3].map(|threads| Team::new(threads).threads()), [1, 1, 3]);
    }
}
