//! Threads that the models of one process share.
//!
//! A forward pass keeps all its threads busy. Two at once would have more of them than there are processors: the system
//! then takes processors away in the middle of regions that all others wait for, for milliseconds at a time. So a team
//! computes for one pass at a time, and between layers a long pass lets those that wait go first.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::pool::Pool;

/// How long a pass computes before it lets another go first, between layers.
const SLICE: Duration = Duration::from_micros(300);

/// Threads that compute for one forward pass at a time. A clone is the same team.
#[derive(Clone)]
pub struct Team {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    line: Line,
    /// Of whoever is first in the line.
    pool: Mutex<Pool>,
}

impl Team {
    /// A team of so many threads (at least one), of which one is the caller's whose pass it is.
    pub fn new(threads: usize) -> Self {
        let pool = Pool::new(threads);
        let threads = pool.threads();
        Self { shared: Arc::new(Shared { line: Line::default(), pool: Mutex::new(pool) }), threads }
    }

    /// Threads of the team.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether it computes for a pass, or is about to.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.line.len() > 0
    }

    /// Waits until all that asked before have had it, and has it until the turn is dropped. `waited` becomes the time that
    /// others had it, or the processor of this thread, meanwhile.
    pub(crate) fn turn<'a>(&'a self, waited: &'a mut Duration) -> Turn<'a> {
        let asked = Instant::now();
        let was_first = self.shared.line.join();
        let begun = Instant::now();
        *waited = if was_first { Duration::ZERO } else { begun - asked };
        let place = Place { line: &self.shared.line, waited };
        Turn { pool: self.shared.pool.lock(), begun, place }
    }
}

/// Threads that want the team, in the order in which they asked: the first has it.
///
/// A lock that is free for whoever comes next will not do. Whoever had the team last is awake, and would take it again for
/// its next pass before the one that waits has woken up, over and over.
#[derive(Default)]
struct Line(Mutex<VecDeque<Thread>>);

impl Line {
    fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Waits behind all others until it is first; whether it was so at once.
    fn join(&self) -> bool {
        let mut line = self.0.lock();
        line.push_back(thread::current());
        let was_first = line.len() == 1;
        drop(line);
        self.until_first();
        was_first
    }

    /// Lets all others go first, and waits until it is first again.
    fn rejoin(&self) {
        let mut line = self.0.lock();
        line.rotate_left(1);
        wake_first(line);
        self.until_first();
    }

    /// Goes; whether others wait.
    fn leave(&self) -> bool {
        let mut line = self.0.lock();
        line.pop_front();
        wake_first(line)
    }

    fn until_first(&self) {
        let me = thread::current().id();
        while self.0.lock().front().is_some_and(|first| first.id() != me) {
            thread::park();
        }
    }
}

/// Wakes the first of a line, if there is one.
fn wake_first(line: MutexGuard<'_, VecDeque<Thread>>) -> bool {
    let first = line.front().cloned();
    drop(line);
    first.inspect(Thread::unpark).is_some()
}

/// The first place of a line; the next thread's when it is dropped.
struct Place<'a> {
    line: &'a Line,
    waited: &'a mut Duration,
}

impl Place<'_> {
    fn give_way(&mut self) {
        let gave = Instant::now();
        self.line.rejoin();
        *self.waited += gave.elapsed();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let gave = Instant::now();
        // Whoever is woken may be given this thread's processor, and keep it for milliseconds.
        if self.line.leave() {
            *self.waited += gave.elapsed();
        }
    }
}

/// A team at the disposal of one pass.
pub(crate) struct Turn<'a> {
    // Let go before the place is: whoever is next finds it free.
    pool: MutexGuard<'a, Pool>,
    begun: Instant,
    place: Place<'a>,
}

impl Turn<'_> {
    /// Lets another pass go first if one waits and this one has computed for a while.
    pub(crate) fn give_way(&mut self) {
        if self.begun.elapsed() >= SLICE && self.place.line.len() > 1 {
            let place = &mut self.place;
            MutexGuard::unlocked(&mut self.pool, || place.give_way());
            self.begun = Instant::now();
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

    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    fn whoever_waits_goes_before_the_one_that_had_it() {
        let (team, order) = (Team::new(1), Mutex::new(Vec::new()));
        let pass = |who: char| {
            let mut waited = Duration::ZERO;
            let _turn = team.turn(&mut waited);
            order.lock().push(who);
        };
        thread::scope(|scope| {
            let mut waited = Duration::ZERO;
            let first = team.turn(&mut waited);
            for (others, who) in ['a', 'b'].into_iter().enumerate() {
                scope.spawn(move || pass(who));
                while team.shared.line.len() < others + 2 {
                    thread::yield_now();
                }
            }
            drop(first);
            // The others may still sleep; they come first all the same.
            pass('c');
        });
        assert_eq!(*order.lock(), ['a', 'b', 'c']);
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
