//! Where requests come in and wait.

use std::sync::Arc;

use espalier_service_kit::Deadline;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::lines::Ticket;
use super::{Admission, AdmissionLimits, Claim, Client, Decision, Occupancy, Refusal};

/// The one door of a gateway.
#[derive(Debug)]
pub(crate) struct Door(Mutex<Admission<Arc<Notify>>>);

impl Door {
    pub(crate) fn new(limits: AdmissionLimits) -> Self {
        Self(Mutex::new(Admission::new(limits)))
    }

    /// The requests inside and before the door.
    pub(crate) fn occupancy(&self) -> Occupancy {
        self.0.lock().occupancy()
    }

    /// Requests that may be inside at once.
    pub(crate) fn running_max(&self) -> usize {
        self.0.lock().limits.running
    }

    /// Requests that one client may have, served or waiting, unless its key says otherwise.
    pub(crate) fn client_requests_max(&self) -> usize {
        self.0.lock().limits.each
    }

    /// The terms of a client that shows no key.
    pub(crate) fn claim(&self, client: Client) -> Claim {
        self.0.lock().limits.claim(client)
    }

    /// A slot, at once or after a while, or why there is none: that is said at once. Whoever stops waiting has left the
    /// queue.
    pub(crate) async fn enter(self: &Arc<Self>, claim: Claim, deadline: Option<Deadline>) -> Result<Slot, Refusal> {
        let turn = Arc::new(Notify::new());
        let remaining = deadline.map(Deadline::remaining);
        let client = claim.client.clone();
        let decision = self.0.lock().ask(claim, remaining, Arc::clone(&turn));
        if let Decision::Refuse(refusal) = decision {
            return Err(refusal);
        }
        let guest = Guest { door: Arc::clone(self), client };
        match decision {
            Decision::Run | Decision::Refuse(_) => {}
            Decision::Wait(ticket) => {
                let mut waiting = Waiting { door: self, ticket: Some(ticket) };
                turn.notified().await;
                waiting.ticket = None;
            }
        }
        Ok(Slot { guest, since: Instant::now() })
    }

    fn pass_on(&self) {
        if let Some(turn) = self.0.lock().pass_on() {
            turn.notify_one();
        }
    }
}

/// A request in the queue; dropping it takes it out.
struct Waiting<'d> {
    door: &'d Door,
    /// None once it has its slot.
    ticket: Option<Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let was_waiting = self.door.0.lock().leave(ticket);
        if !was_waiting {
            // It was given a slot and never learned of it.
            self.door.pass_on();
        }
    }
}

/// A request that was not refused; who it is counted to, until it is dropped.
#[derive(Debug)]
struct Guest {
    door: Arc<Door>,
    client: Client,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.door.0.lock().has_gone(&self.client);
    }
}

/// A request's slot; given on when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    guest: Guest,
    since: Instant,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let door = &self.guest.door;
        door.0.lock().note_service(self.since.elapsed());
        door.pass_on();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use futures::FutureExt;
    use futures::poll;

    use super::super::{ClientWeights, Reason};
    use super::*;

    fn door(running: usize, queued: usize) -> Arc<Door> {
        Arc::new(Door::new(AdmissionLimits { running, queued, each: usize::MAX, weights: ClientWeights::default() }))
    }

    async fn enter(door: &Arc<Door>, client: Client, deadline: Option<Deadline>) -> Result<Slot, Refusal> {
        door.enter(door.claim(client), deadline).await
    }

    fn occupancy(door: &Door) -> (usize, usize) {
        let Occupancy { running, queued } = door.occupancy();
        (running, queued)
    }

    #[tokio::test]
    async fn who_waits_gets_the_slot_that_becomes_free() {
        let door = door(1, 2);
        let first = enter(&door, Client::Unknown, None).await.unwrap();
        let mut second = enter(&door, Client::Unknown, None).boxed();
        assert!(poll!(&mut second).is_pending());
        assert_eq!(occupancy(&door), (1, 1));
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(occupancy(&door), (1, 0));
        drop(second);
        assert_eq!(occupancy(&door), (0, 0));
    }

    #[tokio::test]
    async fn a_client_has_no_more_requests_than_one_may_have_whether_they_run_or_wait() {
        let limits = AdmissionLimits { running: 1, queued: 9, each: 2, weights: ClientWeights::default() };
        let door = Arc::new(Door::new(limits));
        let [one, other] = ["one", "other"].map(|name| Client::Named(name.into()));
        let first = enter(&door, one.clone(), None).await.unwrap();
        let mut second = enter(&door, one.clone(), None).boxed();
        assert!(poll!(&mut second).is_pending());
        let refusal = enter(&door, one.clone(), None).await.unwrap_err();
        assert_eq!(refusal.reason, Reason::Client { own: 2, limit: 2 });
        assert!(poll!(&mut enter(&door, other, None).boxed()).is_pending(), "another client has room");
        drop(second);
        let mut third = enter(&door, one.clone(), None).boxed();
        assert!(poll!(&mut third).is_pending(), "who waits no longer counts no longer");
        drop(first);
        drop(third.await.unwrap());
        assert!(door.0.lock().of_clients.is_empty());
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_queue_even_if_its_turn_had_come() {
        let door = door(1, 4);
        let first = enter(&door, Client::Unknown, None).await.unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| enter(&door, Client::Unknown, None).boxed()).collect();
        for entering in &mut waiting {
            assert!(poll!(entering).is_pending());
        }
        let mut last = waiting.pop().unwrap();
        drop(first);
        assert_eq!(occupancy(&door), (1, 1), "the first of those that wait was called");
        drop(waiting);
        let _slot = (&mut last).now_or_never().expect("and so was the next, as the first had gone").unwrap();
        assert_eq!(occupancy(&door), (1, 0));
        let mut late = enter(&door, Client::Unknown, None).boxed();
        assert!(poll!(&mut late).is_pending());
        drop(late);
        assert_eq!(occupancy(&door), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_requests_took_decides_whether_a_deadline_can_be_met() {
        let door = door(1, 4);
        let slot = enter(&door, Client::Unknown, None).await.unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(slot);
        let _slot = enter(&door, Client::Unknown, None).await.unwrap();
        let deadline = |millis| Some(Deadline::after(Duration::from_millis(millis)));
        let refusal = enter(&door, Client::Unknown, deadline(1999)).now_or_never().unwrap().unwrap_err();
        let (wait, remaining) = (Duration::from_secs(2), Duration::from_millis(1999));
        assert_eq!(refusal, Refusal { reason: Reason::Hopeless { wait, remaining }, retry_after: Some(wait) });
        assert!(enter(&door, Client::Unknown, deadline(2001)).now_or_never().is_none());
        let late = enter(&door, Client::Unknown, deadline(0)).await.unwrap_err();
        assert_eq!(late, Refusal { reason: Reason::Late, retry_after: None });
    }
}
