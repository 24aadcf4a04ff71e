//! One request from its first round to its last token, whatever fails on the way.

use std::sync::Arc;

use espalier_proto::{
    Begun, Chunk, Completion, Fault, FaultKind, GenerationEvent, Open, Party, RoundReport, RoundTrace, Start,
};
use espalier_round::{Ngram, Plain};
use espalier_service_kit::{Deadline, outgoing};
use espalier_speculation::{Acceptance, FinishReason, NgramLimits, PolicySpec, Restriction, Token};
use tokio::time::{Instant, timeout_at};

use crate::counts::Counted;
use crate::directory::Directory;
use crate::drafting::Drafting;
use crate::peers::{Held, Standing, TargetInfo};
use crate::reopening::AtWork;
use crate::rounds::Rounds;
use crate::route::{Offers, Progress, Route, Turn, is_refusal};
use crate::tally::Tally;
use crate::validate::ValidRequest;

/// A request at work. Dropping it frees all that it holds, everywhere.
pub(crate) struct Generation {
    /// Its sequence grows by what is committed.
    request: ValidRequest,
    directory: Arc<Directory>,
    deadline: Option<Deadline>,
    route: Route,
    offers: Offers,
    drafting: Drafting,
    /// How trees are grown by whoever drafts.
    policy: PolicySpec,
    /// Drafters that failed this sequence, by their URLs.
    failed: Vec<String>,
    /// Of these, those that would fail it again.
    unfit: Vec<String>,
    /// Verifiers that refused this sequence, by their URLs.
    refused: Vec<String>,
    /// The verifier that was chosen last.
    verifier: Option<Held<TargetInfo>>,
    rounds: Option<Rounds>,
    /// Whether the client knows that it has begun.
    told: bool,
    tally: Tally,
    /// Why the text is over, once it is.
    finish: Option<FinishReason>,
    counted: Counted,
    at_work: AtWork,
    let_in: Instant,
    /// It has failed since it was opened last, and waits for its turn before it is opened again.
    failing: bool,
}

impl Generation {
    /// A request that has not begun.
    pub(crate) fn new(
        request: ValidRequest,
        directory: Arc<Directory>,
        deadline: Option<Deadline>,
        mut counted: Counted,
        at_work: AtWork,
    ) -> Self {
        counted.let_in(&request.target.card.name);
        let drafting = Drafting::find(&request, &directory, &[]);
        let mut generation = Self {
            route: Route::default(),
            offers: Offers::default(),
            policy: request.policy(drafting.name()),
            drafting,
            failed: Vec::new(),
            unfit: Vec::new(),
            refused: Vec::new(),
            verifier: None,
            rounds: None,
            told: false,
            tally: Tally::default(),
            finish: None,
            request,
            directory,
            deadline,
            counted,
            at_work,
            let_in: Instant::now(),
            failing: false,
        };
        if generation.has_begun() {
            generation.finish = generation.find_finish();
        }
        generation
    }

    /// What the client is to be told next: that it has begun, rounds, then the end.
    ///
    /// # Errors
    /// The fault that no other way leads around.
    pub(crate) async fn next(&mut self) -> Result<GenerationEvent, Fault> {
        let event = match self.finish {
            _ if !std::mem::replace(&mut self.told, true) => Ok(GenerationEvent::Begun(self.begun())),
            Some(reason) => self.completion(reason).map(|completion| GenerationEvent::Finished(Box::new(completion))),
            None => self.round().await,
        };
        self.counted.tells(&event);
        event
    }

    fn begun(&self) -> Begun {
        let ValidRequest { sequence, call_form, .. } = &self.request;
        let (id, seed, prompt_tokens) = (sequence.id.clone(), sequence.sampling.seed(), sequence.prompt_len());
        Begun { id, seed, prompt_tokens, call_form: call_form.clone() }
    }

