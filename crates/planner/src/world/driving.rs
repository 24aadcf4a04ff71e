//! The rounds of a sequence, as `espalier-round` drives them.

use std::time::Duration;

use espalier_speculation::{RoundRecord, RoundTime};

use super::World;
use crate::drafter::Request as Wish;
use crate::drafting::{Ended, Readiness, Step};
use crate::message::{Message, Outcome, Place};
use crate::request::{Request, Round, Run};
use crate::team::By;
use crate::verifier::Submission;
use crate::who::Who;

impl World<'_> {
    /// Who runs a sequence: its drafter, or its gateway.
    pub(super) fn runner(&self, who: Who) -> Place {
        let request = self.requests.get(who.request as usize).and_then(Option::as_deref);
        let drafted = request.filter(|request| request.run.as_ref().is_some_and(|run| run.drafting.is_some()));
        drafted.and_then(|request| request.drafter).map_or(Place::Gateway, Place::Drafter)
    }

    /// Sees to it that a round is under way, and that a sequence at rest does not run out of credit.
    pub(super) fn begin_rounds(&mut self, who: Who) {
        let drafter = self.alive(who).and_then(|request| request.drafter);
        let is_full = drafter.is_some_and(|drafter| self.drafters[drafter].is_full());
        let Some(request) = self.alive(who) else { return };
        let remaining = request.remaining();
        let Some(run) = &mut request.run else { return };
        if run.grows.is_some() {
            return;
        }
        let (under_way, rests) = (run.under_way.len(), run.rests(is_full));
        let wanted = run.rest.wanted(remaining, under_way);
        match (under_way, rests) {
            (0, true) => self.give_credit(who, wanted.max(1)),
            (0, false) => self.propose(who, remaining),
            (_, true) if run.rest.is_low(under_way) && wanted > 0 => self.give_credit(who, wanted),
            _ => {}
        }
    }

    fn give_credit(&mut self, who: Who, tokens: usize) {
        let Some(Request { run: Some(run), .. }) = self.alive(who) else { return };
        run.under_way.extend(std::iter::repeat_n(Round::PLAIN, tokens));
        self.submit(who, Submission::Credit(tokens));
    }

    fn submit(&mut self, who: Who, submission: Submission) {
        let runner = self.runner(who);
        let Some(verifier) = self.alive(who).and_then(|request| request.verifier) else { return };
        self.send(runner, Place::Verifier(verifier), Message::Submit(who, submission));
    }

    /// Begins to grow a tree.
    fn propose(&mut self, who: Who, remaining: usize) {
        let max_depth = remaining.saturating_sub(1);
        let now = self.now;
        let drafter = self.alive(who).and_then(|request| request.drafter);
        let is_busy = drafter.is_some_and(|drafter| self.drafters[drafter].is_busy());
        let Some(request) = self.alive(who) else { return };
        let (committed, seed) = (request.committed(), request.key);
        let Some(run) = &mut request.run else { return };
        let Some(drafting) = run.drafting.as_mut().filter(|_| max_depth > 0) else {
            return self.give_credit(who, 1);
        };
        match drafting.readiness(committed, is_busy) {
            Readiness::Drafts => {
                drafting.begin(max_depth, committed.saturating_sub(1), seed);
                run.grows = Some(now);
                self.grow(who);
            }
            Readiness::BeginsToRead => {
                self.grow(who);
                self.give_credit(who, 1);
            }
            Readiness::Reads => self.give_credit(who, 1),
        }
    }

    /// Asks for the next step of a tree, or sends it; of what is only read, asks for more.
    fn grow(&mut self, who: Who) {
        let Some(request) = self.alive(who) else { return };
        let (committed, target, drafter) = (request.committed(), request.target, request.drafter);
        let Some(Run { drafting: Some(drafting), sequence, .. }) = &mut request.run else { return };
        let (Some(step), Some(drafter)) = (drafting.next(committed), drafter) else {
            if !drafting.reads() {
                self.send_tree(who);
            }
            return;
        };
        let (sequence, reads) = (*sequence, drafting.reads());
        let (share, engine) = (self.targets[target].share.clone(), &mut self.drafters[drafter]);
        let by = if reads { By::Engine } else { engine.computed_by() };
        engine.ask(Wish { who, sequence, share, rows: step.rows() });
        self.wake_drafter(drafter, by);
    }

    /// A step of a tree has been run, in a pass that took so long.
    pub(super) fn stepped(&mut self, drafter: usize, wish: &Wish, took: Duration) {
        let model = &self.classes[self.targets_class(wish.who)].model;
        let Some(request) = self.requests.get_mut(wish.who.request as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if request.life != wish.who.life || request.drafter != Some(drafter) {
            return;
        }
        let (committed, text) = (request.prompt + request.generated, &mut request.text);
        let Some(Run { drafting: Some(drafting), .. }) = &mut request.run else { return };
        let step: Option<Step> = drafting.next(committed);
        if let Some(step) = step {
            drafting.absorb(step, took, text, model);
            self.grow(wish.who);
        }
    }

    /// The entry of the scenario that a sequence's target is of.
    fn targets_class(&self, who: Who) -> usize {
        let request = self.requests.get(who.request as usize).and_then(Option::as_deref);
        request.map_or(0, |request| self.targets[request.target].class)
    }

    fn send_tree(&mut self, who: Who) {
        let now = self.now;
        let Some(Request { run: Some(run), .. }) = self.alive(who) else { return };
        let (Some(drafting), Some(began)) = (&mut run.drafting, run.grows.take()) else { return };
        let proposal = drafting.finish();
        let tree = Some((proposal.tree.len(), proposal.tree.depth()));
        run.under_way.push_back(Round { tree, drafted: proposal.drafted, draft: now - began });
        self.submit(who, Submission::Tree(proposal.tree));
    }

    /// An outcome has come: commits it and goes on.
    pub(super) fn end_round(&mut self, outcome: &Outcome) {
        let (who, now) = (outcome.who, self.now);
        let class = self.targets_class(who);
        let Some(request) = self.alive(who) else { return };
        let committed = request.committed();
        let Some(run) = &mut request.run else { return };
        let Some(round) = run.under_way.pop_front() else { return };
        let took = now.saturating_sub(std::mem::replace(&mut run.resumed, now));
        run.observe(&round, outcome, took, committed);
        request.generated += outcome.tokens;
        let record = RoundRecord {
            drafted: round.drafted,
            verified: round.tree.map_or(0, |(nodes, _)| nodes),
            depth: round.tree.map_or(0, |(_, depth)| depth),
            accepted: outcome.path.len(),
            committed: outcome.tokens,
        };
        self.tallies[class].round(&record, round.tree.is_some(), round.draft);
        self.report(who, outcome.tokens, outcome.is_last);
        if !outcome.is_last {
            self.begin_rounds(who);
        }
    }

    /// Tells the gateway of a round's tokens, and has it tell the client.
    fn report(&mut self, who: Who, tokens: usize, is_last: bool) {
        let runner = self.runner(who);
        let ways = self.own_way(runner, Place::Gateway).zip(self.own_way(Place::Gateway, Place::Client));
        match ways {
            // Nothing happens on the way of tokens that is not reckoned as well at once.
            Some((to_gateway, to_client)) if !is_last => {
                self.hear(who.request, tokens, self.now + to_gateway + to_client);
                self.came_further(who);
            }
            _ if runner == Place::Gateway => self.reported(who, tokens, is_last),
            _ => self.send(runner, Place::Gateway, Message::Report(who, tokens, is_last)),
        }
    }
}

impl Run {
    fn rests(&self, drafter_is_full: bool) -> bool {
        self.drafting.as_ref().is_none_or(|drafting| drafting.rests(drafter_is_full))
    }

    /// Learns from a round that took so long since the one before it; so many positions were committed then.
    fn observe(&mut self, round: &Round, outcome: &Outcome, took: Duration, committed: usize) {
        let is_first = self.rounds == 0;
        self.rounds += 1;
        if round.tree.is_none() && !is_first {
            self.rest.observe(took);
        }
        let Some(drafting) = &mut self.drafting else { return };
        let &Outcome { compute, queue, load, prompts, tokens, .. } = outcome;
        drafting.observe(&Ended {
            nodes: round.tree.map(|(nodes, _)| nodes),
            path: &outcome.path,
            tokens,
            is_first,
            took,
            time: RoundTime { elapsed: took, compute, queue, load },
            prompts,
            committed,
        });
    }
}
