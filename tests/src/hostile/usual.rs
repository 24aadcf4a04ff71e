//! Messages as a client of ours might send them: what is spoiled begins as one of these.

use espalier_proto::pb;
use espalier_proto::pb::{generate_request, speculate_request, verify_request};
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use super::rpc::{Asks, Rpc, service};
use espalier_fuzz::Dice;

/// What messages name.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// A target that the gateway knows.
    pub target: String,
    /// Where a drafter finds that target.
    pub verifier: String,
    /// An address of this machine where nobody listens.
    pub nowhere: String,
}

impl Surroundings {
    /// Whether a message has a drafter connect to a port of this machine that is none of ours: bytes that are changed at
    /// random may name one, and whoever listens there has not asked for it.
    pub(super) fn is_left_by(&self, rpc: Rpc, message: &[u8]) -> bool {
        let Asks::Speculate = rpc.asks else { return false };
        let start = match pb::SpeculateRequest::decode(message).map(|decoded| decoded.message) {
            Ok(Some(speculate_request::Message::Start(start))) => start,
            _ => return false,
        };
        // On any other role it is refused, and so is another protocol.
        let ours = [&self.verifier, &self.nowhere].contains(&&start.verifier);
        !ours && start.verifier.contains("127.0.0.1") && !start.verifier.starts_with("ftp:")
    }
}

/// The messages of one good call: of a stream several.
pub(super) fn messages(rpc: Rpc, around: &Surroundings, dice: &mut Dice) -> Vec<Vec<u8>> {
    match rpc.asks {
        Asks::Nothing => vec![Vec::new()],
        Asks::Generate => vec![generate(around, dice).encode_to_vec()],
        Asks::Speculate => vec![start(around, dice).encode_to_vec(), grant(2).encode_to_vec()],
        Asks::Verify => {
            let then = [tree(dice).encode_to_vec(), credit(1, 2).encode_to_vec()];
            [vec![open(dice).encode_to_vec()], then.to_vec()].concat()
        }
        Asks::Check | Asks::Watch => vec![check(rpc, dice).encode_to_vec()],
        Asks::Reflection => (0..1 + dice.below(3)).map(|_| reflection(rpc, dice).encode_to_vec()).collect(),
    }
}

pub(super) fn generate(around: &Surroundings, dice: &mut Dice) -> pb::GenerateRequest {
    let prompts = [
        generate_request::Prompt::Text("Ann has 3 apples.".to_owned()),
        generate_request::Prompt::Conversation(conversation()),
        generate_request::Prompt::TokenIds(pb::TokenIds { ids: dice.tokens(6) }),
    ];
    pb::GenerateRequest {
        target: around.target.clone(),
        prompt: Some(dice.pick(&prompts).clone()),
        max_tokens: 1 + dice.below(3) as u32,
        sampling: dice.percent(50).then(|| sampling(dice)),
        stop_tokens: dice.tokens(1),
        policy: if dice.percent(20) { "eagle2,total=8".to_owned() } else { String::new() },
        no_speculation: dice.percent(50),
        stop_strings: vec!["\n\n".to_owned()],
        logprobs: dice.percent(30).then_some(2),
        constraint: constraint(dice),
        ..pb::GenerateRequest::default()
    }
}

pub(super) fn conversation() -> pb::Conversation {
    let said = |role: &str, content: &str| pb::ChatMessage {
        role: role.to_owned(),
        content: content.to_owned(),
        ..pb::ChatMessage::default()
    };
    let messages = vec![said("user", "How many apples?"), said("assistant", "3")];
    pb::Conversation { messages, ..pb::Conversation::default() }
}

/// Any small letters.
fn constraint(dice: &mut Dice) -> Option<pb::Constraint> {
    let words = pb::constraint::Kind::Regex("[a-z ]*".to_owned());
    dice.percent(10).then_some(pb::Constraint { kind: Some(words) })
}

pub(super) fn sampling(dice: &mut Dice) -> pb::Sampling {
    pb::Sampling {
        temperature: dice.below(3) as f64 * 0.4,
        top_k: dice.below(50) as u32,
        top_p: Some(0.9),
        seed: Some(dice.number()),
        min_p: 0.01,
        repetition_penalty: Some(1.1),
        presence_penalty: 0.1,
        frequency_penalty: -0.1,
        logit_bias: [(7, 1.5)].into(),
        acceptance: *dice.pick(&[0, 0, 0, 1, 2]),
    }
}

pub(super) fn sequence(dice: &mut Dice) -> pb::SequenceSpec {
    let count = 2 + dice.below(8);
    pb::SequenceSpec {
        id: format!("hostile-{:016x}", dice.number()),
        committed: dice.tokens(count),
        generated: 1,
        sampling: Some(sampling(dice)),
        max_tokens: 4,
        stop_tokens: dice.tokens(1),
        logprobs: None,
        tenant: 3,
        constraint: constraint(dice),
    }
}

pub(super) fn start(around: &Surroundings, dice: &mut Dice) -> pb::SpeculateRequest {
    let start = pb::Start {
        sequence: Some(sequence(dice)),
        target: around.target.clone(),
        verifier: around.verifier.clone(),
        policy: "constant,k=2".to_owned(),
        exit_thresholds: Vec::new(),
        trees: false,
    };
    pb::SpeculateRequest { message: Some(speculate_request::Message::Start(start)) }
}

pub(super) fn grant(rounds: u32) -> pb::SpeculateRequest {
    pb::SpeculateRequest { message: Some(speculate_request::Message::Grant(pb::Grant { rounds })) }
}

pub(super) fn open(dice: &mut Dice) -> pb::VerifyRequest {
    let open = pb::Open { sequence: Some(sequence(dice)), hidden_states: None };
    pb::VerifyRequest { message: Some(verify_request::Message::Open(open)) }
}

/// The tree of round 0: two children of the root, and a child of the first.
pub(super) fn candidates(dice: &mut Dice) -> pb::CandidateTree {
    let first = 3 + dice.below(1000) as u32;
    pb::CandidateTree {
        round: 0,
        tokens: vec![first, first + 1, first + 2],
        parents: vec![0, 0, 1],
        probs: vec![0.5, 0.25, 0.125],
        drawn_from: Vec::new(),
    }
}

pub(super) fn tree_of(tree: pb::CandidateTree) -> pb::VerifyRequest {
    pb::VerifyRequest { message: Some(verify_request::Message::Tree(tree)) }
}

pub(super) fn tree(dice: &mut Dice) -> pb::VerifyRequest {
    tree_of(candidates(dice))
}

pub(super) fn credit(round: u64, tokens: u32) -> pb::VerifyRequest {
    let credit = pb::Credit { round, tokens, states_later: false };
    pb::VerifyRequest { message: Some(verify_request::Message::Credit(credit)) }
}

pub(super) fn check(rpc: Rpc, dice: &mut Dice) -> HealthCheckRequest {
    let name = if dice.percent(50) { service(rpc.role) } else { "" };
    HealthCheckRequest { service: name.to_owned() }
}

pub(super) fn reflection(rpc: Rpc, dice: &mut Dice) -> ServerReflectionRequest {
    let asked = [
        MessageRequest::FileContainingSymbol(service(rpc.role).to_owned()),
        MessageRequest::FileByFilename("espalier/v1/common.proto".to_owned()),
        MessageRequest::ListServices(String::new()),
    ];
    ServerReflectionRequest { host: String::new(), message_request: Some(dice.pick(&asked).clone()) }
}
