//! The loop.

use std::collections::VecDeque;
use std::time::Duration;

use espalier_proto::{Credit, DrafterEvent, Fault, FaultKind, NumberedTree, Party, RoundCost, RoundReport, Submission};
use espalier_speculation::Tree;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{Span, field};

use crate::grants::Grants;
use crate::ports::{Proposer, Verifier};
use crate::rest::Rest;
use crate::sequence::{Feedback, Proposed, Sequence};

/// What a run tells: rounds, then either its end or what went wrong.
pub type Event = Result<DrafterEvent, Fault>;

/// Where a run tells it.
pub type Events = mpsc::Sender<Event>;

/// The most events that should wait to be read before a run waits too.
pub const EVENTS_MAX: usize = 8;

/// Runs one sequence: a proposer, a verifier, and what is committed so far.
#[derive(Debug)]
pub struct Driver<P, V> {
    sequence: Sequence,
    proposer: P,
    verifier: V,
    /// Rounds whose outcomes are still to come, oldest first.
    under_way: VecDeque<Round>,
    /// When the run began or the last outcome came, later by what was waited for grants and readers since.
    resumed: Instant,
    rest: Rest,
    /// Whether each round has a span of its own.
    traced: bool,
    /// Whether each is told with the tree that was drafted for it.
    trees: bool,
    /// Whether the last round was one at rest.
    rests: bool,
}

/// A round whose outcome is still to come.
#[derive(Debug)]
struct Round {
    proposed: Proposed,
    draft: Duration,
    /// From when it begins until its outcome is committed.
    span: Span,
}

impl Round {
    /// A round without a tree.
    fn plain(traced: bool) -> Self {
        Self { proposed: Proposed::Plain, draft: Duration::ZERO, span: round_span(traced) }
    }
}

/// The span of a round, or none. It has a level that no line of a log is of.
fn round_span(traced: bool) -> Span {
    if !traced {
        return Span::none();
    }
    tracing::debug_span!(
        "round",
        round = field::Empty,
        tree.nodes = field::Empty,
        tree.depth = field::Empty,
        accepted = field::Empty,
        tokens = field::Empty,
        draft_ms = field::Empty,
        verify_ms = field::Empty,
        wait_ms = field::Empty,
    )
}

