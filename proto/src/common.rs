//! What several services say to each other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use espalier_speculation::{Acceptance, FinishReason, LOGPROBS_MAX, Logprobs, Penalties, Sampling, Shaping, Token};

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
    pub(crate) fn check(&self, committed: &[Token], max_tokens: usize) -> Result<(), WireError> {
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

    /// Checks that no more tokens were generated than are committed.
    pub(crate) fn check_generated(generated: usize, committed: &[Token]) -> Result<(), WireError> {
        check_length("generated", generated, committed.len())
    }

    /// Checks that the tokens that are biased exist.
    pub(crate) fn check_bias(&self, sampling: &Sampling) -> Result<(), WireError> {
        let bias = sampling.shaping().map(Shaping::bias).unwrap_or_default();
        let tokens: Vec<Token> = bias.iter().map(|&(token, _)| token).collect();
        check_tokens("logit_bias", &tokens, self.vocab)
    }

    /// Checks that there are not too many stop tokens and that they exist.
    pub(crate) fn check_stops(&self, stops: &[Token]) -> Result<(), WireError> {
        check_length("stop_tokens", stops.len(), STOP_TOKENS_MAX)?;
        check_tokens("stop_tokens", stops, self.vocab)
    }
}

/// Checks that tokens are below `vocab`.
pub(crate) fn check_tokens(field: &'static str, tokens: &[Token], vocab: usize) -> Result<(), WireError> {
    match tokens.iter().find(|&&token| token as usize >= vocab) {
        Some(&token) => Err(WireError::Token { field, token, vocab }),
        None => Ok(()),
    }
}

/// The vocabulary of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// Rows of the embedding matrix, padding included.
    pub size: usize,
    /// Hash of the tokenizer's vocabulary and merges.
    pub fingerprint: String,
}

impl Vocabulary {
    const FINGERPRINT_BYTES_MAX: usize = 128;
}

impl From<Vocabulary> for pb::Vocabulary {
    fn from(vocabulary: Vocabulary) -> Self {
        Self { size: wire_count(vocabulary.size), fingerprint: vocabulary.fingerprint }
    }
}

impl TryFrom<Option<pb::Vocabulary>> for Vocabulary {
    type Error = WireError;

    fn try_from(wire: Option<pb::Vocabulary>) -> Result<Self, WireError> {
        let wire = required("vocabulary", wire)?;
        check_text("fingerprint", &wire.fingerprint, Self::FINGERPRINT_BYTES_MAX)?;
        Ok(Self { size: at_least_one("vocabulary.size", wire.size)?, fingerprint: wire.fingerprint })
    }
}

/// Reads sampling parameters; greedy when there are none.
pub(crate) fn read_sampling(wire: Option<pb::Sampling>) -> Result<Sampling, WireError> {
    let Some(wire) = wire else {
        return Ok(Sampling::greedy());
    };
    let penalties = Penalties {
        repetition: wire.repetition_penalty.unwrap_or(Penalties::NONE.repetition),
        presence: wire.presence_penalty,
        frequency: wire.frequency_penalty,
    };
    let acceptance = read_acceptance(wire.acceptance)?;
    let shaping = Shaping::new(penalties, wire.logit_bias)?;
    let top_p = wire.top_p.unwrap_or(1.0);
    let sampling = Sampling::new(wire.temperature, wire.top_k as usize, top_p, wire.seed.unwrap_or(0))?;
    Ok(sampling.with_min_p(wire.min_p)?.with_shaping(shaping).with_acceptance(acceptance))
}

fn read_acceptance(wire: i32) -> Result<Acceptance, WireError> {
    let unknown = WireError::Unknown { field: "acceptance", value: wire };
    Ok(match pb::Acceptance::try_from(wire).map_err(|_| unknown)? {
        pb::Acceptance::Unspecified | pb::Acceptance::Coupled => Acceptance::Coupled,
        pb::Acceptance::Rejection => Acceptance::Rejection,
    })
}

fn write_acceptance(acceptance: Acceptance) -> i32 {
    let wire = match acceptance {
        Acceptance::Coupled => pb::Acceptance::Coupled,
        Acceptance::Rejection => pb::Acceptance::Rejection,
    };
    wire.into()
}

pub(crate) fn write_sampling(sampling: &Sampling) -> pb::Sampling {
    let shaping = sampling.shaping();
    let penalties = shaping.map_or(Penalties::NONE, |shaping| *shaping.penalties());
    pb::Sampling {
        temperature: sampling.temperature(),
        top_k: wire_count(sampling.top_k()),
        top_p: Some(sampling.top_p()),
        seed: Some(sampling.seed()),
        min_p: sampling.min_p(),
        repetition_penalty: Some(penalties.repetition),
        presence_penalty: penalties.presence,
        frequency_penalty: penalties.frequency,
        logit_bias: shaping.map(|shaping| shaping.bias().iter().copied().collect()).unwrap_or_default(),
        acceptance: write_acceptance(sampling.acceptance()),
    }
}

/// Reads how many alternatives each token is to come with, if it is to come with any or with its logprob alone.
pub(crate) fn read_logprobs_asked(wire: Option<u32>) -> Result<Option<usize>, WireError> {
    let asked = wire.map(|top| top as usize);
    check_length("logprobs", asked.unwrap_or(0), LOGPROBS_MAX)?;
    Ok(asked)
}

