//! Where sequences wait that are to be opened again after a failure, the first that came first.

use std::sync::Arc;

use espalier_service_kit::{Gauge, Present};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::retry_budget::RetryBudget;

/// All sequences at work, and the line of those that are to be opened again.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    at_work: Gauge,
    /// Whoever holds it is the first in the line; the others get it in their order.
    first: Mutex<RetryBudget>,
}

impl Reopening {
    /// One more sequence is at work.
    pub(crate) fn enter(self: &Arc<Self>) -> AtWork {
        AtWork { _present: self.at_work.enter(), reopening: Arc::clone(self) }
    }
}

/// A sequence at work, until it is dropped.
#[derive(Debug)]
pub(crate) struct AtWork {
    _present: Present,
    reopening: Arc<Reopening>,
}

impl AtWork {
    /// Ready when the sequence may be opened again. Whoever stops waiting leaves the line.
    pub(crate) async fn turn(&self) {
        let Reopening { at_work, first } = &*self.reopening;
        let mut budget = first.lock().await;
        while let Err(due) = budget.take(Instant::now(), at_work.read()) {
            sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use futures::poll;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_to_wait_is_opened_again_in_its_order_and_who_goes_away_keeps_nobody_waiting() {
        let (reopening, begun) = (Arc::new(Reopening::default()), Instant::now());
        let [one, two] = [(); 2].map(|()| reopening.enter());
        assert!(one.turn().now_or_never().is_some() && two.turn().now_or_never().is_some(), "all of them at once");
        let mut waiting: Vec<_> = [&one, &two, &one, &two].map(|sequence| sequence.turn().boxed()).into();
        for turn in &mut waiting {
            assert!(poll!(turn).is_pending());
        }
        drop(waiting.remove(0));
        let mut waits = Vec::new();
        for turn in waiting {
            turn.await;
            waits.push(begun.elapsed());
        }
        assert_eq!(waits, [1, 1, 2].map(Duration::from_secs));
    }

    #[tokio::test(start_paused = true)]
    async fn with_fewer_at_work_fewer_are_opened_again() {
        let (reopening, begun) = (Arc::new(Reopening::default()), Instant::now());
        let [one, two] = [(); 2].map(|()| reopening.enter());
        two.turn().await;
        drop(two);
        one.turn().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }
}
