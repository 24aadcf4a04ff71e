//! What is to be continued.

use espalier_proto::pb;
use espalier_proto::pb::generate_request::Prompt;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::RequestError;
use crate::fields::Fields;

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

/// Takes the conversation of a chat.
pub(crate) fn take_conversation(fields: &mut Fields) -> Result<Prompt, RequestError> {
    let said: Vec<Map<String, Value>> = fields.need("messages")?;
    let named = |i: usize| format!("{}[{i}]", fields.named("messages"));
    let message = |(i, message)| read_message(Fields::of(message, &named(i)));
    let messages = said.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
    Ok(Prompt::Conversation(pb::Conversation { messages }))
}

fn read_message(mut fields: Fields) -> Result<pb::ChatMessage, RequestError> {
    let role: String = fields.need("role")?;
    let content = match fields.need("content")? {
        Content::Text(text) => text,
        Content::Parts(parts) => {
            let named = |i: usize| format!("{}[{i}]", fields.named("content"));
            let text = |(i, part)| read_part(Fields::of(part, &named(i)));
            parts.into_iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    // A developer's words are a system's for templates that know no developer.
    let role = if role == "developer" { "system".to_owned() } else { role };
    fields.end()?;
    Ok(pb::ChatMessage { role, content })
}

fn read_part(mut part: Fields) -> Result<String, RequestError> {
    part.only("type", "\"text\"")?;
    let text = part.need("text")?;
    part.end()?;
    Ok(text)
}
