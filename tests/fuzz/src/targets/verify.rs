//! What is said between drafter and verifier.

use std::sync::LazyLock;

use espalier_proto::pb::{verify_request, verify_response};
use espalier_proto::{Open, Submission, VerifierCard, VerifierEvent, pb};
use espalier_speculation::{Acceptance, TreeBounds};
use prost::Message;

use crate::target::Target;
use crate::targets::wire::{Crossing, MESSAGE, encoded, logprobs, sequence, survives, vocabulary};

const BOUNDS: TreeBounds = TreeBounds { vocab: 100, max_nodes: 8, max_depth: 4 };

pub(crate) const OPEN: Target = Target {
    name: "verify-open",
    about: "The first message to a verifier is refused, or is the same after it was sent on.",
    run: |bytes| Crossing { read: |wire| Open::read(wire, &CARD_OF_SEQUENCES), write: Into::into }.survives(bytes),
    seeds: || encoded([open(), credit(), tree(Vec::new())]),
    ..MESSAGE
};

pub(crate) const RANKED: Target = Target {
    name: "verify-ranked",
    about: "A tree of the best guesses, or credit, is refused, or is the same after it was sent on.",
    run: |bytes| {
        Crossing { read: |wire| Submission::read(wire, &BOUNDS, Acceptance::Coupled), write: |read| (&read).into() }
            .survives(bytes)
    },
    seeds: || encoded([tree(Vec::new()), credit(), open()]),
    ..MESSAGE
};

pub(crate) const DRAWN: Target = Target {
    name: "verify-drawn",
    about: "A tree of drawn tokens, or credit, is refused, or is the same after it was sent on.",
    run: |bytes| {
        Crossing { read: |wire| Submission::read(wire, &BOUNDS, Acceptance::Rejection), write: |read| (&read).into() }
            .survives(bytes)
    },
    seeds: || {
        let root = |last| pb::DraftDistribution { node: 0, tokens: vec![10, 12, 40], probs: vec![0.5, 0.25, last] };
        let first = || pb::DraftDistribution { node: 1, tokens: vec![11], probs: vec![1.0] };
        // One that adds up to a little more than 1.
        let trees = [0.25, 0.25 + 16.0 * f64::EPSILON].map(|last| tree(vec![root(last), first()]));
        encoded(trees.into_iter().chain([credit(), tree(Vec::new())]))
    },
    ..MESSAGE
};

pub(crate) const EVENT: Target = Target {
    name: "verify-event",
    about: "What a verifier answers is refused, or is the same after it was sent on, in pieces too.",
    run: |bytes| {
        let event = pb::VerifyResponse::decode(bytes).ok().and_then(|wire| VerifierEvent::try_from(wire).ok());
        for piece in event.into_iter().flat_map(VerifierEvent::in_pieces) {
            assert!(VerifierEvent::try_from(pb::VerifyResponse::from(piece)).is_ok(), "a piece cannot be sent");
        }
        survives::<pb::VerifyResponse, VerifierEvent>(bytes)
    },
    seeds: || encoded(answers().map(|message| pb::VerifyResponse { message: Some(message) })),
    ..MESSAGE
};

pub(crate) const CARD: Target = Target {
    name: "verifier-card",
    about: "What a verifier says of itself is refused, or is the same after it was sent on.",
    run: survives::<pb::DescribeVerifierResponse, VerifierCard>,
    seeds: || encoded([card()]),
    ..MESSAGE
};

/// The verifier that sequences are opened with.
static CARD_OF_SEQUENCES: LazyLock<VerifierCard> =
    LazyLock::new(|| VerifierCard::try_from(card()).expect("it is the card of a verifier"));

fn card() -> pb::DescribeVerifierResponse {
    let (fingerprint, arithmetic) = ("f".to_owned(), "f32".to_owned());
    pb::DescribeVerifierResponse {
        name: "medium".to_owned(),
        vocabulary: Some(vocabulary()),
        context: 64,
        tree_nodes_max: 8,
        sequences_max: 4,
        end_tokens: vec![2],
        costs: vec![pb::MeasuredCost { rows: 1, time_us: 900 }, pb::MeasuredCost { rows: 8, time_us: 1500 }],
        model: Some(pb::Model { fingerprint, layers: 12, hidden_size: 2, arithmetic, revision: 1 }),
    }
}

fn request(message: verify_request::Message) -> pb::VerifyRequest {
    pb::VerifyRequest { message: Some(message) }
}

fn open() -> pb::VerifyRequest {
    let hidden_states = Some(pb::Tap { layer: 5, width: 2 });
    request(verify_request::Message::Open(pb::Open { sequence: Some(sequence()), hidden_states }))
}

fn credit() -> pb::VerifyRequest {
    request(verify_request::Message::Credit(pb::Credit { round: 1, tokens: 2, states_later: true }))
}

/// The tree `10 (11) 12` below the root.
fn tree(drawn_from: Vec<pb::DraftDistribution>) -> pb::VerifyRequest {
    let (tokens, parents, probs) = (vec![10, 11, 12], vec![0, 1, 0], vec![0.5, 0.25, 0.125]);
    request(verify_request::Message::Tree(pb::CandidateTree { round: 0, tokens, parents, probs, drawn_from }))
}

fn answers() -> [verify_response::Message; 3] {
    let states = || pb::HiddenStates { first_position: 2, width: 2, states: vec![0x80, 0x3f, 0, 0xbf] };
    let outcome = pb::Outcome {
        round: 3,
        path: vec![1],
        tokens: vec![5, 6],
        finish: 0,
        compute_us: 1500,
        queue_us: 20,
        logprobs: logprobs(2),
        hidden_states: Some(states()),
        pass_rows: 40,
        pass_trees: 4,
        open_sequences: 6,
        prompts_us: 700,
    };
    [
        verify_response::Message::Opened(pb::Opened { reused_prefix: 3 }),
        verify_response::Message::HiddenStates(states()),
        verify_response::Message::Outcome(outcome),
    ]
}
