//! A system under load, and its time.
//!
//! One queue of events, one clock. Nothing here decides what a service would decide: that is asked of the services' own
//! rules. What is modelled is what takes time: passes by their rows, messages by their way, texts by
//! [their model](crate::text).

mod asking;
mod building;
mod driving;
mod engines;
mod faults;
mod opening;
mod sending;
#[cfg(test)]
mod tests;

use std::time::Duration;

use espalier_gateway::{Admission, Claim};
use tokio::time::Instant;

use crate::drafter::Drafter;
use crate::draws::Draws;
use crate::message::{Engine, Event, Message};
use crate::queue::Queue;
use crate::request::Request;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::team::Team;
use crate::text::TextModel;
use crate::time::Time;
use crate::verifier::Verifier;
use crate::who::Who;

/// All there is.
pub(crate) struct World<'s> {
    scenario: &'s Scenario,
    /// What stands for time 0 where a clock's time is asked for.
    epoch: Instant,
    now: Time,
    queue: Queue<Event>,
    draws: Draws,
    /// What passes take more or less than usual. It is apart, so that it does not change who asks what.
    jitter: Draws,
    devices: Devices,
    classes: Vec<Class>,
    targets: Vec<Target>,
    verifiers: Vec<Verifier>,
    verifier_urls: Vec<String>,
    drafters: Vec<Drafter>,
    drafter_urls: Vec<String>,
    gateways: Vec<Gateway>,
    requests: Vec<Option<Box<Request>>>,
    free: Vec<u32>,
    lives: u32,
    clients: Clients,
    /// What each entry of the scenario's targets came to.
    pub(crate) tallies: Vec<Tally>,
    /// The end of the last answer.
    pub(crate) ended: Time,
}

/// What passes and messages take.
enum Devices {
    Own { message: Duration, intake: Duration },
    Shared(Box<SharedDevices>),
}

struct SharedDevices {
    team: Team<Engine, (Duration, Message)>,
    message: Duration,
    stream: Duration,
    intake: Duration,
    opening: Duration,
    /// Whose weights are in the caches: the verifier's that ran last, and whoever ran last.
    warm_verifier: Option<usize>,
    warm: Option<Engine>,
    /// What is left of what cold caches cost the verifier that ran last.
    cold: f64,
    /// When the team's next event is, as far as the queue knows.
    next: Option<Time>,
}

/// An entry of the scenario's targets.
struct Class {
    model: TextModel,
    policy: espalier_speculation::PolicySpec,
    zone: usize,
}

/// A target, of some copies of an entry.
struct Target {
    class: usize,
    name: String,
    /// What it counts at drafters.
    share: espalier_drafter::TargetShare,
    verifiers: std::ops::Range<usize>,
    /// The drafters that suit it.
    drafters: Vec<usize>,
}

/// A gateway: its door, who waits there, and the sequences that it has at each service.
struct Gateway {
    door: Admission<u32>,
    claims: Vec<Claim>,
    at_verifiers: Vec<u32>,
    at_drafters: Vec<u32>,
    turn: usize,
}

/// Clients of a closed loop.
#[derive(Debug, Default)]
struct Clients {
    /// How many have begun.
    begun: usize,
    /// Requests so far.
    asked: usize,
}

impl World<'_> {
    /// Lets everything happen.
    pub(crate) fn run(&mut self) {
        self.begin_load();
        while let Some((now, event)) = self.queue.next() {
            self.now = now;
            self.advance_team();
            self.happen(event);
            self.schedule_team();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Team => {}
            Event::PassEnds(engine) => self.pass_ends(engine, Duration::ZERO),
            Event::Look(verifier, since) => self.look_again(verifier, since),
            Event::Message(message) => self.deliver(message),
            Event::Client(client) => self.client_asks(client),
            Event::Arrival(target) => self.arrival(target),
            Event::Reopen(who) => self.reopen(who),
            Event::Lost(failure) => self.lose(failure),
            Event::Back(failure) => self.bring_back(failure),
            Event::Known(drafter) => self.drafters[drafter].is_up = self.drafters[drafter].alive,
        }
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        self.queue.put_so_far()
    }

    /// The virtual clock's time.
    fn instant(&self) -> Instant {
        self.epoch + self.now
    }

    /// A request that is still of this life.
    fn alive(&mut self, who: Who) -> Option<&mut Request> {
        let request = self.requests.get_mut(who.request as usize)?.as_deref_mut()?;
        (request.life == who.life).then_some(request)
    }

    /// What services did.
    pub(crate) fn verifiers(&self) -> &[Verifier] {
        &self.verifiers
    }

    /// The entry of the scenario that a verifier is of.
    pub(crate) fn class_of(&self, verifier: &Verifier) -> usize {
        self.targets[verifier.target].class
    }

    pub(crate) fn drafters(&self) -> &[Drafter] {
        &self.drafters
    }

    /// Requests that are neither finished nor refused nor failed: there are none once nothing happens any more.
    pub(crate) fn unfinished(&self) -> usize {
        self.requests.iter().flatten().count()
    }
}
