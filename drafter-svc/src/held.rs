//! What texts are held to, so that nothing is drafted that is not allowed.

use espalier_constraint::Constraints;
use espalier_proto::{Start, VerifierCard};
use espalier_service_kit::Workplace;
use espalier_speculation::Restriction;
use espalier_text::Tokenizer;

use crate::error::SequenceError;

/// What texts of the drafter's tokenizer can be held to.
pub(crate) struct Held {
    constraints: Constraints,
    /// Where they are compiled.
    workplace: Workplace,
}

impl Held {
    pub(crate) fn new(tokenizer: Tokenizer, workplace: Workplace) -> Self {
        Self { constraints: Constraints::new(tokenizer), workplace }
    }

    /// What the text of a sequence of `target` is held to from here on, if it is.
    pub(crate) async fn restriction(
        &self,
        start: &Start,
        target: &VerifierCard,
    ) -> Result<Option<Box<dyn Restriction>>, SequenceError> {
        let sequence = &start.sequence;
        let Some(constraint) = sequence.constraint.clone() else { return Ok(None) };
        let ends = [&target.end_tokens[..], &sequence.stop_tokens].concat();
        let (constraints, generated) = (self.constraints.clone(), sequence.generated_tokens().to_vec());
        let follow = move || constraints.compile(&constraint)?.follow(&generated, &ends);
        let follower = self.workplace.compute(follow).await.ok_or(SequenceError::Stopped)??;
        Ok(Some(Box::new(follower)))
    }
}
