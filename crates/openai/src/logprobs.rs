//! What the target thought of tokens, as chats and completions are told.

use espalier_proto::GeneratedToken;
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// Of the tokens of a chat's choice.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<()>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ChatToken {
    #[serde(flatten)]
    chosen: Rated,
    top_logprobs: Vec<Rated>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Rated {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
}

impl Rated {
    fn new(token: &str, logprob: f64) -> Self {
        Self { token: token.to_owned(), logprob, bytes: token.as_bytes().to_vec() }
    }
}

/// The text that a token has on its own, where that is known: else what became complete with it.
fn own_text(token: &GeneratedToken) -> &str {
    let own = token.alternatives.iter().find(|other| other.id == token.id);
    own.map_or(&token.text, |own| &own.text)
}

impl ChatLogprobs {
    pub(crate) fn of(tokens: &[GeneratedToken]) -> Self {
        let rated = |token: &GeneratedToken| {
            let chosen = Rated::new(own_text(token), token.logprob?);
            let others = token.alternatives.iter().map(|other| Rated::new(&other.text, other.logprob));
            Some(ChatToken { chosen, top_logprobs: others.collect() })
        };
        Self { content: tokens.iter().filter_map(rated).collect(), refusal: None }
    }
}

/// Of the tokens of a completion's choice.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f64>,
    top_logprobs: Vec<Map<String, Value>>,
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Of tokens behind so many characters of the choice's text.
    pub(crate) fn of(tokens: &[GeneratedToken], mut offset: usize) -> Self {
        let mut all = Self::default();
        for token in tokens {
            let Some(logprob) = token.logprob else { continue };
            let number = |logprob| Number::from_f64(logprob).map_or(Value::Null, Value::Number);
            all.tokens.push(own_text(token).to_owned());
            all.token_logprobs.push(logprob);
            let top = token.alternatives.iter().map(|other| (other.text.clone(), number(other.logprob)));
            all.top_logprobs.push(top.collect());
            all.text_offset.push(offset);
            offset += token.text.chars().count();
        }
        all
    }
}
