//! A thread that handles one thing after the other, and sleeps when there is none.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// Work is in nanoseconds; less than this is none.
pub(crate) const NOTHING: f64 = 0.5;

#[derive(Debug)]
pub(crate) struct Handler<M> {
    waiting: VecDeque<Handling<M>>,
    /// From when it has a processor, if it has something to do.
    from: Time,
    /// Whether it computes a pass itself: all else waits.
    computes: bool,
    /// When it last left something off. It is awake then.
    left_off: Option<Time>,
}

#[derive(Debug)]
struct Handling<M> {
    message: M,
    left: f64,
}

impl<M> Default for Handler<M> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), from: Time::ZERO, computes: false, left_off: None }
    }
}

impl<M> Handler<M> {
    pub(crate) fn sleeps(&self, now: Time) -> bool {
        self.waiting.is_empty() && !self.computes && self.left_off != Some(now)
    }

    /// It computes a pass itself.
    pub(crate) fn computes(&mut self) {
        self.computes = true;
    }

    /// The pass that it computed has ended.
    pub(crate) fn has_computed(&mut self, now: Time) {
        (self.computes, self.from, self.left_off) = (false, now, Some(now));
    }

    /// There is something to do, and so long it takes.
    pub(crate) fn take(&mut self, message: M, takes: Duration) {
        self.waiting.push_back(Handling { message, left: takes.as_nanos() as f64 });
    }

    /// It has been woken, and has a processor from then on.
    pub(crate) fn wakes(&mut self, from: Time) {
        self.from = from;
    }

    /// A processor has become free.
    pub(crate) fn is_offered(&mut self, now: Time) {
        self.from = self.from.min(now);
    }

    pub(crate) fn runs(&self, now: Time) -> bool {
        !self.waiting.is_empty() && !self.computes && self.from <= now
    }

    /// When it has a processor, or is done with the first thing.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        let first = self.waiting.front().filter(|_| !self.computes)?;
        Some(if self.runs(now) { now + Duration::from_nanos(first.left.max(0.0).ceil() as u64) } else { self.from })
    }

    /// Works so long at the first thing.
    pub(crate) fn work(&mut self, went: Duration) {
        if let Some(first) = self.waiting.front_mut() {
            first.left -= went.as_nanos() as f64;
        }
    }

    /// The first thing, if it is done.
    pub(crate) fn end(&mut self, now: Time) -> Option<M> {
        let done = self.waiting.pop_front_if(|first| first.left < NOTHING)?;
        self.left_off = Some(now);
        Some(done.message)
    }
}
