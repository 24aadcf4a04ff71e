//! Messages that are well made and say what must not be, or what is only just allowed.

mod constraints;
mod generate;
mod sequence;
mod trees;
mod way;

use espalier_proto::pb;
use espalier_proto::pb::{speculate_request, verify_request};
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::{ExtensionRequest, ServerReflectionRequest};

use super::rpc::{Asks, Rpc};
use super::usual::{self, Surroundings};
use espalier_fuzz::Dice;
use way::{Way, long, odd, refused, spoiled};

pub(super) use way::{Must, Spoiled};

/// The first message of a call, with a hostile value.
pub(super) fn first(rpc: Rpc, around: &Surroundings, dice: &mut Dice) -> Spoiled<Vec<u8>> {
    match rpc.asks {
        Asks::Nothing => Spoiled { message: nothing(dice), must: Must::Any },
        Asks::Generate => generate::request(around, dice).encoded(),
        Asks::Speculate => start(around, dice).encoded(),
        Asks::Verify => open(dice).encoded(),
        Asks::Check | Asks::Watch => Spoiled { message: check(dice).encode_to_vec(), must: Must::Any },
        Asks::Reflection => Spoiled { message: reflection(dice).encode_to_vec(), must: Must::Any },
    }
}

/// The second message of a stream, after a good first one.
pub(super) fn second(rpc: Rpc, around: &Surroundings, dice: &mut Dice) -> Spoiled<Vec<u8>> {
    match rpc.asks {
        Asks::Speculate => grant(around, dice).encoded(),
        Asks::Verify => trees::submission(dice).encoded(),
        _ => first(rpc, around, dice),
    }
}

/// A message without fields has some.
fn nothing(dice: &mut Dice) -> Vec<u8> {
    let text = HealthCheckRequest { service: "x".repeat(dice.below(1 << 14)) };
    text.encode_to_vec().repeat(1 + dice.below(4))
}

fn start(around: &Surroundings, dice: &mut Dice) -> Spoiled<pb::SpeculateRequest> {
    let good = usual::start(around, dice);
    let Some(speculate_request::Message::Start(mut start)) = good.message else {
        return Spoiled { message: good, must: Must::Any };
    };
    if dice.percent(10) {
        let message = if dice.percent(50) { usual::grant(1) } else { pb::SpeculateRequest::default() };
        return Spoiled { message, must: Must::Refuse };
    }
    if dice.percent(10) {
        start.verifier.clone_from(&around.nowhere);
        let message = Some(speculate_request::Message::Start(start));
        return Spoiled { message: pb::SpeculateRequest { message }, must: Must::Any };
    }
    let spoiled = if dice.percent(50) { sequence_of_start(start, dice) } else { spoiled(start, &STARTS, dice) };
    let message = Some(speculate_request::Message::Start(spoiled.message));
    Spoiled { message: pb::SpeculateRequest { message }, must: spoiled.must }
}

fn sequence_of_start(start: pb::Start, dice: &mut Dice) -> Spoiled<pb::Start> {
    let sequence = sequence::spoiled_sequence(start.sequence.clone(), dice);
    Spoiled { message: pb::Start { sequence: sequence.message, ..start }, must: sequence.must }
}

const STARTS: [Way<pb::Start>; 13] = [
    refused(|start, _| start.target.clear()),
    refused(|start, dice| start.target = "x".repeat(300) + &long(dice, 1 << 16)),
    refused(|start, _| start.verifier.clear()),
    refused(|start, _| start.verifier = "ftp://127.0.0.1:1".to_owned()),
    refused(|start, _| start.verifier = "http://169.254.169.254:80".to_owned()),
    refused(|start, _| start.verifier = "http://no-such-role.invalid:1".to_owned()),
    refused(|start, dice| start.verifier = "http://".to_owned() + &"x".repeat(300 + dice.below(1 << 16))),
    refused(|start, _| start.policy.clear()),
    refused(|start, _| start.policy = "no-such-policy".to_owned()),
    refused(|start, _| start.policy = "constant,k=18446744073709551615".to_owned()),
    refused(|start, _| start.exit_thresholds = vec![f64::NAN]),
    refused(|start, dice| start.exit_thresholds = vec![0.5; 64 + dice.below(1 << 12)]),
    odd(|start, dice| start.target = format!("target-{}", dice.below(1000))),
];

fn grant(around: &Surroundings, dice: &mut Dice) -> Spoiled<pb::SpeculateRequest> {
    let message = match dice.below(4) {
        0 => usual::start(around, dice),
        1 => pb::SpeculateRequest::default(),
        _ => usual::grant(*dice.pick(&[0, 1025, 1 << 31, u32::MAX])),
    };
    Spoiled { message, must: Must::Refuse }
}

fn open(dice: &mut Dice) -> Spoiled<pb::VerifyRequest> {
    let good = usual::open(dice);
    let Some(verify_request::Message::Open(open)) = good.message else {
        return Spoiled { message: good, must: Must::Any };
    };
    if dice.percent(15) {
        let others = [usual::tree(dice), usual::credit(0, 1), pb::VerifyRequest::default()];
        return Spoiled { message: dice.pick(&others).clone(), must: Must::Refuse };
    }
    let tap = |layer, width| Some(pb::Tap { layer, width });
    let taps = [tap(0, 256), tap(u32::MAX, 256), tap(1, 0), tap(1, 255), tap(1, u32::MAX)];
    let spoiled = if dice.percent(20) {
        Spoiled { message: pb::Open { hidden_states: *dice.pick(&taps), ..open }, must: Must::Refuse }
    } else {
        let sequence = sequence::spoiled_sequence(open.sequence, dice);
        Spoiled { message: pb::Open { sequence: sequence.message, ..open }, must: sequence.must }
    };
    let message = Some(verify_request::Message::Open(spoiled.message));
    Spoiled { message: pb::VerifyRequest { message }, must: spoiled.must }
}

fn check(dice: &mut Dice) -> HealthCheckRequest {
    let services = ["espalier.v1", "\0", "espalier.v1.Nobody", "grpc.health.v1.Health"].map(str::to_owned);
    let service = if dice.percent(80) { dice.pick(&services).clone() } else { long(dice, 1 << 20) };
    HealthCheckRequest { service }
}

fn reflection(dice: &mut Dice) -> ServerReflectionRequest {
    let extension =
        |number| ExtensionRequest { containing_type: "espalier.v1.Open".to_owned(), extension_number: number };
    let asked = [
        None,
        Some(MessageRequest::FileByFilename("../../etc/passwd".to_owned())),
        Some(MessageRequest::FileContainingSymbol(String::new())),
        Some(MessageRequest::FileContainingSymbol(".".repeat(1 + dice.below(1 << 14)))),
        Some(MessageRequest::FileContainingExtension(extension(i32::MIN))),
        Some(MessageRequest::FileContainingExtension(extension(1))),
        Some(MessageRequest::AllExtensionNumbersOfType("espalier.v1.Open".to_owned())),
        Some(MessageRequest::ListServices("*".to_owned())),
    ];
    ServerReflectionRequest { host: "\u{10ffff}".repeat(dice.below(100)), message_request: dice.pick(&asked).clone() }
}
