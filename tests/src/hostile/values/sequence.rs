//! Hostile values of what requests and sequences have in common.

use espalier_proto::pb;

use super::constraints::CONSTRAINTS;
use super::way::{Must, Spoiled, Way, odd, refused, spoiled};
use espalier_fuzz::Dice;

/// A sequence, or none, with a hostile value.
pub(super) fn spoiled_sequence(
    sequence: Option<pb::SequenceSpec>,
    dice: &mut Dice,
) -> Spoiled<Option<pb::SequenceSpec>> {
    let Some(sequence) = sequence.filter(|_| dice.percent(95)) else {
        return Spoiled { message: None, must: Must::Refuse };
    };
    let spoiled = match dice.below(5) {
        0 | 1 => {
            let sampling = spoiled(sequence.sampling.clone().unwrap_or_default(), &SAMPLINGS, dice);
            Spoiled { message: pb::SequenceSpec { sampling: Some(sampling.message), ..sequence }, must: sampling.must }
        }
        2 => {
            let held = spoiled(sequence.constraint.clone(), &CONSTRAINTS, dice);
            Spoiled { message: pb::SequenceSpec { constraint: held.message, ..sequence }, must: held.must }
        }
        _ => spoiled(sequence, &SEQUENCES, dice),
    };
    Spoiled { message: Some(spoiled.message), must: spoiled.must }
}

const SEQUENCES: [Way<pb::SequenceSpec>; 17] = [
    refused(|sequence, _| sequence.id.clear()),
    refused(|sequence, _| sequence.id = "a b".to_owned()),
    refused(|sequence, _| sequence.id = "\u{10ffff}".to_owned()),
    refused(|sequence, dice| sequence.id = "x".repeat(65 + dice.below(1 << 16))),
    refused(|sequence, _| sequence.committed.clear()),
    refused(|sequence, _| sequence.committed.push(4096)),
    refused(|sequence, _| sequence.committed.insert(0, u32::MAX)),
    refused(|sequence, dice| sequence.committed = vec![7; 2049 + dice.below(1 << 16)]),
    refused(|sequence, _| sequence.max_tokens = 0),
    refused(|sequence, _| sequence.max_tokens = 1 << 31),
    refused(|sequence, _| sequence.max_tokens = u32::MAX),
    refused(|sequence, _| sequence.generated = sequence.committed.len() as u32 + 1),
    refused(|sequence, _| sequence.generated = u32::MAX),
    refused(|sequence, _| sequence.stop_tokens = vec![7; 17]),
    refused(|sequence, _| sequence.stop_tokens = vec![u32::MAX]),
    refused(|sequence, dice| sequence.logprobs = Some(*dice.pick(&[21, 1 << 31, u32::MAX]))),
    odd(|sequence, _| sequence.max_tokens = 2048 - sequence.committed.len() as u32),
];

/// Hostile values of sampling.
pub(super) const SAMPLINGS: [Way<pb::Sampling>; 26] = [
    refused(|sampling, _| sampling.temperature = f64::NAN),
    refused(|sampling, _| sampling.temperature = -1.0),
    refused(|sampling, _| sampling.temperature = f64::INFINITY),
    odd(|sampling, _| sampling.temperature = f64::MIN_POSITIVE / 4.0),
    odd(|sampling, _| sampling.temperature = f64::MAX),
    odd(|sampling, _| sampling.temperature = -0.0),
    odd(|sampling, _| sampling.top_k = u32::MAX),
    refused(|sampling, _| sampling.top_p = Some(f64::NAN)),
    refused(|sampling, _| sampling.top_p = Some(0.0)),
    refused(|sampling, _| sampling.top_p = Some(1.5)),
    odd(|sampling, _| sampling.top_p = Some(f64::MIN_POSITIVE)),
    odd(|sampling, _| sampling.seed = Some(u64::MAX)),
    refused(|sampling, _| sampling.min_p = f64::NAN),
    refused(|sampling, _| sampling.min_p = -0.5),
    odd(|sampling, _| sampling.min_p = 1.0),
    refused(|sampling, _| sampling.repetition_penalty = Some(0.0)),
    refused(|sampling, _| sampling.repetition_penalty = Some(f64::NEG_INFINITY)),
    refused(|sampling, _| sampling.repetition_penalty = Some(1e300)),
    refused(|sampling, _| sampling.presence_penalty = 2.5),
    refused(|sampling, _| sampling.frequency_penalty = f64::NAN),
    refused(|sampling, _| sampling.logit_bias = [(7, f64::NAN)].into()),
    refused(|sampling, _| sampling.logit_bias = [(7, 101.0)].into()),
    refused(|sampling, dice| sampling.logit_bias = (0..1025 + dice.below(3000) as u32).map(|id| (id, 1.0)).collect()),
    odd(|sampling, _| sampling.logit_bias = (0..1024).map(|id| (id, -100.0)).collect()),
    refused(|sampling, dice| sampling.acceptance = *dice.pick(&[3, -1, i32::MIN, i32::MAX])),
    odd(|sampling, _| sampling.acceptance = 2),
];
