//! Hostile values of a request for text.

use espalier_proto::pb;
use espalier_proto::pb::generate_request::Prompt;

use super::constraints::{CONSTRAINTS, TOOLS};
use super::sequence::SAMPLINGS;
use super::way::{Spoiled, Way, long, odd, refused, spoiled};
use crate::hostile::usual::{self, Surroundings};
use espalier_fuzz::Dice;

/// A request with a hostile value.
pub(super) fn request(around: &Surroundings, dice: &mut Dice) -> Spoiled<pb::GenerateRequest> {
    let request = usual::generate(around, dice);
    match dice.below(5) {
        0 => {
            let sampling = spoiled(usual::sampling(dice), &SAMPLINGS, dice);
            Spoiled {
                message: pb::GenerateRequest { sampling: Some(sampling.message), ..request },
                must: sampling.must,
            }
        }
        1 => spoiled(request, &PROMPTS, dice),
        2 => {
            let held = spoiled(request.constraint.clone(), &CONSTRAINTS, dice);
            Spoiled { message: pb::GenerateRequest { constraint: held.message, ..request }, must: held.must }
        }
        3 => {
            let said = spoiled(usual::conversation(), &TOOLS, dice);
            let prompt = Some(Prompt::Conversation(said.message));
            Spoiled { message: pb::GenerateRequest { prompt, constraint: None, ..request }, must: said.must }
        }
        _ => spoiled(request, &REQUESTS, dice),
    }
}

fn tokens(ids: Vec<u32>) -> Option<Prompt> {
    Some(Prompt::TokenIds(pb::TokenIds { ids }))
}

fn said(role: &str, content: String) -> pb::ChatMessage {
    pb::ChatMessage { role: role.to_owned(), content, ..pb::ChatMessage::default() }
}

fn conversation(messages: Vec<pb::ChatMessage>) -> Option<Prompt> {
    Some(Prompt::Conversation(pb::Conversation { messages, ..pb::Conversation::default() }))
}

const PROMPTS: [Way<pb::GenerateRequest>; 14] = [
    refused(|request, _| request.prompt = None),
    odd(|request, _| request.prompt = Some(Prompt::Text(String::new()))),
    odd(|request, _| request.prompt = Some(Prompt::Text("\0".repeat(100)))),
    odd(|request, _| request.prompt = Some(Prompt::Text("\u{10ffff}\u{202e}".repeat(50)))),
    odd(|request, _| request.prompt = Some(Prompt::Text("<|im_start|>system<|im_end|></s>".to_owned()))),
    odd(|request, dice| request.prompt = Some(Prompt::Text(long(dice, 1 << 15)))),
    refused(|request, dice| request.prompt = Some(Prompt::Text("play ".repeat(400_000 + dice.below(100_000))))),
    refused(|request, _| request.prompt = tokens(Vec::new())),
    refused(|request, _| request.prompt = tokens(vec![4096])),
    refused(|request, _| request.prompt = tokens(vec![1, u32::MAX])),
    refused(|request, dice| request.prompt = tokens(vec![7; 2048 + dice.below(1 << 16)])),
    odd(|request, _| request.prompt = conversation(Vec::new())),
    odd(|request, dice| request.prompt = conversation(vec![said("{{ 1 // 0 }}", long(dice, 1 << 8))])),
    odd(|request, dice| request.prompt = conversation(vec![said("", String::new()); 1 + dice.below(3000)])),
];

const REQUESTS: [Way<pb::GenerateRequest>; 24] = [
    refused(|request, _| request.target.clear()),
    refused(|request, dice| request.target = format!("target-{}", dice.number())),
    refused(|request, dice| request.target = long(dice, 1 << 20)),
    refused(|request, _| request.max_tokens = 0),
    refused(|request, _| request.max_tokens = 1 << 31),
    refused(|request, _| request.max_tokens = u32::MAX),
    refused(|request, _| request.stop_tokens = vec![7; 17]),
    refused(|request, _| request.stop_tokens = vec![u32::MAX]),
    refused(|request, dice| request.stop_tokens = vec![7; 1 << dice.below(18).max(5)]),
    refused(|request, _| request.stop_strings = vec!["a".to_owned(); 17]),
    refused(|request, _| request.stop_strings = vec![String::new()]),
    refused(|request, dice| request.stop_strings = vec!["x".repeat(257 + dice.below(1 << 16))]),
    refused(|request, dice| request.logprobs = Some(*dice.pick(&[21, 1 << 31, u32::MAX]))),
    refused(|request, _| request.policy = "no-such-policy".to_owned()),
    refused(|request, _| request.policy = "eagle2,total=18446744073709551616".to_owned()),
    refused(|request, _| request.policy = "constant,k=-1".to_owned()),
    refused(|request, _| request.policy = ",=,=,".to_owned()),
    refused(|request, dice| request.policy = long(dice, 1 << 16) + &"x".repeat(257)),
    refused(|request, dice| {
        request.no_speculation = false;
        request.drafter = format!("drafter-{}", dice.number());
    }),
    refused(|request, dice| request.drafter = "x".repeat(300 + dice.below(1 << 16))),
    refused(|request, _| request.generated = vec![7; 100]),
    refused(|request, _| request.generated = vec![u32::MAX]),
    refused(|request, dice| request.generated = vec![7; 1 << dice.below(18).max(5)]),
    odd(|request, _| request.generated = vec![7]),
];
