//! What clients ask the gateway, and what they are told.

use espalier_proto::pb::{generate_request, generate_response};
use espalier_proto::{GenerationEvent, GenerationRequest, TargetCard, pb};

use crate::target::Target;
use crate::targets::wire::{MESSAGE, encoded, sampling, survives, vocabulary};

pub(crate) const REQUEST: Target = Target {
    name: "generate-request",
    about: "A request for text is refused, or is the same after it was sent on.",
    run: survives::<pb::GenerateRequest, GenerationRequest>,
    seeds: || encoded(prompts().map(request)),
    ..MESSAGE
};

pub(crate) const EVENT: Target = Target {
    name: "generate-event",
    about: "What a client is told is refused, or is the same after it was sent on.",
    run: survives::<pb::GenerateResponse, GenerationEvent>,
    seeds: || encoded(events().map(|event| pb::GenerateResponse { event: Some(event) })),
    ..MESSAGE
};

pub(crate) const TARGET_CARD: Target = Target {
    name: "target-card",
    about: "What a gateway says of a target is refused, or is the same after it was sent on.",
    run: survives::<pb::Target, TargetCard>,
    seeds: || {
        let name = "medium".to_owned();
        let drafters = vec!["small".to_owned(), "sorted".to_owned()];
        encoded([pb::Target { name, vocabulary: Some(vocabulary()), context: 2048, drafters }])
    },
    ..MESSAGE
};

fn prompts() -> [generate_request::Prompt; 3] {
    let said = |role: &str, content: &str| pb::ChatMessage {
        role: role.to_owned(),
        content: content.to_owned(),
        ..pb::ChatMessage::default()
    };
    let call = pb::ToolCall { id: "1".to_owned(), name: "f".to_owned(), arguments: "{\"a\": 1}".to_owned() };
    let asked = pb::ChatMessage { tool_calls: vec![call], ..said("assistant", "") };
    let answered = pb::ChatMessage { tool_call_id: "1".to_owned(), ..said("tool", "3") };
    let parameters = "{\"type\": \"object\"}".to_owned();
    let tools = vec![pb::Tool { name: "f".to_owned(), description: "adds".to_owned(), parameters }];
    let choice = Some(pb::tool_choice::Choice::Name("f".to_owned()));
    let tool_choice = Some(pb::ToolChoice { choice, single: true });
    let messages = vec![said("user", "How many apples?"), asked, answered, said("assistant", "3")];
    [
        generate_request::Prompt::Text("Ann has 3 apples.".to_owned()),
        generate_request::Prompt::Conversation(pb::Conversation { messages, tools, tool_choice }),
        generate_request::Prompt::TokenIds(pb::TokenIds { ids: vec![1, 2, 3] }),
    ]
}

fn request(prompt: generate_request::Prompt) -> pb::GenerateRequest {
    pb::GenerateRequest {
        target: "medium".to_owned(),
        prompt: Some(prompt),
        max_tokens: 16,
        sampling: Some(sampling()),
        stop_tokens: vec![7],
        policy: "eagle2,total=8".to_owned(),
        drafter: "sorted".to_owned(),
        no_speculation: false,
        stop_strings: vec!["\n\n".to_owned()],
        logprobs: Some(2),
        generated: vec![4, 5],
        cut_to_context: true,
        rounds: false,
        constraint: Some(pb::Constraint { kind: Some(pb::constraint::Kind::Regex("[0-9]+".to_owned())) }),
    }
}

fn events() -> [generate_response::Event; 3] {
    let alternatives = vec![pb::Alternative { id: 9, text: " nine".to_owned(), logprob: -0.25 }];
    let token =
        pb::GeneratedToken { id: 4, text: " four".to_owned(), drafted: true, logprob: Some(-1.5), alternatives };
    let statistics = pb::SpeculationStatistics {
        rounds: 2,
        drafted: 8,
        verified: 6,
        accepted: 3,
        accepted_by_depth: vec![2, 1],
        tau: Some(2.5),
        draft_ms: 3.25,
        verify_ms: 4.5,
        wait_ms: 0.125,
        drafter: "sorted".to_owned(),
        policy: "expected-gain".to_owned(),
        failovers: 1,
        depth: 4,
    };
    let finished = pb::Finished {
        reason: 1,
        usage: Some(pb::Usage { prompt_tokens: 12, completion_tokens: 5 }),
        statistics: Some(statistics),
        text: "…".to_owned(),
        seed: 9,
        stop_string: "\n\n".to_owned(),
    };
    let node = pb::TraceNode { id: 7, text: " a".to_owned(), parent: 0, prob: 0.5, fate: 3 };
    let round = pb::RoundTrace { nodes: vec![node], levels_ms: vec![0.25], tokens: 1, ..pb::RoundTrace::default() };
    [
        generate_response::Event::Begun(pb::Begun {
            id: "fuzz-1".to_owned(),
            seed: 9,
            prompt_tokens: 12,
            call_form: None,
        }),
        generate_response::Event::Chunk(pb::Chunk { tokens: vec![token], round: Some(round) }),
        generate_response::Event::Finished(finished),
    ]
}
