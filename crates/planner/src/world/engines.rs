//! Passes: when they begin, and what comes of them.

use std::time::Duration;

use super::{Devices, SharedDevices, World};
use crate::drafting::accepted;
use crate::message::{Engine, Event, Message, Outcome, Place};
use crate::team::{By, Work};
use crate::time::{Time, of_ms};
use crate::verifier::Answer;

/// How often a verifier that puts a pass off looks who has come, and how late a thread wakes that sleeps for so short.
const LOOK: Duration = Duration::from_micros(50);
const LATE: Duration = Duration::from_micros(55);

impl SharedDevices {
    /// An engine computes next; gives the share that it has to pay of what cold caches cost it. With each pass half of what
    /// it needs comes back. Those of a drafter are small: they take no target's place.
    fn ran(&mut self, engine: Engine) -> f64 {
        let before = self.warm.replace(engine);
        match engine {
            Engine::Verifier(verifier) => {
                let goes_on = self.warm_verifier.replace(verifier) == Some(verifier);
                self.cold = if goes_on { self.cold / 2.0 } else { 0.5 };
                self.cold
            }
            Engine::Drafter(_) => f64::from(before != Some(engine)),
        }
    }
}

impl World<'_> {
    /// A pass begins that usually takes so long where nothing else runs.
    fn compute(&mut self, engine: Engine, usually: Duration, by: By) {
        let (layers, cold_ms, jitter) = match engine {
            Engine::Verifier(verifier) => {
                let entry = &self.scenario.targets[self.targets[self.verifiers[verifier].target].class];
                (entry.layers, entry.cold_ms, entry.jitter)
            }
            Engine::Drafter(drafter) => {
                let entry = &self.scenario.drafters[self.drafters[drafter].pool];
                (entry.layers, entry.cold_ms, entry.jitter)
            }
        };
        let work = usually.mul_f64(self.jitter.factor(jitter));
        match &mut self.devices {
            Devices::Own { .. } => self.queue.put(self.now + work, Event::PassEnds(engine)),
            Devices::Shared(shared) => {
                let cold = shared.ran(engine) * cold_ms;
                shared.team.compute(Work { whose: engine, by, takes: work + of_ms(cold), layers });
            }
        }
    }

    pub(super) fn pass_ends(&mut self, engine: Engine, waited: Duration) {
        match engine {
            Engine::Verifier(verifier) => self.verified(verifier, waited),
            Engine::Drafter(drafter) => self.level_ends(drafter, waited),
        }
    }

    /// Something has come for a verifier: a pass may begin.
    pub(super) fn wake_verifier(&mut self, verifier: usize, by: By) {
        let own = matches!(self.devices, Devices::Own { .. });
        let waiting = &self.verifiers[verifier];
        // One that looks now and then does not see at once who has come.
        if !waiting.is_running() && (own || waiting.gathers.is_none()) {
            self.look(verifier, by);
        }
    }

    /// A sequence has come for a verifier, whose engine gets what it needs and then looks what there is.
    pub(super) fn takes_in(&mut self, verifier: usize) {
        let taking = match &self.devices {
            Devices::Own { .. } => return self.wake_verifier(verifier, By::Engine),
            Devices::Shared(shared) => shared.opening,
        };
        let waiting = &mut self.verifiers[verifier];
        if !waiting.is_running() && waiting.gathers.is_none() {
            waiting.gathers = Some(self.now);
            self.queue.put(self.now + taking, Event::Look(verifier, self.now));
        } else {
            waiting.owed += taking;
        }
    }

    /// It is time to look again, unless the pass has begun.
    pub(super) fn look_again(&mut self, verifier: usize, since: Time) {
        if self.verifiers[verifier].gathers == Some(since) && !self.verifiers[verifier].is_running() {
            self.look(verifier, By::Engine);
        }
    }

    /// Begins a pass, or puts it off.
    fn look(&mut self, verifier: usize, by: By) {
        self.verifiers[verifier].gathers = None;
        if !self.verifiers[verifier].has_work() {
            return;
        }
        let shared = matches!(&self.devices, Devices::Shared(shared) if shared.team.is_busy());
        let Some(wait) = self.verifiers[verifier].put_off(self.now, shared) else {
            return self.begin_pass(verifier, by);
        };
        let wait = match self.devices {
            Devices::Own { .. } => wait,
            Devices::Shared(_) => wait.min(LOOK) + LATE,
        };
        self.verifiers[verifier].gathers = Some(self.now);
        self.queue.put(self.now + wait, Event::Look(verifier, self.now));
    }

    fn begin_pass(&mut self, verifier: usize, by: By) {
        if let Some(work) = self.verifiers[verifier].begin_turn(self.now) {
            self.compute(Engine::Verifier(verifier), work, by);
        }
    }

    /// A verifier's pass has ended: whoever was in it is answered.
    fn verified(&mut self, verifier: usize, waited: Duration) {
        let answers = self.verifiers[verifier].end_turn(self.now, waited);
        let mut told: Vec<(Place, Vec<Outcome>)> = Vec::new();
        let own = matches!(self.devices, Devices::Own { .. });
        for answer in answers {
            let Some(outcome) = self.decide(verifier, answer) else { continue };
            let runner = self.runner(outcome.who);
            // On devices of their own what goes the same way goes together.
            match told.iter_mut().find(|(place, _)| own && *place == runner) {
                Some((_, outcomes)) => outcomes.push(outcome),
                None => told.push((runner, vec![outcome])),
            }
        }
        for (runner, outcomes) in told {
            self.send(Place::Verifier(verifier), runner, Message::Outcomes(outcomes));
        }
        self.look(verifier, By::Engine);
    }

    /// What the target makes of a round.
    fn decide(&mut self, verifier: usize, answer: Answer) -> Option<Outcome> {
        let Answer { who, key, tree, timing } = answer;
        let model = &self.classes[self.targets[self.verifiers[verifier].target].class].model;
        let request = self.requests.get_mut(who.request as usize)?.as_deref_mut().filter(|one| one.life == who.life)?;
        let mut path = accepted(&tree, &mut request.text, model);
        let tokens = (path.len() + 1).min(request.answer - request.decided);
        path.truncate(tokens);
        request.text.advance(model, tokens);
        request.decided += tokens;
        let is_last = request.decided == request.answer;
        match is_last {
            true => self.verifiers[verifier].close(key),
            false => self.verifiers[verifier].committed(key, tokens),
        }
        let crate::verifier::Timing { compute, queue, load, prompts } = timing;
        Some(Outcome { who, path, tokens, is_last, compute, queue, load, prompts })
    }

    /// Something has come for a drafter.
    pub(super) fn wake_drafter(&mut self, drafter: usize, by: By) {
        let waiting = &mut self.drafters[drafter];
        if waiting.is_running() {
            return;
        }
        if let Some(work) = waiting.begin_turn(self.now) {
            self.compute(Engine::Drafter(drafter), work, by);
        }
    }

    /// A drafter's pass has ended: trees have a level more, or are grown.
    fn level_ends(&mut self, drafter: usize, waited: Duration) {
        let (requests, took) = self.drafters[drafter].end_turn(self.now, waited);
        for request in requests {
            self.stepped(drafter, &request, took);
        }
        self.wake_drafter(drafter, By::Engine);
    }
}
