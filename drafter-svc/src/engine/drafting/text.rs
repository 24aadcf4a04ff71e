//! The committed tokens of a sequence, and what is known of them.

use espalier_model::DraftModel;
use espalier_proto::Outcome;
use espalier_speculation::{Sampler, Sampling, Token};

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
    /// Of the tokens that are `committed` so many were `generated`, the last ones.
    pub(super) fn new(model: &DraftModel, sampling: Sampling, committed: Vec<Token>, generated: usize) -> Self {
        let (prompt, emitted) = committed.split_at(committed.len().saturating_sub(generated));
        let sampler = Sampler::new(sampling, prompt, emitted);
        Self { sampler, known: CommittedState::of(model), committed }
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
