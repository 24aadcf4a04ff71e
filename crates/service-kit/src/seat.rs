//! Who takes an engine's turns.
//!
//! A thread of its own takes them. To wake it takes 0.05 to 0.15 ms, and so it does to wake whoever waits for what came of
//! them: more than a small model needs for a level of a tree. So who is the only one to ask takes them until it has what it
//! asked for, as in flat combining. What several ask for is computed together, by the thread, while they go on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{fmt, mem};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::time::Instant;

use crate::gauge::{Gauge, Present};

/// Turns that go on until nobody can ask any more. Each ends by waiting for something, at least for [`ended`].
type Turns = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where turns are taken; a clone is the same seat.
#[derive(Clone)]
pub struct Seat {
    shared: Arc<Shared>,
    /// Whether who asks may take turns.
    open: bool,
}

struct Shared {
    /// None once they have ended.
    turns: Mutex<Option<Turns>>,
    bell: Arc<Bell>,
    askers: Gauge,
}

/// Says that there may be something to do.
#[derive(Default)]
struct Bell {
    state: Mutex<State>,
    for_thread: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    /// Whether an asker takes turns. It looks after whatever the bell rings for.
    taken: bool,
}

impl Seat {
    /// An asker takes turns for so long at most, and none where a single turn takes longer: what else its runtime has to do
    /// waits meanwhile, and beside a long turn the time to wake the thread is little.
    pub const SHORT: Duration = Duration::from_millis(5);

    /// Turns that nobody takes here.
    pub(crate) fn of_nobody() -> Self {
        Self::new(None)
    }

    /// Turns that [`Self::serve`] takes.
    pub(crate) fn of(turns: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::new(Some(Box::pin(turns)))
    }

    fn new(turns: Option<Turns>) -> Self {
        let (bell, askers) = (Arc::<Bell>::default(), Gauge::default());
        bell.state.lock().rung = true;
        Self { shared: Arc::new(Shared { turns: Mutex::new(turns), bell, askers }), open: false }
    }

    /// The same, where who asks may take turns that take so long, if they are short.
    #[must_use]
    pub fn open_for(self, turn: Duration) -> Self {
        Self { open: turn <= Self::SHORT, ..self }
    }

    /// Takes turns until they have ended.
    pub(crate) fn serve(&self) {
        let Shared { turns, bell, .. } = &*self.shared;
        loop {
            bell.wait();
            if !take_turn(&mut turns.lock(), bell) {
                return;
            }
        }
    }

    /// Somebody who will ask for turns.
    pub fn asker(&self) -> Asker {
        Asker { seat: self.clone(), _present: self.shared.askers.enter() }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("askers", &self.shared.askers).field("open", &self.open).finish_non_exhaustive()
    }
}

/// Asks for turns for as long as it lives.
#[derive(Debug)]
pub struct Asker {
    seat: Seat,
    _present: Present,
}

impl Asker {
    /// Asks, and if nobody else does takes turns until what was asked for is done, they have nothing to do, or time is up.
    /// Whatever is then left, the thread goes on with.
    pub fn ask(&self, ask: impl FnOnce(), is_done: impl Fn() -> bool) {
        let shared = &*self.seat.shared;
        let alone = self.seat.open && shared.askers.read() == 1;
        let Some(turns) = alone.then(|| shared.turns.try_lock()).flatten() else { return ask() };
        let (begun, mut taken) = (Instant::now(), Taken::new(turns, &shared.bell));
        ask();
        let goes_on = || !is_done() && shared.bell.has_rung() && begun.elapsed() < Seat::SHORT;
        while goes_on() && take_turn(&mut taken.turns, &shared.bell) {}
    }
}

/// Turns in an asker's hands.
struct Taken<'s> {
    turns: MutexGuard<'s, Option<Turns>>,
    bell: &'s Bell,
}

impl<'s> Taken<'s> {
    fn new(turns: MutexGuard<'s, Option<Turns>>, bell: &'s Bell) -> Self {
        bell.state.lock().taken = true;
        Self { turns, bell }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.bell.state.lock();
        state.taken = false;
        // The thread ends with the turns, also where they panicked.
        state.rung |= self.turns.is_none();
        if state.rung {
            self.bell.for_thread.notify_one();
        }
    }
}

impl Bell {
    /// Waits until it has rung and no asker takes turns.
    fn wait(&self) {
        let mut state = self.state.lock();
        while !state.rung || state.taken {
            self.for_thread.wait(&mut state);
        }
    }

    fn has_rung(&self) -> bool {
        self.state.lock().rung
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.rung = true;
        if !state.taken {
            self.for_thread.notify_one();
        }
    }
}

