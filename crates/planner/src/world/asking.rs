//! Who asks, who is let in, and what clients hear.

use std::time::Duration;

use espalier_gateway::{Decision, Offers, Route};

use super::World;
use crate::message::{Event, Message, Place};
use crate::request::{Heard, Request};
use crate::scenario::Load;
use crate::tally::End;
use crate::text::Text;
use crate::time::{Time, of_ms};
use crate::who::Who;

/// The longest pause of a client that was refused before it asks for something else.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(1);

impl World<'_> {
    /// Has the first clients, or the first request for each target, come.
    pub(super) fn begin_load(&mut self) {
        for failure in 0..self.scenario.failures.len() {
            let at = of_ms(1e3 * self.scenario.failures[failure].at_seconds);
            self.queue.put(at, Event::Lost(failure));
        }
        match self.scenario.load {
            Load::Closed(closed) => match closed.start_seconds {
                None => self.next_client(Time::ZERO),
                Some(seconds) => (0..closed.clients).for_each(|_| {
                    let at = of_ms(1e3 * seconds * self.draws.unit());
                    self.next_client(at);
                }),
            },
            Load::Open(_) => (0..self.targets.len()).for_each(|target| self.next_arrival(target)),
        }
    }

    /// The next client of a closed loop begins then, if there is one.
    fn next_client(&mut self, at: Time) {
        let Load::Closed(closed) = self.scenario.load else { return };
        if self.clients.begun < closed.clients {
            self.queue.put(at, Event::Client(self.clients.begun as u32));
            self.clients.begun += 1;
        }
    }

    fn next_arrival(&mut self, target: usize) {
        let rate = self.scenario.targets[self.targets[target].class].rate;
        let at = self.now + of_ms(1e3 * self.draws.exponential() / rate);
        if !self.is_over(at) {
            self.queue.put(at, Event::Arrival(target));
        }
    }

    fn is_over(&self, at: Time) -> bool {
        self.scenario.load.seconds().is_some_and(|seconds| at >= of_ms(1e3 * seconds))
    }

    pub(super) fn arrival(&mut self, target: usize) {
        self.make_request(target, None);
        self.next_arrival(target);
    }

    /// A client sends its next request, unless there are to be no more.
    pub(super) fn client_asks(&mut self, client: u32) {
        let Load::Closed(closed) = self.scenario.load else { return };
        if self.is_over(self.now) || closed.requests.is_some_and(|requests| self.clients.asked >= requests) {
            return;
        }
        let target = self.next_target();
        self.clients.asked += 1;
        self.make_request(target, Some(client));
    }

    /// Targets take turns, or are drawn by their rates where these differ.
    fn next_target(&mut self) -> usize {
        let rate = |target: &super::Target| self.scenario.targets[target.class].rate;
        let first = self.scenario.targets[0].rate;
        if self.scenario.targets.iter().all(|target| target.rate == first) {
            return self.clients.asked % self.targets.len();
        }
        let all: f64 = self.targets.iter().map(rate).sum();
        let mut drawn = all * self.draws.unit();
        let found = self.targets.iter().position(|target| {
            drawn -= rate(target);
            drawn < 0.0
        });
        found.unwrap_or(0)
    }

    fn make_request(&mut self, target: usize, client: Option<u32>) {
        let class = &self.scenario.targets[self.targets[target].class];
        let mut draws = self.draws.fork();
        let (prompt, answer) = (class.prompt.draw(&mut draws), class.answer.draw(&mut draws));
        let answer = answer.min(class.max_tokens.unwrap_or(usize::MAX));
        let request = Request {
            target,
            client,
            gateway: draws.below(self.gateways.len()),
            key: draws.bits(),
            prompt,
            answer,
            limit: class.max_tokens.unwrap_or(answer),
            asked: self.now,
            let_in: None,
            heard: Heard::default(),
            generated: 0,
            decided: 0,
            text: Text::new(draws),
            route: Route::default(),
            offers: Offers::default(),
            failed: Vec::new(),
            refused: Vec::new(),
            drafter: None,
            verifier: None,
            lingers: None,
            life: 0,
            run: None,
        };
        self.tallies[self.targets[target].class].asked += 1;
        let id = self.put_request(request);
        self.send(Place::Client, Place::Gateway, Message::Ask(id));
    }

    fn put_request(&mut self, request: Request) -> u32 {
        let request = Some(Box::new(request));
        match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                (self.requests.len() - 1) as u32
            }
        }
    }

    /// A request is at its gateway's door.
    pub(super) fn ask(&mut self, id: u32) {
        let Some(request) = self.requests[id as usize].as_deref() else { return };
        let gateway = &mut self.gateways[request.gateway];
        let number = request.client.map_or(request.key, u64::from) as usize;
        let claim = gateway.claims[number % gateway.claims.len()].clone();
        match gateway.door.ask(claim, None, id) {
            Decision::Run => self.let_in(id),
            Decision::Wait(_) => {}
            Decision::Refuse(refusal) => {
                self.send(Place::Gateway, Place::Client, Message::Refused(id, refusal.retry_after));
            }
        }
    }

    /// A request has a slot: it is read.
    fn let_in(&mut self, id: u32) {
        let now = self.now;
        if let Some(request) = self.requests[id as usize].as_deref_mut() {
            request.let_in = Some(now);
            self.read(id);
        }
    }

    /// A request has been read: its sequence is opened.
    pub(super) fn has_read(&mut self, id: u32) {
        if self.requests[id as usize].is_some() {
            self.find_drafter(id);
            self.open(id);
        }
    }

    /// A round's tokens are at the gateway.
    pub(super) fn reported(&mut self, who: Who, tokens: usize, is_last: bool) {
        if self.alive(who).is_none() {
            return;
        }
        self.came_further(who);
        if is_last {
            self.end_run(who.request);
        }
        self.send(Place::Gateway, Place::Client, Message::Tokens(who.request, tokens, is_last));
    }

    /// Tokens are at the client.
    pub(super) fn heard(&mut self, id: u32, tokens: usize, is_last: bool) {
        self.hear(id, tokens, self.now);
        if is_last {
            self.finish(id, End::Finished);
        }
    }

    /// The client of a request hears tokens at some time, now or soon.
    pub(super) fn hear(&mut self, id: u32, tokens: usize, at: Time) {
        let Some(request) = self.requests[id as usize].as_deref_mut() else { return };
        let newest = if request.heard.first.is_none() { request.client } else { None };
        request.heard.tokens(tokens, at);
        self.tallies[self.targets[request.target].class].hear(tokens, at);
        self.chain(newest, at);
    }

    /// Where clients begin one after the other, the next may once the newest has its first token.
    fn chain(&mut self, client: Option<u32>, at: Time) {
        let is_newest = client.is_some_and(|client| client as usize + 1 == self.clients.begun);
        if is_newest && matches!(self.scenario.load, Load::Closed(closed) if closed.start_seconds.is_none()) {
            self.next_client(at);
        }
    }

    pub(super) fn refused(&mut self, id: u32, hint: Option<Duration>) {
        self.end(id, End::Refused, hint.unwrap_or(REFUSED_PAUSE_MAX).min(REFUSED_PAUSE_MAX));
    }

    /// A request has come to its end, and its client goes on.
    pub(super) fn finish(&mut self, id: u32, end: End) {
        let Load::Closed(closed) = self.scenario.load else { return self.end(id, end, Duration::ZERO) };
        self.end(id, end, of_ms(closed.think_ms));
    }

    fn end(&mut self, id: u32, end: End, pause: Duration) {
        self.end_run(id);
        let Some(request) = self.requests[id as usize].take() else { return };
        self.free.push(id);
        self.ended = self.ended.max(self.now);
        self.tallies[self.targets[request.target].class].end(end, &request, self.now);
        self.leave(&request);
        if let Some(client) = request.client {
            self.chain(Some(client), self.now);
            self.queue.put(self.now + pause, Event::Client(client));
        }
    }

    /// Gives back what a request has at its gateway.
    fn leave(&mut self, request: &Request) {
        let gateway = &mut self.gateways[request.gateway];
        if let Some(verifier) = request.verifier {
            gateway.at_verifiers[verifier] -= 1;
        }
        if let Some(drafter) = request.drafter {
            gateway.at_drafters[drafter] -= 1;
        }
        let Some(since) = request.let_in else { return };
        let number = request.client.map_or(request.key, u64::from) as usize;
        gateway.door.note_service(self.now - since);
        gateway.door.has_gone(&gateway.claims[number % gateway.claims.len()].client);
        if let Some(next) = gateway.door.pass_on() {
            self.let_in(next);
        }
    }
}