    /// The next round, from whoever can be found to run it.
    async fn round(&mut self) -> Result<GenerationEvent, Fault> {
        self.offer_drafting(Instant::now());
        self.leave_draining();
        loop {
            let fault = match self.try_round().await {
                Ok(report) => return self.commit(report),
                Err(fault) => fault,
            };
            self.note_loss(&fault);
            let progress = self.progress();
            let detour = self.route.after(&fault, progress, Instant::now()).ok_or_else(|| fault.clone())?;
            tracing::warn!(sequence = %self.request.sequence.id, %fault, "a sequence is opened again elsewhere");
            self.counted.fails_over(fault.party);
            tokio::time::sleep(self.directory.surroundings().chance.jittered(detour.pause)).await;
            self.turn(detour.turn);
        }
    }

    /// Has a draft model go on with a sequence that has to do without one, if there is one by now. By rejection whoever
    /// drafts decides on the text, so that stays with who has it.
    fn offer_drafting(&mut self, now: Instant) {
        let coupled = self.request.sequence.sampling.acceptance() == Acceptance::Coupled;
        let without = coupled && self.request.wanted.is_model() && self.drafting.drafter().is_none();
        if !self.offers.are_due(without, now) {
            return;
        }
        let found = Drafting::find(&self.request, &self.directory, &self.unfit);
        if found.drafter().is_some() {
            tracing::info!(sequence = %self.request.sequence.id, drafter = found.name(), "a sequence is drafted for again");
            self.failed.clone_from(&self.unfit);
            self.rounds = None;
            self.policy = self.request.policy(found.name());
            self.drafting = found;
        }
    }

    /// Has the sequence go on elsewhere when a service that runs it is about to end and another stands in for it: between
    /// two rounds nothing is lost.
    fn leave_draining(&mut self) {
        let target = &self.request.target.card;
        let drains = self.verifier.as_ref().is_some_and(|verifier| verifier.peer().standing() == Standing::Draining);
        let moves = drains && self.directory.has_verifier(target, &self.refused);
        if moves || self.leaves_drafter() {
            tracing::info!(sequence = %self.request.sequence.id, "a sequence leaves a service that drains");
            self.route.moved();
            self.counted.moves();
            self.rounds = None;
        }
    }

    /// Has another draft model go on for one that drains. By rejection whoever drafts decides on the text, so that stays
    /// with who has it.
    fn leaves_drafter(&mut self) -> bool {
        let drains = self.drafting.drafter().is_some_and(|drafter| drafter.standing() == Standing::Draining);
        if !drains || self.request.sequence.sampling.acceptance() != Acceptance::Coupled {
            return false;
        }
        let found = Drafting::find(&self.request, &self.directory, &self.failed);
        let moves = found.drafter().is_some();
        if moves {
            self.policy = self.request.policy(found.name());
            self.drafting = found;
        }
        moves
    }

    /// The next round from whoever runs the sequence; nobody does after a fault.
    async fn try_round(&mut self) -> Result<RoundReport, Fault> {
        let mut rounds = match self.rounds.take() {
            Some(rounds) => rounds,
            None => self.open().await?,
        };
        let report = rounds.next().await?;
        self.rounds = Some(rounds);
        Ok(report)
    }

