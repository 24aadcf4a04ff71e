//! Hostile values of what answers are held to, and of what they may call.

use espalier_proto::pb;
use espalier_proto::pb::constraint::Kind;
use espalier_proto::pb::tool_choice::Choice;

use super::way::{Way, long, odd, refused};

/// What answers are held to, spoiled.
pub(super) const CONSTRAINTS: [Way<Option<pb::Constraint>>; 16] = [
    refused(|held, _| *held = Some(pb::Constraint { kind: None })),
    refused(|held, _| schema(held, "")),
    refused(|held, _| schema(held, "{")),
    refused(|held, _| schema(held, "{\"type\": \"objekt\"}")),
    refused(|held, _| schema(held, "{\"not\": {}}")),
    refused(|held, dice| schema(held, &"[".repeat(1000 + dice.below(60_000)))),
    refused(|held, dice| schema(held, &" ".repeat((64 << 10) + 1 + dice.below(1 << 16)))),
    odd(|held, _| schema(held, "{\"$ref\": \"#\"}")),
    odd(|held, dice| schema(held, &format!("{{\"const\": {:?}}}", long(dice, 1 << 12)))),
    refused(|held, _| *held = constraint(Kind::Regex("(".to_owned()))),
    odd(|held, _| *held = constraint(Kind::Regex("((a{1,500}){1,500}b?){1,500}".to_owned()))),
    odd(|held, _| *held = constraint(Kind::Regex("(?s:.*)\u{10ffff}".to_owned()))),
    refused(|held, _| *held = constraint(Kind::Grammar("x: \"a\"".to_owned()))),
    refused(|held, _| *held = constraint(Kind::Grammar("start: start".to_owned()))),
    refused(|held, dice| *held = constraint(Kind::Grammar(long(dice, 1 << 12)))),
    odd(|held, _| *held = constraint(Kind::Grammar("start: start start | \"a\" | \"\"".to_owned()))),
];

fn constraint(kind: Kind) -> Option<pb::Constraint> {
    Some(pb::Constraint { kind: Some(kind) })
}

fn schema(held: &mut Option<pb::Constraint>, words: &str) {
    *held = constraint(Kind::JsonSchema(words.to_owned()));
}

/// What a conversation may call, spoiled.
pub(super) const TOOLS: [Way<pb::Conversation>; 11] = [
    refused(|said, _| said.tools = vec![tool("f", "{"), tool("g", "")]),
    refused(|said, _| said.tools = vec![tool("f", "[]")]),
    refused(|said, _| said.tools = vec![tool("", "")]),
    refused(|said, _| said.tools = vec![tool("f\", \"", "")]),
    refused(|said, _| said.tools = vec![tool("f", ""); 2]),
    refused(|said, dice| said.tools = (0..129 + dice.below(9)).map(|i| tool(&format!("f{i}"), "")).collect()),
    refused(|said, _| said.tools = vec![tool("f", "{\"properties\": {\"a\": {\"type\": \"objekt\"}}}")]),
    refused(|said, _| {
        said.tools = vec![tool("f", "")];
        said.tool_choice = Some(pb::ToolChoice { choice: Some(Choice::Name("g".to_owned())), single: false });
    }),
    refused(|said, _| said.tool_choice = Some(pb::ToolChoice { choice: Some(Choice::Required(true)), single: true })),
    refused(|said, dice| {
        let arguments = long(dice, 1 << 10);
        let call = pb::ToolCall { id: "1".to_owned(), name: "f".to_owned(), arguments };
        said.messages.push(pb::ChatMessage { tool_calls: vec![call], ..pb::ChatMessage::default() });
    }),
    odd(|said, _| {
        said.messages.push(pb::ChatMessage { tool_call_id: "nobody's".to_owned(), ..pb::ChatMessage::default() });
    }),
];

fn tool(name: &str, parameters: &str) -> pb::Tool {
    pb::Tool { name: name.to_owned(), description: String::new(), parameters: parameters.to_owned() }
}
