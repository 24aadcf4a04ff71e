//! What several services say to each other.

use std::time::Duration;

use espalier_speculation::{
    Acceptance, Constraint, ConstraintKind, FinishReason, LOGPROBS_MAX, Logprobs, Penalties, Sampling, Shaping, Token,
};

use crate::error::WireError;
use crate::pb;

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

/// Reads what a text is held to, if it is.
pub(crate) fn read_constraint(wire: Option<pb::Constraint>) -> Result<Option<Constraint>, WireError> {
    use pb::constraint::Kind;
    let Some(wire) = wire else { return Ok(None) };
    let (kind, words) = match required("constraint.kind", wire.kind)? {
        Kind::JsonSchema(words) => (ConstraintKind::JsonSchema, words),
        Kind::Regex(words) => (ConstraintKind::Regex, words),
        Kind::Grammar(words) => (ConstraintKind::Grammar, words),
    };
    Ok(Some(Constraint::new(kind, &words)?))
}

pub(crate) fn write_constraint(constraint: &Constraint) -> pb::Constraint {
    use pb::constraint::Kind;
    let words = constraint.words().to_owned();
    let kind = match constraint.kind() {
        ConstraintKind::JsonSchema => Kind::JsonSchema(words),
        ConstraintKind::Regex => Kind::Regex(words),
        ConstraintKind::Grammar => Kind::Grammar(words),
    };
    pb::Constraint { kind: Some(kind) }
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