    /// Opens the sequence from what is committed.
    async fn open(&mut self) -> Result<Rounds, Fault> {
        let verifier = self.choose_verifier().await?;
        // It may have waited for long.
        if self.drafting.drafter().is_some_and(|drafter| drafter.standing() == Standing::Down) {
            self.turn(Turn::OtherDrafter);
        }
        let (url, channel) = (verifier.peer().url().to_owned(), verifier.peer().channel());
        (self.verifier, self.failing) = (Some(verifier), false);
        let (metadata, trees) = (outgoing(self.deadline), self.request.rounds);
        match &self.drafting {
            Drafting::Model(drafter) => Rounds::by_drafter(drafter.peer().channel(), self.start(url), metadata).await,
            Drafting::Ngram => {
                let acceptance = self.request.sequence.sampling.acceptance();
                let usual = NgramLimits::default();
                let tree_nodes_max = self.request.target.card.tree_nodes_max;
                let max_nodes = usual.max_nodes.min(tree_nodes_max);
                let limits = NgramLimits { max_nodes, ..usual };
                let restriction = self.restriction().await?;
                let proposer = Ngram::new(self.stops(), limits, acceptance).restricted(restriction, tree_nodes_max);
                Rounds::from_here(channel, self.opening(), proposer, metadata, trees).await
            }
            Drafting::Nobody => Rounds::from_here(channel, self.opening(), Plain, metadata, trees).await,
        }
    }

    /// What the answer is held to from here on, if it is.
    async fn restriction(&self) -> Result<Option<Box<dyn Restriction>>, Fault> {
        let follow = self.request.following(self.stops());
        let Some(follow) = follow else { return Ok(None) };
        let panicked = || Fault::new(Party::Gateway, FaultKind::Internal, "the constraint could not be followed");
        let followed = self.directory.surroundings().workplace.compute(follow).await.ok_or_else(panicked)?;
        let follower =
            followed.map_err(|error| Fault::new(Party::Client, FaultKind::BadInput, error).in_constraint())?;
        Ok(Some(Box::new(follower)))
    }

    /// A verifier that answers, at once or when there is one.
    async fn choose_verifier(&mut self) -> Result<Held<TargetInfo>, Fault> {
        // Its own load must not keep a sequence from where it was.
        self.verifier = None;
        let target = &self.request.target.card;
        if !self.failing
            && let Some(verifier) = self.directory.verifier(target, self.request.key, &self.refused)
        {
            return Ok(verifier);
        }
        let until = self.route.patient_until(Instant::now());
        timeout_at(until, self.wait_for_verifier()).await.map_err(|_| {
            let what = format_args!("no verifier of target `{}` is left", self.request.target.card.name);
            Fault::new(Party::Verifier, FaultKind::Gone, what)
        })
    }

    /// The first verifier that answers when it is the turn of a sequence that has failed. Nobody has a turn whom it would
    /// be of no use to.
    async fn wait_for_verifier(&self) -> Held<TargetInfo> {
        let target = &self.request.target.card;
        loop {
            self.directory.until_has_verifier(target, &self.refused).await;
            if self.failing {
                self.at_work.turn().await;
            }
            if let Some(verifier) = self.directory.verifier(target, self.request.key, &self.refused) {
                return verifier;
            }
        }
    }

    /// How far the sequence has come. When all verifiers have refused it, all may be asked again.
    fn progress(&mut self) -> Progress {
        let elsewhere = self.directory.has_verifier(&self.request.target.card, &self.refused);
        if !elsewhere {
            self.refused.clear();
        }
        Progress { drafted: self.drafting.drafter().is_some(), begun: self.has_begun(), elsewhere }
    }

    /// Sees to it that others are preferred to a service that was lost or refused the sequence.
    fn note_loss(&mut self, fault: &Fault) {
        if is_refusal(fault) {
            self.refused.extend(self.verifier.as_ref().map(|verifier| verifier.peer().url().to_owned()));
        }
        let passes = matches!(fault.kind, FaultKind::Gone | FaultKind::Overloaded | FaultKind::LostSequence);
        if fault.party != Party::Verifier && !passes {
            self.unfit.extend(self.drafting.drafter().map(|drafter| drafter.url().to_owned()));
        }
        // Who has no room says so at once, and each is asked but once before a pause.
        self.failing |= fault.kind != FaultKind::Overloaded;
        match (fault.kind, fault.party, self.drafting.held(), &self.verifier) {
            (FaultKind::Gone, Party::Drafter, Some(drafter), _) => drafter.lost(fault),
            (FaultKind::Gone, Party::Verifier, _, Some(verifier)) => verifier.lost(fault),
            _ => {}
        }
    }