/// Takes a turn; `false` if there are no more. Turns that panic have ended.
fn take_turn(turns: &mut Option<Turns>, bell: &Arc<Bell>) -> bool {
    bell.state.lock().rung = false;
    let Some(mut going_on) = turns.take() else { return false };
    let waker = Waker::from(Arc::clone(bell));
    if going_on.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        *turns = Some(going_on);
    }
    turns.is_some()
}

/// Ready at the second look: a turn has ended, and whoever took it may leave the next one to others.
pub(crate) async fn ended() {
    let mut looked = false;
    poll_fn(|context| {
        if mem::replace(&mut looked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// What is asked for: turns of so many, and where the name of the thread is told that took the last one.
    type Request = (usize, oneshot::Sender<Option<String>>);

    /// Turns after which a request panics.
    const PANICS: usize = 100;

    /// Turns that take longer than an asker takes any.
    const MANY: usize = 1_000_000;

    /// An engine with its thread.
    struct Engine {
        seat: Seat,
        requests: mpsc::Sender<Request>,
        thread: thread::JoinHandle<()>,
    }

    impl Engine {
        fn start(turn: Duration) -> Self {
            let (requests, mut queue) = mpsc::channel::<Request>(8);
            let seat = Seat::of(async move {
                while let Some((turns, told)) = queue.recv().await {
                    for _ in 0..turns {
                        ended().await;
                    }
                    assert_ne!(turns, PANICS);
                    told.send(thread::current().name().map(ToOwned::to_owned)).unwrap();
                }
            });
            let (served, seat) = (seat.clone(), seat.open_for(turn));
            let thread = thread::Builder::new().name("engine".to_owned()).spawn(move || served.serve()).unwrap();
            Self { seat, requests, thread }
        }

        /// Asks for so many turns; whether the asker took them, none if the engine is gone.
        fn took(&self, asker: &Asker, turns: usize) -> Option<bool> {
            let (told, mut hears) = oneshot::channel();
            asker.ask(|| self.requests.try_send((turns, told)).unwrap(), || !hears.is_empty());
            let name = hears.try_recv().or_else(|_| hears.blocking_recv()).ok()?;
            Some(name.as_deref() != Some("engine"))
        }

        /// The thread ends when nobody can ask any more.
        fn ends(self) {
            drop(self.requests);
            self.thread.join().unwrap();
        }
    }

    #[test]
    fn who_is_alone_takes_turns_once_the_thread_has_let_go_of_them() {
        let engine = Engine::start(Seat::SHORT);
        let asker = engine.seat.asker();
        // It may still look what there is when it is asked.
        assert!((0..1000).any(|_| engine.took(&asker, 3) == Some(true)));
        engine.ends();
    }

    #[test]
    fn the_thread_takes_turns_for_several_and_long_ones() {
        let engine = Engine::start(Seat::SHORT);
        let (first, second) = (engine.seat.asker(), engine.seat.asker());
        assert_eq!((engine.took(&first, 1), engine.took(&second, 2)), (Some(false), Some(false)));
        engine.ends();
        let engine = Engine::start(Seat::SHORT + Duration::from_nanos(1));
        assert_eq!(engine.took(&engine.seat.asker(), 1), Some(false));
        engine.ends();
    }

    #[test]
    fn what_an_asker_leaves_the_thread_goes_on_with() {
        let engine = Engine::start(Seat::SHORT);
        let asker = engine.seat.asker();
        for turns in 0..1000 {
            let (told, hears) = oneshot::channel();
            // It goes when it has hardly begun.
            asker.ask(|| engine.requests.try_send((turns % 7, told)).unwrap(), || turns % 3 == 0);
            assert!(hears.blocking_recv().is_ok());
        }
        engine.ends();
    }

    #[test]
    fn an_asker_leaves_the_rest_to_the_thread_when_its_time_is_up() {
        let engine = Engine::start(Seat::SHORT);
        let asker = engine.seat.asker();
        assert!((0..1000).any(|_| engine.took(&asker, 3) == Some(true)), "it takes turns at all");
        assert_eq!(engine.took(&asker, MANY), Some(false));
        engine.ends();
    }

    #[test]
    fn turns_that_panic_have_ended_for_all() {
        let engine = Engine::start(Seat::SHORT);
        let asker = engine.seat.asker();
        let spoilt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.took(&asker, PANICS)));
        assert!(matches!(spoilt, Err(_) | Ok(None)), "by whom they were taken: the asker, or the thread");
        assert!(engine.requests.is_closed());
        // Where the asker panicked, the thread ends by itself.
        assert_eq!(engine.thread.join().is_err(), spoilt.is_ok());
    }

    #[test]
    fn who_asks_where_nobody_takes_turns_has_asked() {
        let asked = std::cell::Cell::new(false);
        Seat::of_nobody().open_for(Seat::SHORT).asker().ask(|| asked.set(true), || false);
        assert!(asked.get());
    }
}
