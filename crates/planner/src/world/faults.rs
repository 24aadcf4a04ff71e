//! Losses, and the ways around them: the routes of `espalier-gateway`.

use espalier_gateway::{Progress, RETRY_INTERVAL, Turn, is_refusal};
use espalier_proto::{Fault, FaultKind, Party};

use super::World;
use crate::message::{Event, Message, Place};
use crate::tally::End;
use crate::time::of_ms;
use crate::who::Who;

impl World<'_> {
    /// A gateway hears that a sequence was lost or not taken.
    pub(super) fn fault(&mut self, who: Who, party: Party, kind: FaultKind) {
        let fault = Fault::new(party, kind, "simulated");
        let now = self.instant();
        self.note_loss(who, &fault);
        let Some(progress) = self.progress(who) else { return };
        let Some(request) = self.alive(who) else { return };
        let detour = request.route.after(&fault, progress, now);
        self.end_run(who.request);
        let Some(detour) = detour else { return self.finish(who.request, End::Failed) };
        match detour.turn {
            Turn::Again => {}
            Turn::OtherDrafter => self.other_drafter(who),
            Turn::Ngram => self.without_drafter(who),
        }
        let pause = detour.pause.mul_f64(0.75 + 0.5 * self.draws.unit());
        self.queue.put(self.now + pause, Event::Reopen(who));
    }

    fn note_loss(&mut self, who: Who, fault: &Fault) {
        let Some(request) = self.alive(who) else { return };
        let (drafter, verifier) = (request.drafter, request.verifier);
        if is_refusal(fault) {
            request.refused.extend(verifier);
        }
        if let (FaultKind::Gone, Party::Drafter, Some(drafter)) = (fault.kind, fault.party, drafter) {
            self.drafters[drafter].is_up = self.drafters[drafter].alive;
        }
    }

    /// How far a sequence has come. When all verifiers have refused it, all may be asked again.
    fn progress(&mut self, who: Who) -> Option<Progress> {
        let target = self.alive(who)?.target;
        let all = self.targets[target].verifiers.clone();
        let request = self.alive(who)?;
        let elsewhere = all.into_iter().any(|verifier| !request.refused.contains(&verifier));
        if !elsewhere {
            request.refused.clear();
        }
        Some(Progress { drafted: request.drafter.is_some(), begun: request.generated > 0, elsewhere })
    }

    fn other_drafter(&mut self, who: Who) {
        let Some(request) = self.alive(who) else { return };
        request.failed.extend(request.drafter);
        self.find_drafter(who.request);
    }

    fn without_drafter(&mut self, who: Who) {
        if let Some(gateway) = self.alive(who).map(|request| request.gateway) {
            self.take_drafter(who.request, gateway, None);
        }
    }

    pub(super) fn reopen(&mut self, who: Who) {
        if self.alive(who).is_some() {
            self.open(who.request);
        }
    }

    /// A round of a sequence was heard of.
    pub(super) fn came_further(&mut self, who: Who) {
        let now = self.instant();
        let Some(request) = self.alive(who) else { return };
        request.route.came_further();
        let (target, without) = (request.target, request.drafter.is_none());
        let wants = without && !self.targets[target].drafters.is_empty();
        if !wants || !self.scenario.targets[self.targets[target].class].drafted {
            return;
        }
        let due = self.alive(who).is_some_and(|request| request.offers.are_due(true, now));
        if due {
            self.offer_drafter(who);
        }
    }

    /// Has a drafter go on with a sequence that does without one, if there is one by now.
    fn offer_drafter(&mut self, who: Who) {
        if let Some(request) = self.alive(who) {
            request.failed.clear();
        }
        self.find_drafter(who.request);
        let found = self.alive(who).is_some_and(|request| request.drafter.is_some());
        if found {
            // The run that ends had no slot: it was its gateway's.
            self.end_run(who.request);
            self.open(who.request);
        }
    }

    /// The drafters of a failure, by their numbers.
    fn failing(&self, failure: usize) -> Vec<usize> {
        let failure = &self.scenario.failures[failure];
        let of_pool = |pool: usize| self.scenario.drafters[pool].name == failure.drafters;
        let all = (0..self.drafters.len()).filter(|&drafter| of_pool(self.drafters[drafter].pool));
        all.take(failure.count.unwrap_or(usize::MAX)).collect()
    }

    /// Drafters are lost, with all that they knew.
    pub(super) fn lose(&mut self, failure: usize) {
        for drafter in self.failing(failure) {
            let ran = |request: &crate::request::Request| request.drafter == Some(drafter) && request.run.is_some();
            let lost: Vec<Who> = (0..)
                .zip(&self.requests)
                .filter_map(|(id, request)| {
                    let request = request.as_deref().filter(|request| ran(request))?;
                    Some(Who { request: id, life: request.life })
                })
                .collect();
            for who in lost {
                self.end_run(who.request);
                let gone = Message::Fault(who, Party::Drafter, FaultKind::Gone);
                self.send(Place::Drafter(drafter), Place::Gateway, gone);
            }
            self.drafters[drafter].restart();
            (self.drafters[drafter].alive, self.drafters[drafter].is_up) = (false, true);
        }
        if let Some(until) = self.scenario.failures[failure].until_seconds {
            self.queue.put(of_ms(1e3 * until), Event::Back(failure));
        }
    }

    /// They are back, and gateways hear of it when they ask the next time.
    pub(super) fn bring_back(&mut self, failure: usize) {
        for drafter in self.failing(failure) {
            self.drafters[drafter].alive = true;
            let heard = RETRY_INTERVAL.mul_f64(self.draws.unit());
            self.queue.put(self.now + heard, Event::Known(drafter));
        }
    }
}