    /// Has another proposer go on, if so decided.
    fn turn(&mut self, turn: Turn) {
        self.drafting = match turn {
            Turn::Again => return,
            Turn::Ngram => Drafting::Ngram,
            Turn::OtherDrafter => {
                self.failed.extend(self.drafting.drafter().map(|drafter| drafter.url().to_owned()));
                Drafting::find(&self.request, &self.directory, &self.failed)
            }
        };
        self.policy = self.request.policy(self.drafting.name());
    }

    fn commit(&mut self, mut report: RoundReport) -> Result<GenerationEvent, Fault> {
        self.check(&report)?;
        self.route.came_further();
        let tokens = self.request.text.push(&report)?;
        // What a stop string cut off was never said.
        report.cut(tokens.len());
        self.tally.add(&report);
        self.counted.round(&report, self.drafting.name());
        let round = self.trace(&report)?;
        self.request.sequence.commit(&report.tokens);
        self.finish = self.find_finish();
        if self.finish.is_some() {
            self.rounds = None;
        }
        Ok(GenerationEvent::Tokens(Chunk { tokens, round }))
    }

    /// The round as it is told, if that is wanted.
    fn trace(&self, report: &RoundReport) -> Result<Option<Box<RoundTrace>>, Fault> {
        if !self.request.rounds {
            return Ok(None);
        }
        self.request.text.trace(report, self.drafting.name(), self.let_in.elapsed()).map(|round| Some(Box::new(round)))
    }

    fn check(&self, report: &RoundReport) -> Result<(), Fault> {
        let (count, room) = (report.tokens.len(), self.request.sequence.max_tokens);
        let broken = |what| Err(Fault::new(Party::Drafter, FaultKind::Internal, what));
        if count > room {
            return broken(format!("a round committed {count} tokens where {room} may follow"));
        }
        if self.request.sequence.logprobs.is_some() && report.logprobs.len() != count {
            return broken(format!("a round committed {count} tokens with {} logprobs", report.logprobs.len()));
        }
        Ok(())
    }

    fn find_finish(&self) -> Option<FinishReason> {
        let last = self.request.sequence.committed.last()?;
        if self.request.text.stop_string().is_some() || self.stops().contains(last) {
            return Some(FinishReason::Stop);
        }
        (self.request.sequence.max_tokens == 0).then_some(FinishReason::Length)
    }

    fn completion(&mut self, reason: FinishReason) -> Result<Completion, Fault> {
        let text = self.request.text.finish()?;
        // What was held back may be where a stop string ends.
        let stop_string = self.request.text.stop_string().map(str::to_owned);
        let reason = if stop_string.is_some() { FinishReason::Stop } else { reason };
        Ok(Completion {
            reason,
            prompt_tokens: self.request.sequence.prompt_len(),
            completion_tokens: self.request.sequence.generated,
            speculation: self.tally.summary(self.drafting.name(), &self.policy, self.route.failovers()),
            text,
            seed: self.request.sequence.sampling.seed(),
            stop_string,
        })
    }

    fn opening(&self) -> Open {
        Open { sequence: self.request.sequence.clone(), tap: None }
    }

    fn start(&self, verifier: String) -> Start {
        Start {
            sequence: self.request.sequence.clone(),
            target: self.request.target.card.name.clone(),
            verifier,
            policy: self.policy.to_string(),
            exit_thresholds: self.drafting.card().and_then(|drafter| self.request.exit_thresholds(drafter)),
            trees: self.request.rounds,
        }
    }

    /// All tokens that end the text: the target's own and the request's.
    fn stops(&self) -> Vec<Token> {
        [self.request.target.card.end_tokens.as_slice(), &self.request.sequence.stop_tokens].concat()
    }

    fn has_begun(&self) -> bool {
        self.request.sequence.generated > 0
    }
}