/// Reads the logprobs of `tokens` tokens: one each, or none at all.
pub(crate) fn read_logprobs(wire: Vec<pb::Logprobs>, tokens: usize) -> Result<Vec<Logprobs>, WireError> {
    if !wire.is_empty() && wire.len() != tokens {
        return Err(WireError::Logprobs { found: wire.len(), tokens });
    }
    let read = |wire: pb::Logprobs| {
        check_length("logprobs.top", wire.top.len(), LOGPROBS_MAX)?;
        let top = wire.top.into_iter().map(|top| Ok((top.id, read_logprob(top.logprob)?)));
        Ok(Logprobs { chosen: read_logprob(wire.chosen)?, top: top.collect::<Result<_, WireError>>()? })
    };
    wire.into_iter().map(read).collect()
}

pub(crate) fn write_logprobs(logprobs: Vec<Logprobs>) -> Vec<pb::Logprobs> {
    let top = |(id, logprob)| pb::TopLogprob { id, logprob };
    let write = |Logprobs { chosen, top: best }| pb::Logprobs { chosen, top: best.into_iter().map(top).collect() };
    logprobs.into_iter().map(write).collect()
}

/// A logarithm of a probability above 0.
pub(crate) fn read_logprob(value: f64) -> Result<f64, WireError> {
    match value.is_finite() && value <= 0.0 {
        true => Ok(value),
        false => Err(WireError::Logprob { value }),
    }
}

/// Reads a reason that may be absent.
pub(crate) fn read_finish(wire: i32) -> Result<Option<FinishReason>, WireError> {
    let unknown = WireError::Unknown { field: "finish reason", value: wire };
    match pb::FinishReason::try_from(wire).map_err(|_| unknown)? {
        pb::FinishReason::Unspecified => Ok(None),
        pb::FinishReason::Stop => Ok(Some(FinishReason::Stop)),
        pb::FinishReason::Length => Ok(Some(FinishReason::Length)),
    }
}

/// Reads a reason that must be there.
pub(crate) fn read_reason(wire: i32) -> Result<FinishReason, WireError> {
    required("reason", read_finish(wire)?)
}

pub(crate) fn write_finish(reason: Option<FinishReason>) -> i32 {
    let wire = match reason {
        None => pb::FinishReason::Unspecified,
        Some(FinishReason::Stop) => pb::FinishReason::Stop,
        Some(FinishReason::Length) => pb::FinishReason::Length,
    };
    wire.into()
}

pub(crate) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::Missing { field })
}

pub(crate) fn at_least_one(field: &'static str, value: u32) -> Result<usize, WireError> {
    match value {
        0 => Err(WireError::TooSmall { field, value: 0, min: 1 }),
        _ => Ok(value as usize),
    }
}

pub(crate) fn check_length(field: &'static str, found: usize, limit: usize) -> Result<(), WireError> {
    if found > limit {
        return Err(WireError::TooLarge { field, value: found as u64, limit: limit as u64 });
    }
    Ok(())
}

/// A text of 1 to `limit` bytes.
pub(crate) fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), WireError> {
    if text.is_empty() {
        return Err(WireError::Empty { field });
    }
    check_length(field, text.len(), limit)
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

/// A duration as it travels.
pub(crate) fn wire_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A count as it travels. Every count of ours is far below the wire's limit;
/// one beyond it would arrive as that limit and be refused there.
pub(crate) fn wire_count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
    fn sampling_survives_the_wire() {
        let sampling = Sampling::new(0.8, 40, 0.95, u64::MAX).unwrap();
        let penalties = Penalties { repetition: 1.1, presence: -0.5, frequency: 0.25 };
        let shaping = Shaping::new(penalties, [(7, -100.0), (3, 1.5)]).unwrap();
        let shaped = sampling.clone().with_min_p(0.05).unwrap().with_shaping(shaping);
        let rejecting = shaped.clone().with_acceptance(Acceptance::Rejection);
        for sampling in [sampling, shaped, rejecting] {
            assert_eq!(read_sampling(Some(write_sampling(&sampling))).unwrap(), sampling);
        }
        assert_eq!(read_sampling(Some(pb::Sampling::default())).unwrap(), Sampling::greedy());
        assert_eq!(read_sampling(None).unwrap(), Sampling::greedy());
    }

    #[test]
    fn impossible_sampling_is_refused() {
        for temperature in [-0.5, f64::NAN, f64::INFINITY] {
            let wire = pb::Sampling { temperature, ..pb::Sampling::default() };
            assert!(matches!(read_sampling(Some(wire)), Err(WireError::Sampling(_))));
        }
        let fields: [fn(&mut pb::Sampling); 5] = [
            |wire| wire.min_p = 1.5,
            |wire| wire.repetition_penalty = Some(0.0),
            |wire| wire.presence_penalty = 2.5,
            |wire| wire.frequency_penalty = f64::NAN,
            |wire| wire.logit_bias = (0..1025).map(|token| (token, 1.0)).collect(),
        ];
        for spoil in fields {
            let mut wire = pb::Sampling::default();
            spoil(&mut wire);
            assert!(matches!(read_sampling(Some(wire)), Err(WireError::Sampling(_))));
        }
    }

    #[test]
    fn an_acceptance_that_means_nothing_is_refused() {
        let wire = pb::Sampling { acceptance: 7, ..pb::Sampling::default() };
        let refusal = read_sampling(Some(wire)).unwrap_err().to_string();
        assert_eq!(refusal, "acceptance is 7, which means nothing");
    }

    #[test]
    fn finish_reasons_survive_the_wire() {
        for reason in [None, Some(FinishReason::Stop), Some(FinishReason::Length)] {
            assert_eq!(read_finish(write_finish(reason)).unwrap(), reason);
        }
        assert!(matches!(read_finish(77), Err(WireError::Unknown { value: 77, .. })));
        assert!(matches!(read_reason(0), Err(WireError::Missing { field: "reason" })));
    }
}
