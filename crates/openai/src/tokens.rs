//! `/v1/tokenize`: what tokens a prompt is. OpenAI's API has no such call; this one's shape is vLLM's.

use espalier_proto::pb::generate_request::Prompt;
use serde::Serialize;

use crate::error::RequestError;
use crate::fields::Fields;
use crate::prompt::{take_conversation, take_prompts};

/// Whose tokens a prompt is to be told in.
#[derive(Debug, Clone, PartialEq)]
pub struct TokensAsked {
    /// The target.
    pub model: String,
    /// A text, or a conversation that its template puts into one.
    pub prompt: Prompt,
}

/// The tokens of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// How many they are.
    pub count: usize,
    /// How many the target can hold, prompt and answer together.
    pub max_model_len: usize,
    /// Their numbers.
    pub tokens: Vec<u32>,
    /// What each is alone.
    pub token_strs: Vec<String>,
}

impl TokensAsked {
    /// Reads a request's body.
    ///
    /// # Errors
    /// [`RequestError`] names the field that is wrong or not supported.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::parse(body)?;
        let model = fields.need("model")?;
        let prompt = match fields.has("messages") {
            true => Prompt::Conversation(take_conversation(&mut fields)?),
            false => take_one(&mut fields)?,
        };
        fields.end()?;
        Ok(Self { model, prompt })
    }
}

fn take_one(fields: &mut Fields) -> Result<Prompt, RequestError> {
    let mut prompts = take_prompts(fields)?;
    match (prompts.pop(), prompts.len()) {
        (Some(prompt), 0) => Ok(prompt),
        (one, others) => {
            Err(RequestError::Count { field: "prompt".to_owned(), found: others + usize::from(one.is_some()), most: 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refusal(body: &str) -> String {
        TokensAsked::parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn one_text_or_one_conversation_is_asked_for() {
        let text = TokensAsked::parse(br#"{"model": "m", "prompt": "Hi"}"#).unwrap();
        assert_eq!((text.model.as_str(), text.prompt), ("m", Prompt::Text("Hi".to_owned())));
        let chat = TokensAsked::parse(br#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}"#).unwrap();
        assert!(matches!(chat.prompt, Prompt::Conversation(said) if said.messages.len() == 1));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        assert_eq!(refusal(r#"{"prompt": "Hi"}"#), "`model` is missing");
        assert_eq!(refusal(r#"{"model": "m"}"#), "`prompt` is missing");
        assert_eq!(refusal(r#"{"model": "m", "prompt": ["a", "b"]}"#), "`prompt` holds 2; it must hold 1 to 1");
        assert_eq!(refusal(r#"{"model": "m", "prompt": "Hi", "n": 2}"#), "`n` is not supported");
    }
}
