//! Where engines take their turns, and what takes a while is done.

use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

use crate::seat::{Seat, ended};

/// Rows of a pass that take the same time, where time is simulated.
const ROWS: [usize; 2] = [1, 32];

/// Where an engine takes its turns, or what takes a while is done, and whose time that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workplace {
    /// A thread. A pass takes as long as it takes.
    #[default]
    Thread,
    /// A task among others, for time that is simulated: computing takes none of it, so a pass is told what it takes.
    Task {
        /// What a pass takes, however many rows it has.
        pass: Duration,
    },
}

impl Workplace {
    /// Has turns taken to their end: the seat is where they are asked for. A task must be started within a tokio runtime.
    ///
    /// # Errors
    /// What the system says when it has no thread.
    pub fn start(self, name: &str, turns: impl Future<Output = ()> + Send + 'static) -> io::Result<Seat> {
        Ok(match self {
            Self::Thread => {
                let seat = Seat::of(turns);
                let served = seat.clone();
                thread::Builder::new().name(name.to_owned()).spawn(move || served.serve())?;
                seat
            }
            Self::Task { .. } => {
                tokio::spawn(turns);
                Seat::of_nobody()
            }
        })
    }

    /// Has what takes a while done where no task waits for it; none only if it panicked.
    pub async fn compute<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match self {
            Self::Thread => tokio::task::spawn_blocking(work).await.ok(),
            Self::Task { .. } => Some(work()),
        }
    }

    /// Waits, with nothing else to do.
    pub async fn wait(self, time: Duration) {
        match self {
            Self::Thread => thread::sleep(time),
            Self::Task { .. } => tokio::time::sleep(time).await,
        }
    }

    /// Goes on with another turn, which whoever took the last one may leave to others.
    pub async fn go_on(self) {
        if self == Self::Thread {
            ended().await;
        }
    }

    /// Has the time of a pass go by that was computed, where computing takes none.
    pub async fn passed(self) {
        if let Self::Task { pass } = self {
            tokio::time::sleep(pass).await;
        }
    }

    /// What passes cost, by their rows, where that is not to be measured.
    pub fn costs(self) -> Option<Vec<(usize, Duration)>> {
        match self {
            Self::Thread => None,
            Self::Task { pass } => Some(ROWS.map(|rows| (rows, pass)).to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    const PASS: Duration = Duration::from_millis(3);

    /// The time that a turn with a pass and a wait takes at a workplace, and the thread that took it.
    async fn turn(workplace: Workplace) -> (Duration, Option<String>) {
        let (begun, (end, ended)) = (Instant::now(), oneshot::channel());
        let turns = async move {
            workplace.passed().await;
            workplace.wait(PASS).await;
            end.send(thread::current().name().map(ToOwned::to_owned)).unwrap();
        };
        workplace.start("engine", turns).unwrap();
        let name = ended.await.unwrap();
        (begun.elapsed(), name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_takes_simulated_time_alone_and_exactly_what_it_is_told() {
        let (took, name) = turn(Workplace::Task { pass: PASS }).await;
        assert_eq!(took, 2 * PASS);
        assert_ne!(name.as_deref(), Some("engine"));
    }

    #[tokio::test]
    async fn a_thread_is_one_of_its_own_and_waits_but_takes_no_time_for_a_pass() {
        let (took, name) = turn(Workplace::default()).await;
        assert!(took >= PASS);
        assert_eq!(name.as_deref(), Some("engine"));
    }
}
