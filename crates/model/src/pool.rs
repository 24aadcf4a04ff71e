//! Fork and join for kernels of a few microseconds.
//!
//! A decode step is some sixty short parallel regions. General pools take 5 to 20 microseconds to start one; here the
//! helpers spin between regions of one forward pass and park only when none came for a while. Each thread has a share of
//! a region's tasks, side by side, and claims them one by one from a counter of its own: to write a cache line that another
//! processor wrote or read last takes a tenth of a microsecond or more. Who is done takes from the others' shares, so a thread that
//! the system took away does not hold them up for more than its own task. Every task is computed whole by one thread, so
//! results do not depend on who does it.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::kernels::streaming;

/// How long a helper without work spins before it parks.
const SPIN: Duration = Duration::from_micros(200);

/// How long it spins without offering its processor to others: between regions of a pass it is needed at once.
const GAP: Duration = Duration::from_micros(10);

/// How often it looks for work before it looks at the clock.
const LOOKS: usize = 32;

/// One region: `run(i)` for `i` in `0..tasks`.
#[derive(Clone, Copy)]
struct Region {
    run: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

impl Region {
    /// The tasks of one of so many threads.
    fn share(&self, thread: usize, threads: usize) -> Range<usize> {
        thread * self.tasks / threads..(thread + 1) * self.tasks / threads
    }
}

/// Alone in its cache line, and in the next one, which processors fetch along with it.
#[repr(align(128))]
struct Line<T>(T);

/// A thread's share of the present region.
#[derive(Default)]
struct Share {
    /// Tasks that nobody has claimed. Claiming one gives the right to read `region`. [`PARKED`]: none, and the thread sleeps.
    unclaimed: AtomicIsize,
    region: UnsafeCell<Option<Region>>,
}

/// In place of a number of tasks: the thread has to be woken.
const PARKED: isize = -1;

impl Share {
    /// Claims a task, if there is one: the region, and which from the end of the share it is.
    fn claim(&self) -> Option<(Region, usize)> {
        let fewer = |n: isize| (n > 0).then_some(n - 1);
        let left = self.unclaimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).ok()?;
        // SAFETY: this thread holds a claimed task, so the region is open and `region` is not being written.
        let region = unsafe { *self.region.get() }?;
        Some((region, left as usize))
    }
}

struct Shared {
    shares: Box<[Line<Share>]>,
    /// Tasks that helpers have done, those of all regions together.
    finished: Line<AtomicUsize>,
    /// In one cache line with `stop`, which helpers read all the time: written only if a task panics.
    panicked: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: regions are written only between regions (nothing unclaimed, everything finished) and read only by a thread
// that holds a claimed task, which keeps the region open.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is never used outside a region.
unsafe impl Send for Shared {}

impl Shared {
    /// Runs what is unclaimed of a share; says how many tasks that was.
    fn run_share(&self, share: usize) -> usize {
        let mut ran = 0;
        while let Some((region, left)) = self.shares[share].0.claim() {
            // SAFETY: `Pool::run` keeps the closure alive until all tasks are finished.
            let run = unsafe { &*region.run };
            let task = region.share(share, self.shares.len()).end - left;
            if catch_unwind(AssertUnwindSafe(|| run(task))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            ran += 1;
        }
        ran
    }

    fn help(&self, thread: usize) {
        let mut idle_since = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            if self.help_once(thread) {
                idle_since = Instant::now();
            } else if idle_since.elapsed() < SPIN {
                // Looks more often than at the clock, which takes longer.
                (0..LOOKS).take_while(|_| !self.has_tasks(thread)).for_each(|_| std::hint::spin_loop());
                if idle_since.elapsed() > GAP {
                    thread::yield_now();
                }
            } else {
                self.park(thread);
                idle_since = Instant::now();
            }
        }
    }

    /// Whether the thread's own share has something.
    fn has_tasks(&self, thread: usize) -> bool {
        self.shares[thread].0.unclaimed.load(Ordering::Relaxed) > 0
    }

    /// Runs what is unclaimed, once the thread's own share has something; says whether there was anything.
    fn help_once(&self, thread: usize) -> bool {
        if !self.has_tasks(thread) {
            return false;
        }
        let threads = self.shares.len();
        for share in (thread..threads).chain(0..thread) {
            let ran = self.run_share(share);
            // Told at once: until then the region is open.
            if ran > 0 {
                streaming::finish();
                self.finished.0.fetch_add(ran, Ordering::Release);
            }
        }
        true
    }

