//! The draft model as a port of the round loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use espalier_proto::{Fault, FaultKind, Outcome, Party, RoundCounts};
use espalier_round::{Feedback, Proposed, Proposer, Sequence};
use espalier_speculation::{Limits, RoundTime};

use crate::engine::{Drafting, Loan, Session};
use crate::error::SequenceError;

/// Tokens that the target is asked for at once while the model rests. Each message there and back costs both processors and
/// the network, and while many sequences rest this is all that a drafter costs.
const PLAIN_SPAN: usize = 4;

/// Spans that may be under way at once: the target always finds the next one waiting.
const RESTING_LOOKAHEAD: usize = 2;

/// The longest rest before the policy is asked whether it goes on: what others learn changes.
const REST_ROUNDS_MAX: usize = 64;

/// Plain rounds whose mean time is learnt from.
const PLAIN_ROUNDS: u32 = 6;

/// Proposes trees for one sequence.
///
/// When the policy drafts nothing, plain decoding is faster than drafting. Then the model rests for some rounds: empty trees
/// go out without waiting for outcomes, so that a sequence that is not worth drafting for costs what plain decoding costs.
/// A rest that goes on is prolonged while they are under way; it ends with them.
pub(crate) struct EngineProposer {
    engine: Session,
    /// Away while the engine has it.
    drafting: Option<Box<Drafting>>,
    /// Where it is while it is drafted ahead.
    lent: Option<Arc<Loan>>,
    rest: Rest,
    /// When the round that drafts began.
    begun: Instant,
    /// Plain rounds whose time is being taken.
    plain: PlainRounds,
}

/// Plain rounds in a row. They overlap, and their outcomes come in bunches, so only their mean says what one costs.
#[derive(Debug, Default)]
struct PlainRounds {
    /// When the first of them began.
    begun: Option<Instant>,
    ended: u32,
}

impl PlainRounds {
    /// One begins.
    fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// So many ended; gives what they took on average, once there are enough of them.
    fn end(&mut self, rounds: usize) -> Option<Duration> {
        self.ended += rounds as u32;
        let begun = self.begun.filter(|_| self.ended >= PLAIN_ROUNDS)?;
        let mean = begun.elapsed() / self.ended;
        *self = Self { begun: Some(Instant::now()), ended: 0 };
        Some(mean)
    }
}

/// When to draft and when not to.
#[derive(Debug, Default)]
struct Rest {
    /// Rounds of plain decoding still to begin.
    left: usize,
    /// For each proposal whose outcome is still to come, oldest first: whether it is one of plain decoding.
    under_way: VecDeque<bool>,
}

impl Rest {
    /// How many rounds of plain decoding are to be proposed together, if any: one where nothing `can_draft`. Counts them as
    /// begun.
    fn begin_rounds(&mut self, can_draft: bool) -> Option<usize> {
        let plain = self.left > 0 || !can_draft;
        let span = self.left.clamp(1, PLAIN_SPAN);
        self.left = self.left.saturating_sub(span);
        self.under_way.push_back(plain);
        plain.then_some(span)
    }

    /// Whether the oldest proposal under way was one of plain decoding; counts it as ended.
    fn end_rounds(&mut self) -> bool {
        self.under_way.pop_front().unwrap_or(false)
    }

    /// The policy need not be asked for so many rounds.
    fn begin(&mut self, rounds: usize) {
        self.left = rounds.min(REST_ROUNDS_MAX);
    }

    /// Whether the next proposal is one of plain decoding too, whatever comes of those under way.
    fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// Whether the one round under way has a draft, and the next one is to have one.
    fn is_drafting(&self) -> bool {
        self.left == 0 && self.under_way == [false]
    }

    fn lookahead(&self) -> usize {
        // Drafting needs the outcomes of all rounds before it.
        if self.left > 0 { RESTING_LOOKAHEAD } else { 1 }
    }
}

impl EngineProposer {
    pub(crate) fn new(engine: Session, drafting: Box<Drafting>) -> Self {
        Self {
            engine,
            drafting: Some(drafting),
            lent: None,
            rest: Rest::default(),
            begun: Instant::now(),
            plain: PlainRounds::default(),
        }
    }
}