/// Writes what came of a round into its span.
fn record(span: &Span, report: &RoundReport) {
    if span.is_disabled() {
        return;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    // Signed, as traces have no other numbers: unsigned ones would become text.
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let cost = &report.cost;
    span.record("round", i64::try_from(report.round).unwrap_or(i64::MAX))
        .record("tree.nodes", count(cost.verified))
        .record("tree.depth", count(cost.depth))
        .record("accepted", count(report.accepted))
        .record("tokens", count(report.tokens.len()))
        .record("draft_ms", ms(cost.draft))
        .record("verify_ms", ms(cost.verify))
        .record("wait_ms", ms(cost.wait));
}

impl<P: Proposer, V: Verifier> Driver<P, V> {
    /// A run that has not begun.
    pub fn new(sequence: Sequence, proposer: P, verifier: V) -> Self {
        Self {
            sequence,
            proposer,
            verifier,
            under_way: VecDeque::new(),
            resumed: Instant::now(),
            rest: Rest::default(),
            traced: false,
            trees: false,
            rests: false,
        }
    }

    /// The same, with a span for each round if the run is `traced`: below the span that it runs in.
    #[must_use]
    pub fn traced(self, traced: bool) -> Self {
        Self { traced, ..self }
    }

    /// The same, with the tree that was drafted told for each round, if `trees` are wanted.
    #[must_use]
    pub fn telling_trees(self, trees: bool) -> Self {
        Self { trees, ..self }
    }

    /// Runs rounds, each against a grant, until the sequence ends, something fails, grants are closed, or nobody reads the
    /// events any more. Whatever it is, everything held is dropped before the last event is told: who hears of the last
    /// round may come again at once.
    pub async fn run(mut self, grants: Grants, events: Events) {
        let last = tokio::select! {
            biased;
            () = events.closed() => Ok(Vec::new()),
            last = self.rounds(&grants, &events) => last,
        };
        drop(self);
        let last = last.map_or_else(|fault| vec![Err(fault)], |events| events.into_iter().map(Ok).collect());
        for event in last {
            // A reader that has gone by now does not want to know.
            let _ = events.send(event).await;
        }
    }

    /// What is to be told last: the round that ended the sequence and why it did; nothing if it was abandoned.
    async fn rounds(&mut self, grants: &Grants, events: &Events) -> Result<Vec<DrafterEvent>, Fault> {
        let mut report = None;
        loop {
            if let Some(reason) = self.sequence.finish() {
                let report = report.map(DrafterEvent::Round);
                return Ok(report.into_iter().chain([DrafterEvent::Finished(reason)]).collect());
            }
            if let Some(report) = report
                && !self.tell(report, events).await
            {
                return Ok(Vec::new());
            }
            if !self.begin_rounds(grants).await? {
                return Ok(Vec::new());
            }
            report = Some(self.end_round().await?);
        }
    }

    /// Tells of a round; `false` if nobody reads any more.
    async fn tell(&mut self, report: RoundReport, events: &Events) -> bool {
        let asked = Instant::now();
        let told = events.send(Ok(DrafterEvent::Round(report))).await;
        self.pause(asked.elapsed());
        told.is_ok()
    }

    /// Sees to it that a round is under way, and that a sequence at rest does not run out of credit. `false`: none will come.
    async fn begin_rounds(&mut self, grants: &Grants) -> Result<bool, Fault> {
        if !self.under_way.is_empty() {
            self.top_up(grants).await?;
            return Ok(true);
        }
        let asked = Instant::now();
        if !grants.take().await {
            return Ok(false);
        }
        self.pause(asked.elapsed());
        let rests = self.proposer.rests();
        self.note_rest(rests);
        if rests {
            let further = grants.take_up_to(self.wanted_credit().saturating_sub(1));
            self.give_credit(1 + further, true).await?;
        } else {
            self.propose().await?;
        }
        Ok(true)
    }

    /// Notes in the trace when drafting begins to rest, and when it goes on.
    fn note_rest(&mut self, rests: bool) {
        let changed = std::mem::replace(&mut self.rests, rests) != rests;
        if self.traced && changed {
            tracing::debug!(rests, "{}", if rests { "drafting rests" } else { "drafting goes on" });
        }
    }

    /// Gives more credit before it runs out, if the proposer still rests.
    async fn top_up(&mut self, grants: &Grants) -> Result<(), Fault> {
        if !self.rest.is_low(self.under_way.len()) || self.wanted_credit() == 0 || !self.proposer.rests() {
            return Ok(());
        }
        match grants.take_up_to(self.wanted_credit()) {
            0 => Ok(()),
            tokens => self.give_credit(tokens, true).await,
        }
    }

    fn wanted_credit(&self) -> usize {
        self.rest.wanted(self.sequence.remaining(), self.under_way.len())
    }

    async fn give_credit(&mut self, tokens: usize, states_later: bool) -> Result<(), Fault> {
        let round = self.next_round();
        self.under_way.extend((0..tokens).map(|_| Round::plain(self.traced)));
        self.verifier.submit(Submission::Credit(Credit { round, tokens, states_later })).await
    }

    async fn propose(&mut self) -> Result<(), Fault> {
        let (begun, span) = (Instant::now(), round_span(self.traced));
        let proposed = self.proposer.propose(&self.sequence).await?;
        let Proposed::Tree { tree, .. } = &proposed else { return self.give_credit(1, false).await };
        let numbered = NumberedTree { round: self.next_round(), tree: tree.clone() };
        self.under_way.push_back(Round { proposed, draft: begun.elapsed(), span });
        self.verifier.submit(Submission::Tree(numbered)).await
    }

    fn next_round(&self) -> u64 {
        self.sequence.rounds() + self.under_way.len() as u64
    }

    /// Time in which the sequence could not go on.
    fn pause(&mut self, paused: Duration) {
        self.resumed += paused;
    }

    /// Waits for the oldest round's outcome and commits it.
    async fn end_round(&mut self) -> Result<RoundReport, Fault> {
        let asked = Instant::now();
        let outcome = self.verifier.outcome().await?;
        let Some(Round { proposed, draft, span }) = self.under_way.pop_front() else {
            return Err(unasked(outcome.round));
        };
        self.sequence.commit(&proposed, &outcome)?;
        let now = Instant::now();
        let took = now.saturating_duration_since(std::mem::replace(&mut self.resumed, now));
        let feedback = Feedback { proposed: &proposed, outcome: &outcome, draft, took };
        if let (Proposed::Plain, false) = (&proposed, feedback.is_first()) {
            self.rest.observe(took);
        }
        self.proposer.observe(&feedback).await?;
        let told = if self.trees { proposed.told(&outcome) } else { None };
        let tree = proposed.tree().map(|tree| tree.tree());
        let report = RoundReport {
            round: outcome.round,
            accepted: outcome.accepted(),
            cost: RoundCost {
                drafted: proposed.drafted(),
                verified: tree.map_or(0, Tree::len),
                depth: tree.map_or(0, Tree::depth),
                draft,
                verify: outcome.compute,
                wait: (now - asked).saturating_sub(outcome.compute),
            },
            tokens: outcome.tokens,
            logprobs: outcome.logprobs,
            tree: told.map(Box::new),
        };
        record(&span, &report);
        Ok(report)
    }
}

fn unasked(round: u64) -> Fault {
    let what = format!("the outcome of round {round} came without a tree");
    Fault::new(Party::Verifier, FaultKind::Internal, what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use espalier_proto::{Grant, Outcome};
    use espalier_speculation::{Acceptance, FinishReason, NgramLimits, PassLoad, Token, commit, walk};
    use proptest::prelude::*;

    use super::*;
    use crate::fallback::{Ngram, Plain};

    const END: Token = 0;
    const VOCAB: Token = 5;

    /// A target whose next token is a fixed function of the text.
    fn next_token(text: &[Token]) -> Token {
        let sum = text.iter().rev().take(3).fold(1, |sum: Token, token| sum.wrapping_mul(31).wrapping_add(*token));
        (sum.wrapping_mul(2_654_435_761) >> 16) % VOCAB
    }

    /// That target as a verifier; `patience` outcomes are given, then it is gone.
    struct Target {
        committed: Vec<Token>,
        remaining: usize,
        outcomes: VecDeque<Outcome>,
        patience: usize,
    }

    impl Target {
        fn new(committed: &[Token], max_tokens: usize) -> Self {
            let outcomes = VecDeque::new();
            Self { committed: committed.to_vec(), remaining: max_tokens, outcomes, patience: usize::MAX }
        }

        fn verify(&mut self, round: u64, tree: &Tree) -> Outcome {
            let decide = |node: usize| {
                let path = tree.path(node).into_iter().map(|id| tree.node(id).unwrap().token);
                let text: Vec<Token> = self.committed.iter().copied().chain(path).collect();
                Ok::<_, ()>(next_token(&text))
            };
            let walk = walk(tree, decide).unwrap();
            let committed = commit(tree, &walk, &[END], self.remaining);
            self.committed.extend(&committed.tokens);
            self.remaining -= committed.tokens.len();
            Outcome {
                round,
                path: walk.path[..committed.accepted].to_vec(),
                tokens: committed.tokens,
                logprobs: vec![],
                finish: committed.finish,
                compute: Duration::from_micros(5),
                queue: Duration::ZERO,
                load: PassLoad::default(),
                prompts: Duration::ZERO,
                states: None,
            }
        }
    }

    impl Verifier for Target {
        async fn submit(&mut self, submission: Submission) -> Result<(), Fault> {
            let rounds = submission.round()..submission.round() + submission.rounds() as u64;
            let tree = match submission {
                Submission::Tree(numbered) => numbered.tree.tree().clone(),
                Submission::Credit(_) => Tree::new(),
            };
            for round in rounds {
                if self.outcomes.back().is_none_or(|outcome| outcome.finish.is_none()) {
                    let outcome = self.verify(round, &tree);
                    self.outcomes.push_back(outcome);
                }
            }
            Ok(())
        }

        async fn outcome(&mut self) -> Result<Outcome, Fault> {
            let gone = Fault::new(Party::Verifier, FaultKind::Gone, "connection reset");
            self.patience = self.patience.checked_sub(1).ok_or(gone.clone())?;
            self.outcomes.pop_front().ok_or(gone)
        }
    }

    /// Proposes trees that were drawn beforehand, over and over, and rests after each for as long as it is told.
    #[derive(Clone)]
    struct Drawn {
        trees: Vec<Tree>,
        rest: usize,
        proposed: usize,
        rested: usize,
        /// Trees that are to be heard of, in their order.
        due: VecDeque<Tree>,
    }

    impl Drawn {
        fn new(trees: Vec<Tree>, rest: usize) -> Self {
            Self { trees, rest, proposed: 0, rested: rest, due: VecDeque::new() }
        }
    }

    impl Proposer for Drawn {
        fn rests(&mut self) -> bool {
            self.rested += 1;
            self.rested <= self.rest
        }

        async fn propose(&mut self, _: &Sequence) -> Result<Proposed, Fault> {
            let tree = self.trees[self.proposed % self.trees.len()].clone();
            self.proposed += 1;
            self.rested = 0;
            if tree.is_empty() {
                return Ok(Proposed::Plain);
            }
            self.due.push_back(tree.clone());
            Ok(Proposed::whole(tree))
        }

        async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
            if let Some(tree) = feedback.proposed.tree() {
                assert_eq!(Some(tree.tree()), self.due.pop_front().as_ref());
            }
            Ok(())
        }
    }

    /// A proposer that holds something.
    struct Holding {
        inner: Drawn,
        _held: Arc<()>,
    }

    impl Proposer for Holding {
        async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
            self.inner.propose(sequence).await
        }

        async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
            self.inner.observe(feedback).await
        }
    }

    fn granted(rounds: usize) -> Grants {
        let grants = Grants::new();
        grants.add(Grant::new(rounds).unwrap()).unwrap();
        grants
    }

    async fn events_of<P: Proposer>(proposer: P, target: Target, grants: Grants) -> Vec<Event> {
        let sequence = Sequence::new(target.committed.clone(), target.remaining);
        let (events, mut read) = mpsc::channel(EVENTS_MAX);
        let run = Driver::new(sequence, proposer, target).run(grants, events);
        let collect = async {
            let mut seen = Vec::new();
            while let Some(event) = read.recv().await {
                seen.push(event);
            }
            seen
        };
        tokio::join!(run, collect).1
    }

    fn text_of(events: &[Event]) -> (Vec<Token>, Option<FinishReason>) {
        let mut text = (Vec::new(), None);
        for event in events {
            match event.as_ref().unwrap() {
                DrafterEvent::Round(report) => text.0.extend(&report.tokens),
                DrafterEvent::Finished(reason) => text.1 = Some(*reason),
            }
        }
        text
    }

    /// What the target says alone, token by token.
    fn plain_text(prompt: &[Token], max_tokens: usize) -> (Vec<Token>, Option<FinishReason>) {
        let mut text = prompt.to_vec();
        for _ in 0..max_tokens {
            text.push(next_token(&text));
            if text.ends_with(&[END]) {
                return (text[prompt.len()..].to_vec(), Some(FinishReason::Stop));
            }
        }
        (text[prompt.len()..].to_vec(), Some(FinishReason::Length))
    }

    fn any_tree() -> impl Strategy<Value = Tree> {
        proptest::collection::vec((0..8usize, 0..VOCAB), 0..8).prop_map(|nodes| {
            let mut tree = Tree::new();
            for (parent, token) in nodes {
                let parent = parent % (tree.len() + 1);
                // A sibling that is there already is left out.
                let _ = tree.push(parent, token, 0.5);
            }
            tree
        })
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    proptest! {
        #[test]
        fn the_text_is_the_target_s_whatever_is_proposed(
            prompt in proptest::collection::vec(1..VOCAB, 1..6),
            max_tokens in 1..40usize,
            trees in proptest::collection::vec(any_tree(), 1..6),
            rest in 0..4usize,
        ) {
            let expected = plain_text(&prompt, max_tokens);
            let target = || Target::new(&prompt, max_tokens);
            let drawn = Drawn::new(trees, rest);
            let ngram = Ngram::new(vec![END], NgramLimits::default(), Acceptance::Coupled);
            prop_assert_eq!(text_of(&wait(events_of(drawn, target(), granted(100)))), expected.clone());
            prop_assert_eq!(text_of(&wait(events_of(ngram, target(), granted(100)))), expected.clone());
            prop_assert_eq!(text_of(&wait(events_of(Plain, target(), granted(100)))), expected);
        }
    }

    /// A target that never says the end within `max_tokens`.
    fn endless_prompt(max_tokens: usize) -> Vec<Token> {
        let prompts = (1..1000).map(|seed: Token| vec![seed % 7 + 1, seed % 11 + 1, seed % 13 + 1]);
        prompts.into_iter().find(|prompt| plain_text(prompt, max_tokens).1 == Some(FinishReason::Length)).unwrap()
    }

    #[tokio::test]
    async fn no_round_begins_without_a_grant() {
        let target = Target::new(&endless_prompt(10), 10);
        let sequence = Sequence::new(target.committed.clone(), 10);
        let (events, mut read) = mpsc::channel(EVENTS_MAX);
        let grants = granted(3);
        let run = tokio::spawn(Driver::new(sequence, Plain, target).run(grants.clone(), events));
        for _ in 0..3 {
            assert!(matches!(read.recv().await, Some(Ok(DrafterEvent::Round(_)))));
        }
        tokio::task::yield_now().await;
        assert!(read.try_recv().is_err());
        grants.close();
        assert_eq!(read.recv().await, None, "a run that may go no further just ends");
        run.await.unwrap();
    }

    #[tokio::test]
    async fn what_a_sequence_held_is_free_before_its_last_round_is_told() {
        let prompt = endless_prompt(2);
        let tree = Tree::new();
        let drawn = Drawn::new(vec![tree], 0);
        let held = Arc::new(());
        let proposer = Holding { inner: drawn, _held: held.clone() };
        let driver = Driver::new(Sequence::new(prompt.clone(), 2), proposer, Target::new(&prompt, 2));
        // There is room for the first round only.
        let (events, mut read) = mpsc::channel(1);
        let run = tokio::spawn(driver.run(granted(2), events));
        tokio::task::yield_now().await;
        assert!(!run.is_finished() && Arc::strong_count(&held) == 1);
        for round in 0..2 {
            assert!(matches!(read.recv().await, Some(Ok(DrafterEvent::Round(report))) if report.round == round));
        }
        assert!(matches!(read.recv().await, Some(Ok(DrafterEvent::Finished(FinishReason::Length)))));
    }

    /// A verifier that notes what was submitted, and what had come back by then.
    struct Noting {
        inner: Target,
        told: usize,
        noted: Arc<Mutex<Vec<(usize, usize)>>>,
    }

    impl Verifier for Noting {
        async fn submit(&mut self, submission: Submission) -> Result<(), Fault> {
            self.noted.lock().unwrap().push((submission.rounds(), self.told));
            self.inner.submit(submission).await
        }

        async fn outcome(&mut self) -> Result<Outcome, Fault> {
            self.told += 1;
            self.inner.outcome().await
        }
    }

    #[tokio::test]
    async fn credit_is_topped_up_before_it_runs_out_as_far_as_grants_and_tokens_go() {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let verifier = Noting { inner: Target::new(&endless_prompt(40), 40), told: 0, noted: Arc::clone(&noted) };
        let sequence = Sequence::new(verifier.inner.committed.clone(), 40);
        let (events, mut read) = mpsc::channel(EVENTS_MAX);
        let grants = granted(10);
        let run = tokio::spawn(Driver::new(sequence, Plain, verifier).run(grants.clone(), events));
        for _ in 0..10 {
            assert!(matches!(read.recv().await, Some(Ok(DrafterEvent::Round(_)))));
        }
        grants.add(Grant::new(100).unwrap()).unwrap();
        while read.recv().await.is_some() {}
        run.await.unwrap();
        // Tokens credited, and outcomes told before: four at first; this target takes no time, so then as many as may be,
        // and half of that as half is used up; no more than was granted.
        assert_eq!(*noted.lock().unwrap(), [(4, 0), (6, 2), (16, 10), (8, 18), (6, 26)]);
    }

    #[tokio::test]
    async fn a_lost_verifier_ends_the_run_with_its_fault_after_what_was_committed() {
        let target = Target { patience: 2, ..Target::new(&endless_prompt(10), 10) };
        let events = events_of(Plain, target, granted(100)).await;
        assert_eq!(events.len(), 3);
        let fault = events[2].as_ref().unwrap_err();
        assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Gone));
    }

    #[tokio::test]
    async fn a_run_that_nobody_follows_ends_even_while_it_waits() {
        let target = Target::new(&endless_prompt(10), 10);
        let sequence = Sequence::new(target.committed.clone(), 10);
        let (events, read) = mpsc::channel(EVENTS_MAX);
        let run = tokio::spawn(Driver::new(sequence, Plain, target).run(Grants::new(), events));
        tokio::task::yield_now().await;
        drop(read);
        run.await.unwrap();
    }

    #[tokio::test]
    async fn a_round_tells_what_it_cost() {
        let mut tree = Tree::new();
        let prompt = endless_prompt(4);
        let first = tree.push(0, next_token(&prompt), 0.5).unwrap();
        tree.push(first, VOCAB, 0.5).unwrap();
        let drawn = Drawn::new(vec![tree], 0);
        let events = events_of(drawn, Target::new(&prompt, 4), granted(100)).await;
        let Ok(DrafterEvent::Round(report)) = &events[0] else { panic!("no round: {:?}", events[0]) };
        assert_eq!((report.round, report.accepted, report.tokens.len()), (0, 1, 2));
        assert_eq!((report.cost.drafted, report.cost.verified, report.cost.depth), (2, 2, 2));
        assert_eq!(report.cost.verify, Duration::from_micros(5));
    }
}