    /// Sleeps until there are tasks, or the team is dissolved.
    fn park(&self, thread: usize) {
        let unclaimed = &self.shares[thread].0.unclaimed;
        if unclaimed.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        while unclaimed.load(Ordering::Acquire) == PARKED && !self.stop.load(Ordering::SeqCst) {
            thread::park();
        }
    }
}

/// A fixed team: the calling thread and `threads - 1` helpers.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Tasks that helpers did of regions before the present one.
    helped_before: usize,
}

impl Pool {
    /// A team of `threads` (at least one: the caller). A helper that the system refuses to start is done without.
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            shares: (0..threads.max(1)).map(|_| Line(Share::default())).collect(),
            finished: Line(AtomicUsize::new(0)),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let start = |i| {
            let shared = shared.clone();
            thread::Builder::new().name(format!("kernel-{i}")).spawn(move || shared.help(i)).ok()
        };
        let helpers = (1..threads).map_while(start).collect();
        Self { shared, helpers, helped_before: 0 }
    }

    /// Threads in the team, the caller included.
    pub(crate) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `run(i)` for every `i` in `0..tasks`, in no particular order, and returns when all are done.
    ///
    /// `&mut`: one region at a time. A panic in a task is passed on to the caller.
    pub(crate) fn run(&mut self, tasks: usize, run: &(dyn Fn(usize) + Sync)) {
        if self.helpers.is_empty() || tasks <= 1 {
            (0..tasks).for_each(run);
            return;
        }
        let run: *const (dyn Fn(usize) + Sync + '_) = run;
        // SAFETY: only the lifetime changes; this function returns after the last use.
        let run: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(run) };
        // Tasks may read what the caller has written.
        streaming::finish();
        self.open(Region { run, tasks });
        let mut ran = self.shared.run_share(0);
        for share in 1..self.shared.shares.len() {
            if self.helped() + ran == tasks {
                break;
            }
            ran += self.shared.run_share(share);
        }
        while self.helped() + ran < tasks {
            std::hint::spin_loop();
        }
        self.helped_before = self.helped_before.wrapping_add(tasks - ran);
        if self.shared.panicked.load(Ordering::Relaxed) {
            self.shared.panicked.store(false, Ordering::Relaxed);
            resume_unwind(Box::new("a kernel task panicked"));
        }
    }

    /// Tasks of the present region that helpers have done.
    fn helped(&self) -> usize {
        self.shared.finished.0.load(Ordering::Acquire).wrapping_sub(self.helped_before)
    }

    /// Hands out the shares of a region, the caller's own last: the others begin meanwhile.
    fn open(&self, region: Region) {
        let threads = self.shared.shares.len();
        for (thread, Line(share)) in self.shared.shares.iter().enumerate().rev() {
            let tasks = region.share(thread, threads).len() as isize;
            if tasks == 0 {
                continue;
            }
            // SAFETY: nothing is unclaimed and everything is finished, so nobody reads `region`.
            unsafe { *share.region.get() = Some(region) };
            match thread.checked_sub(1).and_then(|helper| self.helpers.get(helper)) {
                Some(helper) if share.unclaimed.swap(tasks, Ordering::AcqRel) == PARKED => helper.thread().unpark(),
                Some(_) => {}
                // Nobody sleeps on it, so it need not wait for the line, which a helper may have read.
                None => share.unclaimed.store(tasks, Ordering::Release),
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper cannot panic: tasks are caught.
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_task_runs_once_in_each_of_many_regions() {
        for threads in [1, 2, 4] {
            let mut pool = Pool::new(threads);
            for tasks in (0..2_000).map(|i| i % 37) {
                let ran: Vec<AtomicU64> = (0..tasks).map(|_| AtomicU64::new(0)).collect();
                pool.run(tasks, &|i| {
                    ran[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_region_after_the_helpers_parked_still_runs_whole() {
        let mut pool = Pool::new(2);
        while pool.shared.shares[1].0.unclaimed.load(Ordering::SeqCst) != PARKED {
            thread::yield_now();
        }
        let sum = AtomicU64::new(0);
        pool.run(100, &|i| {
            sum.fetch_add(i as u64, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4_950);
    }

    #[test]
    fn a_panicking_task_reaches_the_caller_and_the_pool_survives() {
        let mut pool = Pool::new(2);
        let failed = catch_unwind(AssertUnwindSafe(|| pool.run(8, &|i| assert!(i != 5, "five"))));
        assert!(failed.is_err());
        let sum = AtomicU64::new(0);
        pool.run(8, &|_| {
            sum.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 8);
    }
}
