//! The committed tokens of a sequence, and what is known of them.

use espalier_model::DraftModel;
use espalier_proto::{Outcome, SequenceSpec};
use espalier_speculation::{Restriction, Sampler, Sampling, Token};

use crate::engine::committed::CommittedState;
use crate::error::SequenceError;

/// What is committed.
pub(super) struct Text {
    /// Prompt and everything emitted since; the last one is the root of the next tree.
    pub(super) committed: Vec<Token>,
    /// What the draft model knows of them.
    pub(super) known: CommittedState,
    /// Knows them as far as they matter to it.
    pub(super) sampler: Sampler,
}

impl Text {
    pub(super) fn new(model: &DraftModel, sequence: SequenceSpec, restriction: Option<Box<dyn Restriction>>) -> Self {
        let (prompt, generated) = sequence.committed.split_at(sequence.prompt_len());
        let sampler = Sampler::new(sequence.sampling, prompt, generated).restricted(restriction);
        Self { sampler, known: CommittedState::of(model), committed: sequence.committed }
    }

    /// The position of the root.
    pub(super) fn root(&self) -> usize {
        self.committed.len().saturating_sub(1)
    }

    pub(super) fn sampling(&self) -> &Sampling {
        self.sampler.sampling()
    }

    pub(super) fn commit(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        self.known.commit(outcome)?;
        self.sampler.push(&outcome.tokens);
        self.committed.extend_from_slice(&outcome.tokens);
        Ok(())
    }
}
