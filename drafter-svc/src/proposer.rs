//! The draft model as a port of the round loop.

use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Outcome, Party, RoundCounts};
use espalier_round::{Feedback, Proposed, Proposer, Sequence};
use espalier_speculation::{GateRound, Limits, RoundTime};

use crate::engine::{Drafting, Reading, SequenceHandle};
use crate::learned::SharedGate;

/// Proposes trees for one sequence, while the gate of its target lets it.
///
/// Where the draft model is busy with others, its target does not wait until it has read a prompt, or what was committed
/// while it rested: it decodes plainly meanwhile. So it does where more waits than the model's next pass runs, as its tree
/// would come late. Where it is always drafted, every round waits for its tree.
pub(crate) struct EngineProposer {
    engine: SequenceHandle,
    drafting: Held,
    /// The largest tree that the target's verifier takes, in nodes.
    max_nodes: usize,
    /// None where it is always drafted.
    gate: Option<SharedGate>,
    /// Whether the last round was drafted for.
    drafted: Option<bool>,
}

/// Who has the sequence.
enum Held {
    /// Nobody else.
    Here(Box<Drafting>),
    /// The engine, which reads; and what was committed since.
    Reading(Reading, Vec<Outcome>),
    /// The engine, which grows a tree, or has failed to.
    Away,
}

impl EngineProposer {
    pub(crate) fn new(
        engine: SequenceHandle,
        drafting: Box<Drafting>,
        max_nodes: usize,
        gate: Option<SharedGate>,
    ) -> Self {
        if let Some(gate) = &gate {
            gate.lock().enter();
        }
        Self { engine, drafting: Held::Here(drafting), max_nodes, gate, drafted: None }
    }

    /// The sequence, if a tree can be grown for it now, and `wanted` is one.
    async fn take(&mut self, wanted: bool) -> Result<Option<Box<Drafting>>, Fault> {
        let (drafting, has_read) = match std::mem::replace(&mut self.drafting, Held::Away) {
            Held::Here(drafting) => (drafting, false),
            Held::Reading(mut reading, since) => match reading.ended() {
                Some(read) => (caught_up(read?, &since)?, true),
                None => {
                    self.drafting = Held::Reading(reading, since);
                    return Ok(None);
                }
            },
            Held::Away => return Ok(None),
        };
        let drafts = wanted && drafting.can_draft();
        let reads = drafts && !has_read && self.reads_first(&drafting);
        self.drafting = match drafts {
            true if !reads => return Ok(Some(drafting)),
            true if drafting.can_read() => Held::Reading(self.engine.read(drafting).await?, Vec::new()),
            _ => Held::Here(drafting),
        };
        Ok(None)
    }

    /// Whether there is so much to read, by a model that is busy, that its target goes on meanwhile.
    fn reads_first(&self, drafting: &Drafting) -> bool {
        self.gate.is_some() && self.engine.is_busy() && drafting.has_much_to_read()
    }

    /// Tells the gate of a round.
    fn tell_gate(&mut self, feedback: &Feedback<'_>) {
        let drafted = feedback.proposed.tree().is_some();
        let changed = self.drafted.replace(drafted).is_some_and(|before| before != drafted);
        if let Some(gate) = &self.gate {
            let Outcome { tokens, load, prompts, .. } = feedback.outcome;
            // What the target reads of prompts it reads whoever drafts.
            let ms = feedback.took.saturating_sub(*prompts).as_secs_f64() * 1e3;
            gate.lock().observe(&GateRound { drafted, changed, tokens: tokens.len(), ms, open: load.open });
        }
    }
}

impl Drop for EngineProposer {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.lock().leave();
        }
    }
}

impl Proposer for EngineProposer {
    fn rests(&mut self) -> bool {
        self.gate.as_ref().is_some_and(|gate| self.engine.is_full() || !gate.lock().mode().drafts())
    }

    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        // A path of `d` nodes commits `d + 1` tokens.
        let max_depth = sequence.remaining().saturating_sub(1);
        let Some(mut drafting) = self.take(max_depth > 0).await? else { return Ok(Proposed::Plain) };
        drafting.begin(Limits { max_nodes: self.max_nodes, max_depth });
        let (drafting, proposed) = self.engine.grow(drafting).await?;
        self.engine.count(&RoundCounts { drafted: proposed.drafted() as u64, ..RoundCounts::default() });
        self.drafting = Held::Here(drafting);
        Ok(proposed)
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        self.engine.count(&counts(feedback));
        self.tell_gate(feedback);
        let drafting = match &mut self.drafting {
            Held::Here(drafting) => drafting,
            Held::Reading(_, since) => {
                since.push(feedback.outcome.clone());
                return Ok(());
            }
            Held::Away => {
                return Err(Fault::new(
                    Party::Drafter,
                    FaultKind::Internal,
                    "an outcome came while a tree was growing",
                ));
            }
        };
        let Some(tree) = feedback.proposed.tree() else { return Ok(drafting.commit_plain(feedback.outcome)?) };
        let took = (!feedback.is_first()).then_some(feedback.took);
        if let Some(took) = took {
            let took = round_time(feedback.outcome, took.saturating_sub(drafting.steps_took()));
            drafting.costs.lock().observe_verification(tree.tree().len(), took);
        }
        Ok(drafting.commit(feedback.outcome, took)?)
    }
}

/// A sequence that was read, with what was committed since.
fn caught_up(mut drafting: Box<Drafting>, since: &[Outcome]) -> Result<Box<Drafting>, Fault> {
    since.iter().try_for_each(|outcome| drafting.commit_plain(outcome))?;
    Ok(drafting)
}

/// A round that took so long besides its draft levels.
fn round_time(outcome: &Outcome, elapsed: Duration) -> RoundTime {
    let &Outcome { compute, queue, load, .. } = outcome;
    RoundTime { elapsed, compute, queue, load }
}

/// What a round adds to the counts besides what was drafted, which counts at once.
fn counts(feedback: &Feedback<'_>) -> RoundCounts {
    let verified = feedback.proposed.tree().map_or(0, |tree| tree.tree().len());
    let [verified, accepted, tokens] =
        [verified, feedback.outcome.accepted(), feedback.outcome.tokens.len()].map(|count| count as u64);
    RoundCounts { rounds: 1, drafted: 0, verified, accepted, tokens }
}
