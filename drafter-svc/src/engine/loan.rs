//! A sequence that the engine may draft ahead, level by level, for as long as its round is verified.
//!
//! Whoever lent it can have it back at any time, and waits for no more than the level that is running. What is dropped is
//! drafted no further.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::drafting::Drafting;
use super::step::Step;
use super::thread::{Grown, Job};
use crate::error::SequenceError;
use crate::weights::Sharer;

/// A sequence that is lent to the engine.
pub(crate) struct Loan {
    sharer: Sharer,
    held: Mutex<Held>,
}

#[derive(Default)]
enum Held {
    /// It waits for its next level, if it wants one.
    Waiting(Box<Drafting>),
    /// A level of it is running, after which it comes back this way if it was asked for.
    Running(oneshot::Receiver<Grown>),
    /// It was asked for.
    #[default]
    Over,
}

impl Loan {
    pub(super) fn new(drafting: Box<Drafting>, sharer: Sharer) -> Self {
        Self { sharer, held: Mutex::new(Held::Waiting(drafting)) }
    }

    /// Has it back, with what was drafted.
    ///
    /// # Errors
    /// The level that was running failed.
    pub(crate) async fn take_back(&self) -> Grown {
        let held = std::mem::take(&mut *self.lock());
        match held {
            Held::Waiting(drafting) => Ok(drafting),
            Held::Running(home) => home.await.map_err(|_| SequenceError::Stopped)?,
            Held::Over => Err(SequenceError::Stopped),
        }
    }

    /// The next level, if it wants one and was not asked for. The job comes back with [`Self::ran`].
    pub(super) fn next(self: &Arc<Self>) -> Option<(Job, Step)> {
        let mut held = self.lock();
        match std::mem::take(&mut *held) {
            Held::Waiting(drafting) => {
                let Some(step) = drafting.next() else {
                    *held = Held::Waiting(drafting);
                    return None;
                };
                let (home, back) = oneshot::channel();
                *held = Held::Running(back);
                let lent = Some(Arc::downgrade(self));
                Some((Job { drafting, sharer: self.sharer.clone(), home, lent }, step))
            }
            other => {
                *held = other;
                None
            }
        }
    }

    /// A level has run.
    pub(super) fn ran(&self, job: Job) {
        let mut held = self.lock();
        match *held {
            Held::Running(_) => *held = Held::Waiting(job.drafting),
            // Who asked for it and has gone since does not want it.
            _ => drop(job.home.send(Ok(job.drafting))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Whoever panicked left one of the three.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