impl Proposer for EngineProposer {
    fn lookahead(&self) -> usize {
        self.rest.lookahead()
    }

    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let mut drafting = self.drafting.take().ok_or(SequenceError::Stopped)?;
        if let Some(rounds) = self.rest.begin_rounds(drafting.can_draft()) {
            self.drafting = Some(drafting);
            self.plain.begin();
            let states_later = self.rest.goes_on();
            return Ok(Proposed { states_later, ..Proposed::plain(rounds.min(sequence.remaining())) });
        }
        self.begun = Instant::now();
        // A path of `d` nodes commits `d + 1` tokens.
        let max_depth = sequence.remaining().saturating_sub(1);
        drafting.begin(Limits { max_nodes: usize::MAX, max_depth });
        let (drafting, mut proposed) = self.engine.grow(drafting).await?;
        self.engine.count(&RoundCounts { drafted: proposed.drafted as u64, ..RoundCounts::default() });
        // A draft that was not good enough to be sent says nothing of the next one.
        if proposed.drafted == 0 && max_depth > 0 {
            self.rest.begin(drafting.rest());
            proposed.states_later = self.rest.goes_on();
        }
        self.drafting = Some(drafting);
        Ok(proposed)
    }

    fn go_ahead(&mut self, sequence: &Sequence) {
        if !self.rest.is_drafting() {
            return;
        }
        let Some(mut drafting) = self.drafting.take() else { return };
        match drafting.go_ahead(sequence.remaining()) {
            true => self.lent = Some(self.engine.lend(drafting)),
            false => self.drafting = Some(drafting),
        }
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        let was_ahead = self.lent.is_some();
        if let Some(lent) = &self.lent {
            self.drafting = Some(lent.take_back().await?);
            self.lent = None;
        }
        let Some(drafting) = &mut self.drafting else {
            return Err(Fault::new(Party::Drafter, FaultKind::Internal, "an outcome came while a tree was growing"));
        };
        let Feedback { tree, outcome } = *feedback;
        self.engine.count(&counts(feedback));
        if self.rest.end_rounds() {
            if let Some(took) = self.plain.end(outcome.passes()) {
                drafting.costs.lock().observe_plain(took, outcome.load);
            }
            drafting.append(outcome)?;
            if !self.rest.goes_on() {
                self.rest.begin(drafting.rest_on());
            }
            return Ok(());
        }
        self.plain = PlainRounds::default();
        // The first round waits for the target to read the prompt, which no later round does.
        if outcome.round > 0 {
            let took = self.begun.elapsed();
            drafting.observe_round(outcome, took);
            let elapsed = took.saturating_sub(drafting.steps_took);
            let &Outcome { compute, queue, load, .. } = outcome;
            let took = RoundTime { elapsed, compute, queue, load };
            drafting.costs.lock().observe_verification(tree.len(), took);
        }
        drafting.apply(outcome)?;
        if was_ahead {
            self.engine.count_ahead(drafting.is_begun());
        }
        Ok(())
    }
}

/// What a round adds to the counts besides what was drafted, which counts at once.
fn counts(Feedback { tree, outcome }: &Feedback<'_>) -> RoundCounts {
    let [rounds, verified, accepted, tokens] =
        [outcome.passes(), tree.len(), outcome.accepted(), outcome.tokens.len()].map(|count| count as u64);
    RoundCounts { rounds, drafted: 0, verified, accepted, tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_asks_for_several_tokens_at_once_looks_ahead_and_ends() {
        let mut rest = Rest::default();
        for (wanted, spans) in [(1, vec![1]), (9, vec![4, 4, 1]), (1000, vec![4; REST_ROUNDS_MAX / 4])] {
            assert_eq!((rest.begin_rounds(true), rest.lookahead()), (None, 1));
            rest.begin(wanted);
            for span in spans {
                assert!(rest.goes_on() && rest.lookahead() == RESTING_LOOKAHEAD);
                assert_eq!(rest.begin_rounds(true), Some(span));
            }
            assert!(!rest.goes_on());
        }
        assert_eq!(rest.begin_rounds(true), None);
    }

    #[test]
    fn outcomes_of_rests_are_told_from_those_of_trees() {
        let mut rest = Rest::default();
        rest.begin_rounds(true);
        rest.begin(5);
        assert!(!rest.end_rounds(), "the empty tree that the policy chose");
        rest.begin_rounds(true);
        rest.begin_rounds(true);
        assert!(rest.end_rounds() && rest.end_rounds() && !rest.end_rounds());
    }

    #[test]
    fn who_cannot_draft_yet_decodes_plainly_and_looks_no_further_ahead() {
        let mut rest = Rest::default();
        assert!(rest.begin_rounds(false) == Some(1) && rest.end_rounds());
        assert_eq!(rest.lookahead(), 1);
        assert_eq!(rest.begin_rounds(true), None);
    }
}
