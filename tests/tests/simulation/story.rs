//! What happened, in its order, with the simulated milliseconds of each.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A story; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Story(Rc<RefCell<Vec<String>>>);

impl Story {
    /// Something happens now in a world.
    pub(crate) fn tell(&self, what: fmt::Arguments<'_>) {
        self.tell_at(turmoil::sim_elapsed().unwrap_or_default(), what);
    }

    /// Something happens to a world.
    pub(crate) fn tell_at(&self, now: Duration, what: fmt::Arguments<'_>) {
        self.0.borrow_mut().push(format!("{:>6} {what}", now.as_millis()));
    }

    /// All that was told.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}
