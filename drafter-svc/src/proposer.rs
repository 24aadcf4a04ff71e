//! The draft model as a port of the round loop.

use espalier_proto::{Fault, FaultKind, Party};
use espalier_round::{Feedback, Proposed, Proposer, Sequence};
use espalier_speculation::{CostModel, Limits};

use crate::engine::{Drafting, Engine};
use crate::error::SequenceError;

/// Proposes trees for one sequence.
pub(crate) struct EngineProposer {
    engine: Engine,
    /// Away while the engine has it.
    drafting: Option<Box<Drafting>>,
    /// Takes what the sequence learned of its costs when it ends.
    learned: Box<dyn Fn(CostModel) + Send + Sync>,
}

impl EngineProposer {
    pub(crate) fn new(
        engine: Engine,
        drafting: Box<Drafting>,
        learned: impl Fn(CostModel) + Send + Sync + 'static,
    ) -> Self {
        Self { engine, drafting: Some(drafting), learned: Box::new(learned) }
    }
}

impl Proposer for EngineProposer {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let mut drafting = self.drafting.take().ok_or(SequenceError::Stopped)?;
        // A path of `d` nodes commits `d + 1` tokens.
        let max_depth = sequence.remaining().saturating_sub(1);
        drafting.begin(Limits { max_nodes: usize::MAX, max_depth });
        let (drafting, proposal) = self.engine.grow(drafting).await?;
        self.drafting = Some(drafting);
        Ok(Proposed { drafted: proposal.drafted, tree: proposal.tree })
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        let Some(drafting) = &mut self.drafting else {
            return Err(Fault::new(Party::Drafter, FaultKind::Internal, "an outcome came while a tree was growing"));
        };
        let outcome = feedback.outcome;
        // The first round waits for the target to read the prompt, which no later round does.
        if outcome.round > 0 {
            drafting.costs.observe_verification(feedback.tree.len(), feedback.round_trip);
        }
        Ok(drafting.apply(&outcome.path, &outcome.tokens)?)
    }
}

impl Drop for EngineProposer {
    fn drop(&mut self) {
        if let Some(drafting) = self.drafting.take() {
            (self.learned)(drafting.costs);
        }
    }
}
