//! What is said between gateway and drafter.

use espalier_proto::pb::{speculate_request, speculate_response};
use espalier_proto::{DrafterCard, DrafterEvent, Grant, SequenceBounds, Start, pb};

use crate::target::Target;
use crate::targets::wire::{Crossing, MESSAGE, encoded, logprobs, sequence, survives, vocabulary};

const BOUNDS: SequenceBounds = SequenceBounds { vocab: 100, context: 64 };

pub(crate) const START: Target = Target {
    name: "speculate-start",
    about: "The first message to a drafter is refused, or is the same after it was sent on.",
    run: |bytes| Crossing { read: |wire| Start::read(wire, &BOUNDS), write: Into::into }.survives(bytes),
    seeds: || encoded([start(), grant()]),
    ..MESSAGE
};

pub(crate) const GRANT: Target = Target {
    name: "speculate-grant",
    about: "A later message to a drafter is refused, or is the same after it was sent on.",
    run: |bytes| Crossing { read: Grant::read, write: Into::into }.survives(bytes),
    seeds: || encoded([grant(), start()]),
    ..MESSAGE
};

pub(crate) const EVENT: Target = Target {
    name: "speculate-event",
    about: "What a drafter reports is refused, or is the same after it was sent on.",
    run: survives::<pb::SpeculateResponse, DrafterEvent>,
    seeds: || encoded(reports().map(|message| pb::SpeculateResponse { message: Some(message) })),
    ..MESSAGE
};

pub(crate) const CARD: Target = Target {
    name: "drafter-card",
    about: "What a drafter says of itself is refused, or is the same after it was sent on.",
    run: survives::<pb::DescribeDrafterResponse, DrafterCard>,
    seeds: || encoded([card()]),
    ..MESSAGE
};

fn start() -> pb::SpeculateRequest {
    let start = pb::Start {
        sequence: Some(sequence()),
        target: "medium".to_owned(),
        verifier: "http://127.0.0.1:50051".to_owned(),
        policy: "constant,k=2".to_owned(),
        exit_thresholds: vec![0.5, 0.75],
        trees: true,
    };
    pb::SpeculateRequest { message: Some(speculate_request::Message::Start(start)) }
}

fn grant() -> pb::SpeculateRequest {
    pb::SpeculateRequest { message: Some(speculate_request::Message::Grant(pb::Grant { rounds: 2 })) }
}

fn reports() -> [speculate_response::Message; 2] {
    let cost = pb::RoundCost { drafted: 8, verified: 6, depth: 3, draft_us: 900, verify_us: 1500, wait_us: 20 };
    let logprobs = logprobs(2);
    let tree = pb::DraftedTree {
        tokens: vec![4, 9],
        parents: vec![0, 0],
        probs: vec![0.75, 0.25],
        sent: vec![1],
        accepted: vec![1],
        levels_us: vec![30],
    };
    let tree = Some(tree);
    let round = pb::Round { round: 3, tokens: vec![4, 5], accepted: 1, cost: Some(cost), logprobs, tree };
    let finished = pb::SpeculationFinished { reason: 1 };
    [speculate_response::Message::Round(round), speculate_response::Message::Finished(finished)]
}

fn card() -> pb::DescribeDrafterResponse {
    let only = pb::OnlyTarget { name: "medium".to_owned(), fingerprint: "m".to_owned(), tapped_layer: Some(5) };
    pb::DescribeDrafterResponse {
        name: "small".to_owned(),
        vocabulary: Some(vocabulary()),
        kind: "independent".to_owned(),
        layers: 4,
        context: 2048,
        only_target: Some(only),
        exits: 3,
        arithmetic: "int8".to_owned(),
    }
}
