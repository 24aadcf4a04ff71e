//! Who is served now, who waits, and who is refused: before a request is looked into, and without clock or I/O.
//!
//! So many requests run, so many more wait. A slot that becomes free goes to the clients that wait in turns
//! ([`lines`]), not to whoever came first: one client with a thousand requests does not keep another with one from
//! being served. Of the queue a client may have as much as it leaves free: who waits alone has half of it at most, two
//! a third each, and a newcomer always finds a slot while there is one. Nobody who waits is ever sent away for
//! another; only the own deadline ends a wait.

mod client;
mod door;
mod lines;
mod refusal;
mod service_time;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

pub use client::ClientNameError;
pub use client::{Claim, Client, ClientWeights};
pub(crate) use door::{Door, Slot};
use lines::Lines;
pub use lines::Ticket;
pub use refusal::{Reason, Refusal};
use service_time::ServiceTime;

/// The most requests that a gateway may be told to serve at once, and to keep waiting.
pub const REQUESTS_LIMIT: usize = 65_536;

/// The greatest weight of a client.
pub const WEIGHT_LIMIT: usize = 100;

/// How many requests there may be.
#[derive(Debug, Clone)]
pub struct AdmissionLimits {
    /// Those that are served at once.
    pub running: usize,
    /// Those that wait for a slot.
    pub queued: usize,
    /// Those of one client, served or waiting, unless its key says otherwise.
    pub each: usize,
    /// How many slots in a row each client is given while others wait, unless its key says so.
    pub weights: ClientWeights,
}

impl AdmissionLimits {
    /// The terms of a client that shows no key.
    pub fn claim(&self, client: Client) -> Claim {
        Claim { weight: self.weights.of(&client), requests_max: self.each, client }
    }
}

/// The requests that a gateway has at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Those that are being served.
    pub running: usize,
    /// Those that wait for a slot.
    pub queued: usize,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Decision {
    /// It has a slot.
    Run,
    /// It waits until its waiter is returned by [`Admission::pass_on`].
    Wait(Ticket),
    /// It is not let in.
    Refuse(Refusal),
}

/// Slots and queue of one gateway; `W` is how a request that waits is told that its turn has come.
#[derive(Debug)]
pub struct Admission<W> {
    limits: AdmissionLimits,
    /// Never below the limit while anybody waits.
    running: usize,
    /// Requests of each client that has some, served or waiting.
    of_clients: BTreeMap<Client, usize>,
    lines: Lines<W>,
    service: ServiceTime,
}

impl<W> Admission<W> {
    /// Nobody is there.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            running: 0,
            of_clients: BTreeMap::new(),
            lines: Lines::default(),
            service: ServiceTime::default(),
        }
    }

    /// The requests that are served and those that wait.
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { running: self.running, queued: self.lines.len() }
    }

    /// Decides on a request that is of use for as long as `remaining`, or for ever.
    pub fn ask(&mut self, claim: Claim, remaining: Option<Duration>, waiter: W) -> Decision {
        if remaining.is_some_and(|remaining| remaining.is_zero()) {
            return Decision::Refuse(Refusal { reason: Reason::Late, retry_after: None });
        }
        let client = claim.client.clone();
        let (own, limit) = (self.of_clients.get(&client).copied().unwrap_or(0), claim.requests_max);
        if own >= limit {
            let reason = Reason::Client { own, limit };
            return Decision::Refuse(Refusal { reason, retry_after: Some(self.retry_after()) });
        }
        let decision = self.place(claim, remaining, waiter);
        if !matches!(decision, Decision::Refuse(_)) {
            self.of_clients.insert(client, own + 1);
        }
        decision
    }

    /// Gives a request a slot, or a place in the queue.
    fn place(&mut self, claim: Claim, remaining: Option<Duration>, waiter: W) -> Decision {
        if self.running < self.limits.running {
            self.running += 1;
            return Decision::Run;
        }
        let Claim { client, weight, .. } = claim;
        match self.objection(&client, weight, remaining) {
            Some(reason) => Decision::Refuse(Refusal { reason, retry_after: Some(self.retry_after()) }),
            None => Decision::Wait(self.lines.push(client, weight, waiter)),
        }
    }

    /// Why a request must not wait.
    fn objection(&self, client: &Client, weight: usize, remaining: Option<Duration>) -> Option<Reason> {
        let (queued, waiting) = (self.lines.len(), self.lines.of(client));
        let free = self.limits.queued.saturating_sub(queued);
        if free == 0 {
            return Some(Reason::Full { running: self.running, queued });
        }
        if waiting >= free {
            return Some(Reason::Share { waiting, free });
        }
        let wait = self.service.until_free(self.lines.ahead(client, weight) + 1, self.limits.running)?;
        let remaining = remaining.filter(|&remaining| remaining < wait)?;
        Some(Reason::Hopeless { wait, remaining })
    }

    /// When who is refused now may find room.
    fn retry_after(&self) -> Duration {
        self.service.retry_after(self.lines.len() + 1, self.limits.running)
    }

    /// Somebody was served for so long.
    pub fn note_service(&mut self, held: Duration) {
        self.service.add(held);
    }

    /// A slot has become free: it is now that of the waiter that is returned, or nobody's.
    pub fn pass_on(&mut self) -> Option<W> {
        let next = self.lines.next();
        if next.is_none() {
            self.running = self.running.saturating_sub(1);
        }
        next
    }

    /// A request of `client` that was not refused has ended, or waits no longer.
    pub fn has_gone(&mut self, client: &Client) {
        if let Some(own) = self.of_clients.get_mut(client) {
            *own -= 1;
            if *own == 0 {
                self.of_clients.remove(client);
            }
        }
    }

    /// Takes a request out of the queue; `false` if it is not there any more, because it was given a slot.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        self.lines.leave(ticket)
    }
}
