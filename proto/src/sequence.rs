//! A sequence as all services know it.

use std::fmt;
use std::sync::Arc;

use espalier_speculation::{Constraint, Sampling, Shaping, Token};

use crate::common::{
    check_length, check_text, check_tokens, read_constraint, read_logprobs_asked, read_sampling, required, wire_count,
    write_constraint, write_sampling,
};
use crate::error::WireError;
use crate::pb;

/// The longest name of a sequence, in bytes.
pub const SEQUENCE_ID_BYTES_MAX: usize = 64;

/// The most stop tokens that one request may name.
pub const STOP_TOKENS_MAX: usize = 16;

/// The name of a sequence, the same across services and failovers: letters,
/// digits, `-` and `_`, at most [`SEQUENCE_ID_BYTES_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(Arc<str>);

impl SequenceId {
    /// Reads a name.
    ///
    /// # Errors
    /// [`WireError::Empty`], [`WireError::TooLarge`] or [`WireError::Name`].
    pub fn new(name: &str) -> Result<Self, WireError> {
        let field = "sequence";
        check_name(field, name, SEQUENCE_ID_BYTES_MAX)?;
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u128> for SequenceId {
    /// The number in hexadecimal digits.
    fn from(number: u128) -> Self {
        Self(format!("{number:032x}").into())
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a sequence on the wire is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceBounds {
    /// Size of the vocabulary: tokens are below it.
    pub vocab: usize,
    /// Prompt and answer together, in tokens.
    pub context: usize,
}

impl SequenceBounds {
    /// Checks that a sequence is not empty, that its tokens exist, and that the
    /// tokens asked for fit in behind them.
    fn check(&self, committed: &[Token], max_tokens: usize) -> Result<(), WireError> {
        if committed.is_empty() {
            return Err(WireError::Empty { field: "committed" });
        }
        if max_tokens == 0 {
            return Err(WireError::TooSmall { field: "max_tokens", value: 0, min: 1 });
        }
        if committed.len().saturating_add(max_tokens) > self.context {
            return Err(WireError::Context { committed: committed.len(), max_tokens, context: self.context });
        }
        check_tokens("committed", committed, self.vocab)
    }

    /// Checks that the tokens that are biased exist.
    pub(crate) fn check_bias(&self, sampling: &Sampling) -> Result<(), WireError> {
        let bias = sampling.shaping().map(Shaping::bias).unwrap_or_default();
        let tokens: Vec<Token> = bias.iter().map(|&(token, _)| token).collect();
        check_tokens("logit_bias", &tokens, self.vocab)
    }

    /// Checks that there are not too many stop tokens and that they exist.
    fn check_stops(&self, stops: &[Token]) -> Result<(), WireError> {
        check_length("stop_tokens", stops.len(), STOP_TOKENS_MAX)?;
        check_tokens("stop_tokens", stops, self.vocab)
    }
}

/// What a sequence holds and how it goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceSpec {
    /// Names it in all services.
    pub id: SequenceId,
    /// Prompt and everything already emitted, at least one token.
    pub committed: Vec<Token>,
    /// So many of them, the last ones, were generated; the others are the prompt.
    pub generated: usize,
    /// How the target chooses.
    pub sampling: Sampling,
    /// At most so many further tokens; at least 1.
    pub max_tokens: usize,
    /// Tokens that end the text, besides the target's own.
    pub stop_tokens: Vec<Token>,
    /// Alternatives that each token comes with besides its logprob; no logprobs if absent.
    pub logprobs: Option<usize>,
    /// What is known of its beginning is shared with sequences of the same tenant alone.
    pub tenant: u64,
    /// What the generated tokens are held to.
    pub constraint: Option<Constraint>,
}

impl SequenceSpec {
    /// A prompt that is continued greedily by at most `max_tokens` tokens.
    pub fn new(id: SequenceId, prompt: Vec<Token>, max_tokens: usize) -> Self {
        Self {
            id,
            committed: prompt,
            generated: 0,
            sampling: Sampling::greedy(),
            max_tokens,
            stop_tokens: Vec::new(),
            logprobs: None,
            tenant: 0,
            constraint: None,
        }
    }

    /// The tokens that were generated.
    pub fn generated_tokens(&self) -> &[Token] {
        &self.committed[self.prompt_len()..]
    }

    /// How many tokens the prompt has.
    pub fn prompt_len(&self) -> usize {
        self.committed.len().saturating_sub(self.generated)
    }

    /// Adds tokens that were generated; so many fewer may follow.
    pub fn commit(&mut self, tokens: &[Token]) {
        self.committed.extend_from_slice(tokens);
        self.generated += tokens.len();
        self.max_tokens = self.max_tokens.saturating_sub(tokens.len());
    }

    /// Reads a sequence that a model of these bounds can follow. The tokens of a bias are not checked: one that only the
    /// target knows is nothing to a drafter.
    pub(crate) fn read(wire: Option<pb::SequenceSpec>, bounds: &SequenceBounds) -> Result<Self, WireError> {
        let wire = required("sequence", wire)?;
        let (max_tokens, generated) = (wire.max_tokens as usize, wire.generated as usize);
        bounds.check(&wire.committed, max_tokens)?;
        check_length("generated", generated, wire.committed.len())?;
        bounds.check_stops(&wire.stop_tokens)?;
        Ok(Self {
            id: SequenceId::new(&wire.id)?,
            committed: wire.committed,
            generated,
            sampling: read_sampling(wire.sampling)?,
            max_tokens,
            stop_tokens: wire.stop_tokens,
            logprobs: read_logprobs_asked(wire.logprobs)?,
            tenant: wire.tenant,
            constraint: read_constraint(wire.constraint)?,
        })
    }
}

impl From<SequenceSpec> for pb::SequenceSpec {
    fn from(sequence: SequenceSpec) -> Self {
        Self {
            id: sequence.id.to_string(),
            committed: sequence.committed,
            generated: wire_count(sequence.generated),
            sampling: Some(write_sampling(&sequence.sampling)),
            max_tokens: wire_count(sequence.max_tokens),
            stop_tokens: sequence.stop_tokens,
            logprobs: sequence.logprobs.map(wire_count),
            tenant: sequence.tenant,
            constraint: sequence.constraint.as_ref().map(write_constraint),
        }
    }
}

/// A text of 1 to `limit` letters, digits, `-` and `_`.
fn check_name(field: &'static str, name: &str, limit: usize) -> Result<(), WireError> {
    check_text(field, name, limit)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.bytes().all(allowed) {
        return Err(WireError::Name { field, value: name.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BOUNDS: SequenceBounds = SequenceBounds { vocab: 100, context: 8 };

    #[test]
    fn a_sequence_name_is_short_and_plain() {
        assert_eq!(SequenceId::new("a-B_9").unwrap().as_str(), "a-B_9");
        assert_eq!(SequenceId::new("").unwrap_err(), WireError::Empty { field: "sequence" });
        let refusal = SequenceId::new("a b").unwrap_err().to_string();
        assert!(refusal.contains("`a b`"), "{refusal}");
        let refusal = SequenceId::new(&"x".repeat(65)).unwrap_err().to_string();
        assert_eq!(refusal, "sequence is 65, beyond the limit of 64");
    }

    #[test]
    fn a_number_makes_a_valid_sequence_name() {
        let id = SequenceId::from(u128::MAX);
        assert_eq!(SequenceId::new(id.as_str()).unwrap(), id);
    }

    #[test]
    fn a_sequence_must_fit_the_model() {
        assert_eq!(BOUNDS.check(&[1, 2, 3], 5), Ok(()));
        assert_eq!(BOUNDS.check(&[], 5), Err(WireError::Empty { field: "committed" }));
        assert_eq!(BOUNDS.check(&[1], 0).unwrap_err().to_string(), "max_tokens is 0, below the minimum of 1");
        assert_eq!(BOUNDS.check(&[1, 2, 3], 6).unwrap_err().to_string(), "3 tokens and 6 more exceed the context of 8");
        assert_eq!(
            BOUNDS.check(&[1, 100], 1).unwrap_err().to_string(),
            "committed holds token 100, beyond the vocabulary of 100"
        );
        assert!(BOUNDS.check(&[1], usize::MAX).is_err());
    }

    #[test]
    fn stop_tokens_are_few_and_known() {
        assert_eq!(BOUNDS.check_stops(&[0, 99]), Ok(()));
        assert!(matches!(BOUNDS.check_stops(&[100]), Err(WireError::Token { token: 100, .. })));
        assert!(matches!(BOUNDS.check_stops(&[0; 17]), Err(WireError::TooLarge { value: 17, .. })));
    }

    #[test]
    fn what_is_committed_may_not_follow_any_more() {
        let mut sequence = SequenceSpec::new(SequenceId::from(1), vec![1, 2, 3], 2);
        sequence.commit(&[4, 5]);
        assert_eq!((&sequence.committed[..], sequence.generated, sequence.max_tokens), (&[1, 2, 3, 4, 5][..], 2, 0));
        assert_eq!(sequence.prompt_len(), 3);
    }
}
