//! What is to be continued.

use espalier_proto::pb;
use espalier_proto::pb::generate_request::Prompt;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::RequestError;
use crate::fields::Fields;
use crate::tools;

/// The prompts of a completion: text or tokens, or several of either.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, a list of tokens, or a list of either was expected")]
enum Prompts {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// Takes the prompts of a completion.
pub(crate) fn take_prompts(fields: &mut Fields) -> Result<Vec<Prompt>, RequestError> {
    let tokens = |ids| Prompt::TokenIds(pb::TokenIds { ids });
    Ok(match fields.need("prompt")? {
        Prompts::Text(text) => vec![Prompt::Text(text)],
        Prompts::Texts(texts) => texts.into_iter().map(Prompt::Text).collect(),
        Prompts::Tokens(ids) => vec![tokens(ids)],
        Prompts::TokenLists(lists) => lists.into_iter().map(tokens).collect(),
    })
}

/// What a message says: a text, or parts of which only texts can be had.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of parts was expected")]
enum Content {
    Text(String),
    Parts(Vec<Map<String, Value>>),
}

/// Takes the conversation of a chat, with what may be called.
pub(crate) fn take_conversation(fields: &mut Fields) -> Result<pb::Conversation, RequestError> {
    let said: Vec<Map<String, Value>> = fields.need("messages")?;
    let named = |i: usize| format!("{}[{i}]", fields.named("messages"));
    let message = |(i, message)| read_message(Fields::of(message, &named(i)));
    let messages = said.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
    let mut conversation = pb::Conversation { messages, ..pb::Conversation::default() };
    tools::take(fields, &mut conversation)?;
    Ok(conversation)
}

fn read_message(mut fields: Fields) -> Result<pb::ChatMessage, RequestError> {
    let role: String = fields.need("role")?;
    let tool_calls = tools::take_calls(&mut fields)?;
    let content = match fields.take("content")? {
        // Who calls may say nothing besides.
        None if !tool_calls.is_empty() => String::new(),
        None => return Err(RequestError::Missing { field: fields.named("content") }),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => {
            let named = |i: usize| format!("{}[{i}]", fields.named("content"));
            let text = |(i, part)| read_part(Fields::of(part, &named(i)));
            parts.into_iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    // A developer's words are a system's for templates that know no developer.
    let role = if role == "developer" { "system".to_owned() } else { role };
    let tool_call_id = match role.as_str() {
        "tool" => fields.need("tool_call_id")?,
        _ => String::new(),
    };
    fields.end()?;
    Ok(pb::ChatMessage { role, content, tool_calls, tool_call_id })
}

fn read_part(mut part: Fields) -> Result<String, RequestError> {
    part.only("type", "\"text\"")?;
    let text = part.need("text")?;
    part.end()?;
    Ok(text)
}
