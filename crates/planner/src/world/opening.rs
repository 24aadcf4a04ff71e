//! How a sequence is opened: who drafts, who verifies, and what each needs.

use std::num::NonZeroUsize;
use std::time::Duration;

use espalier_drafter::{Circumstances, GateKey, SharedCosts};
use espalier_gateway::{Candidate, PeerOccupancy, choose};
use espalier_proto::{FaultKind, Party};
use espalier_speculation::{CostModel, Curve, Grower};

use super::World;
use crate::drafting::Drafting;
use crate::message::{Message, Place};
use crate::request::Run;
use crate::team::By;
use crate::time::of_ms;
use crate::verifier::Submission;
use crate::who::Who;

/// What a curve says at the sizes that it was drawn through, as a model that was timed says it.
fn measured(curve: &Curve) -> impl Iterator<Item = (usize, Duration)> {
    curve.points().iter().map(|&(rows, ms)| (rows as usize, of_ms(ms)))
}

fn occupancy(running: u32, slots: usize) -> PeerOccupancy {
    PeerOccupancy { running: running as usize, slots: NonZeroUsize::new(slots) }
}

impl World<'_> {
    /// Finds who drafts for a request: a drafter that answers and is none of those that failed it.
    pub(super) fn find_drafter(&mut self, id: u32) {
        let Some(request) = self.requests[id as usize].as_deref() else { return };
        let target = &self.targets[request.target];
        let gateway = &self.gateways[request.gateway];
        let suiting: Vec<usize> = if self.scenario.targets[target.class].drafted {
            let answers = |&&drafter: &&usize| self.drafters[drafter].is_up && !request.failed.contains(&drafter);
            target.drafters.iter().filter(answers).copied().collect()
        } else {
            Vec::new()
        };
        let candidate = |&drafter: &usize| Candidate {
            url: &self.drafter_urls[drafter],
            occupancy: occupancy(gateway.at_drafters[drafter], self.drafters[drafter].slots_max),
        };
        let candidates: Vec<Candidate<'_>> = suiting.iter().map(candidate).collect();
        let chosen = choose(&candidates, request.key, gateway.turn).and_then(|chosen| suiting.get(chosen).copied());
        let gateway = request.gateway;
        self.take_drafter(id, gateway, chosen);
    }

    /// Notes who drafts for a request from now on.
    pub(super) fn take_drafter(&mut self, id: u32, gateway: usize, chosen: Option<usize>) {
        let Some(request) = self.requests[id as usize].as_deref_mut() else { return };
        let before = std::mem::replace(&mut request.drafter, chosen);
        let gateway = &mut self.gateways[gateway];
        gateway.turn = gateway.turn.wrapping_add(1);
        if let Some(before) = before {
            gateway.at_drafters[before] -= 1;
        }
        if let Some(chosen) = chosen {
            gateway.at_drafters[chosen] += 1;
        }
    }

    fn find_verifier(&mut self, id: u32) {
        let Some(request) = self.requests[id as usize].as_deref_mut() else { return };
        let gateway = &mut self.gateways[request.gateway];
        if let Some(before) = request.verifier.take() {
            gateway.at_verifiers[before] -= 1;
        }
        let all = self.targets[request.target].verifiers.clone();
        let suiting: Vec<usize> = all.filter(|verifier| !request.refused.contains(verifier)).collect();
        let candidate = |&verifier: &usize| Candidate {
            url: &self.verifier_urls[verifier],
            occupancy: occupancy(gateway.at_verifiers[verifier], self.verifiers[verifier].slots()),
        };
        let candidates: Vec<Candidate<'_>> = suiting.iter().map(candidate).collect();
        let chosen = choose(&candidates, request.key, gateway.turn).and_then(|chosen| suiting.get(chosen).copied());
        gateway.turn = gateway.turn.wrapping_add(1);
        request.verifier = chosen;
        if let Some(chosen) = chosen {
            gateway.at_verifiers[chosen] += 1;
        }
    }

    /// Opens a request's sequence from what is committed.
    pub(super) fn open(&mut self, id: u32) {
        self.find_verifier(id);
        self.lives += 1;
        let (life, now) = (self.lives, self.now);
        let Some(request) = self.requests[id as usize].as_deref_mut() else { return };
        (request.life, request.decided) = (life, request.generated);
        let (who, drafter, verifier) = (Who { request: id, life }, request.drafter, request.verifier);
        match (drafter, verifier) {
            (Some(drafter), _) => {
                self.send(Place::Gateway, Place::Drafter(drafter), Message::Start(who));
            }
            (None, Some(verifier)) => {
                self.set_run(who, Run::new(None, 0, now));
                self.send(Place::Gateway, Place::Verifier(verifier), Message::Open(who));
            }
            (None, None) => {}
        }
    }

    fn set_run(&mut self, who: Who, run: Run) {
        if let Some(request) = self.alive(who) {
            request.run = Some(run);
        }
    }

    /// A drafter is asked to run a sequence.
    pub(super) fn start(&mut self, who: Who) {
        let Some((target, Some(drafter))) = self.alive(who).map(|request| (request.target, request.drafter)) else {
            return;
        };
        let (instant, here) = (self.instant(), Place::Drafter(drafter));
        let refused = match &mut self.drafters[drafter] {
            gone if !gone.alive => Some(FaultKind::Gone),
            there => (!there.slots.admit(&self.targets[target].share, instant)).then_some(FaultKind::Overloaded),
        };
        if let Some(kind) = refused {
            return self.send(here, Place::Gateway, Message::Fault(who, Party::Drafter, kind));
        }
        let run = self.drafted_run(who, target, drafter);
        self.set_run(who, run);
        if let Some(verifier) = self.alive(who).and_then(|request| request.verifier) {
            self.send(here, Place::Verifier(verifier), Message::Open(who));
        }
    }

    /// What a drafter needs for a sequence, as its service puts it together.
    fn drafted_run(&mut self, who: Who, target: usize, drafter: usize) -> Run {
        let now = self.now;
        let verifier = self.alive(who).and_then(|request| request.verifier).unwrap_or_default();
        let (target, drafter) = (&self.targets[target], &mut self.drafters[drafter]);
        let (class, info) = (&self.classes[target.class], &self.scenario.targets[target.class]);
        let circumstances =
            Circumstances { target: target.name.clone(), policy: class.policy.to_string(), greedy: true };
        let mut grower = Grower::new(&class.policy, Vec::new());
        if let Some(own) = grower.experience() {
            grower.build_on(&drafter.learned.experience(circumstances.clone(), own));
        }
        let key = GateKey { verifier: self.verifier_urls[verifier].clone(), circumstances };
        let gate = class.policy.is_gated().then(|| drafter.learned.gate(key));
        let (levels, passes) = (drafter.curve(), self.verifiers[verifier].curve());
        let costs = drafter.learned.costs(&target.name, || {
            let mut costs = CostModel::default();
            costs.expect_levels(measured(levels));
            costs.expect_verification(measured(passes));
            SharedCosts::new(costs)
        });
        drafter.sequences += 1;
        let drafting = Drafting::new(grower, costs, gate, info.tree_nodes);
        Run::new(Some(Box::new(drafting)), drafter.sequences, now)
    }

    /// A verifier is asked to take a sequence.
    pub(super) fn open_at_verifier(&mut self, who: Who) {
        let (now, runner) = (self.now, self.runner(who));
        let Some(request) = self.alive(who) else { return };
        let Some(verifier) = request.verifier else { return };
        let known = request.lingers.filter(|(at, _)| *at == verifier).map_or(0, |(_, known)| known);
        let all = request.committed() - 1;
        let known = known.min(all);
        let here = Place::Verifier(verifier);
        match self.verifiers[verifier].open(who, known, all - known, now) {
            Some(key) => {
                if let Some(run) = self.alive(who).and_then(|request| request.run.as_mut()) {
                    run.key = Some(key);
                }
                self.send(here, runner, Message::Opened(who));
                self.takes_in(verifier);
            }
            None => self.send(here, Place::Gateway, Message::Fault(who, Party::Verifier, FaultKind::Overloaded)),
        }
    }

    /// Whoever runs a sequence may begin.
    pub(super) fn opened(&mut self, who: Who) {
        let now = self.now;
        if let Some(run) = self.alive(who).and_then(|request| request.run.as_mut()) {
            run.resumed = now;
            self.begin_rounds(who);
        }
    }

    /// Something was submitted to a verifier.
    pub(super) fn submitted(&mut self, who: Who, submission: Submission) {
        let now = self.now;
        let Some(request) = self.alive(who) else { return };
        let (Some(verifier), Some(key)) = (request.verifier, request.run.as_ref().and_then(|run| run.key)) else {
            return;
        };
        let is_tree = matches!(submission, Submission::Tree(_));
        self.verifiers[verifier].submit(key, submission, now);
        let by = if is_tree { self.verifiers[verifier].computed_by() } else { By::Engine };
        self.wake_verifier(verifier, by);
    }

    /// Ends a request's sequence, wherever it is held. What its verifier knows lingers there.
    pub(super) fn end_run(&mut self, id: u32) {
        let Some(request) = self.requests[id as usize].as_deref_mut() else { return };
        let Some(run) = request.run.take() else { return };
        let (target, committed) = (request.target, request.committed());
        if let (Some(verifier), Some(key)) = (request.verifier, run.key) {
            request.lingers = Some((verifier, committed - 1));
            self.verifiers[verifier].close(key);
        }
        if let (true, Some(drafter)) = (run.has_slot, request.drafter) {
            self.drafters[drafter].slots.release(&self.targets[target].name);
        }
    }
}
