//! Text to tokens and back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use espalier_speculation::Token;
use serde::de::IgnoredAny;

use crate::chat::{ChatTemplate, Conversation, TemplateSource};
use crate::error::{Result, TextError};
use crate::fingerprint::fingerprint;
use crate::guard::guarded;
use crate::parts::Parts;

/// A tokenizer with its chat template. Clones share everything.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tokenizer: tokenizers::Tokenizer,
    template: Option<TemplateSource>,
    /// The template, once it was needed here.
    parsed: OnceLock<ChatTemplate>,
    fingerprint: String,
    vocab_size: usize,
    longest_token: usize,
    parts: Parts,
}

impl Tokenizer {
    /// Opens a folder in Hugging Face format, or a GGUF file; see [`Parts::read`].
    ///
    /// # Errors
    /// A missing, unreadable, oversized or malformed file, a chat template that is none, or a GGUF file whose tokenizer
    /// cannot be made.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = Self::from_parts(Parts::read(path)?)?;
        if let Some(template) = opened.chat_template() {
            opened.parsed(template)?;
        }
        Ok(opened)
    }

    /// Rebuilds a tokenizer from the bytes that [`Self::parts`] gave. The chat template is not parsed before it is used.
    ///
    /// # Errors
    /// An oversized or malformed part.
    pub fn from_parts(parts: Parts) -> Result<Self> {
        parts.check_sizes()?;
        let tokenizer = parts.tokenizer(load)?;
        let vocabulary = tokenizer.get_vocab(true);
        let fingerprint = parts.tokenizer(|json| fingerprint(&vocabulary, json))?;
        let template = TemplateSource::of(&parts.settings()?);
        Ok(Self(Arc::new(Inner {
            tokenizer,
            template,
            parsed: OnceLock::new(),
            fingerprint,
            vocab_size: vocabulary.values().max().map_or(0, |&last| last as usize + 1),
            longest_token: vocabulary.keys().map(String::len).max().unwrap_or(0),
            parts,
        })))
    }

    /// The bytes to rebuild this tokenizer from.
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// One more than the largest token; a model's embedding may be padded beyond it.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// Bytes of the longest token, as the vocabulary writes it: of a text, one token stands for no more, unless its
    /// tokenizer drops some of it.
    pub fn longest_token(&self) -> usize {
        self.0.longest_token
    }

    /// SHA-256 in hexadecimal over vocabulary and merges: equal for two tokenizers only if they speak of the same tokens.
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// Whether there is a chat template.
    pub fn has_chat_template(&self) -> bool {
        self.0.template.is_some()
    }

    /// The chat template, to be rendered elsewhere.
    pub fn chat_template(&self) -> Option<&TemplateSource> {
        self.0.template.as_ref()
    }

    /// Tokenizes a text; `add_special` adds the tokens that begin and end a text, as the tokenizer defines.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<Token>> {
        let encoded = guarded(|| self.0.tokenizer.encode_fast(text, add_special).map_err(|fault| fault.to_string()));
        match encoded {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(fault) => Err(TextError::Encode { bytes: text.len(), fault }),
        }
    }

    /// The text of the prompt that asks for the assistant's answer, made in this process. It holds its special tokens:
    /// tokenize it without adding any, or use [`Self::encode_chat`].
    ///
    /// # Errors
    /// No template, one that cannot be parsed, or one that refuses the conversation.
    pub fn chat(&self, conversation: &Conversation) -> Result<String> {
        let template = self.chat_template().ok_or(TextError::NoTemplate)?;
        self.parsed(template)?.render(conversation, SystemTime::now())
    }

    fn parsed(&self, template: &TemplateSource) -> Result<&ChatTemplate> {
        if let Some(parsed) = self.0.parsed.get() {
            return Ok(parsed);
        }
        let parsed = ChatTemplate::parse(template)?;
        Ok(self.0.parsed.get_or_init(|| parsed))
    }

    /// The tokens of [`Self::chat`].
    ///
    /// # Errors
    /// As for [`Self::chat`].
    pub fn encode_chat(&self, conversation: &Conversation) -> Result<Vec<Token>> {
        self.encode(&self.chat(conversation)?, false)
    }

    /// The text of some tokens. Special and unknown tokens have none; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[Token]) -> Result<String> {
        let decoded = guarded(|| self.0.tokenizer.decode(tokens, true).map_err(|fault| fault.to_string()));
        decoded.map_err(|fault| TextError::Decode { tokens: tokens.len(), fault })
    }

    /// The first token of a text that no text of tokens has: a special one.
    ///
    /// # Errors
    /// A text that cannot be tokenized.
    pub fn hidden_in(&self, text: &str) -> Result<Option<String>> {
        let hidden = self.encode(text, false)?.into_iter().find(|&token| !self.is_visible(token));
        Ok(hidden.map(|token| self.0.tokenizer.id_to_token(token).unwrap_or_else(|| token.to_string())))
    }

    /// All tokens by their texts.
    pub(crate) fn vocabulary(&self) -> HashMap<String, Token> {
        self.0.tokenizer.get_vocab(true)
    }

    /// The token of this text.
    pub(crate) fn token(&self, text: &str) -> Option<Token> {
        self.0.tokenizer.token_to_id(text)
    }

    /// Whether a token adds anything to a text: it is known and not special.
    pub(crate) fn is_visible(&self, token: Token) -> bool {
        let text = self.0.tokenizer.id_to_token(token);
        text.is_some_and(|text| !self.0.tokenizer.get_added_vocabulary().is_special_token(&text))
    }
}

/// Parses `tokenizer.json`. The padding and truncation that it may ask for are for training batches, not for prompts.
fn load(json: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    // The library panics at some of what is no JSON.
    serde_json::from_slice::<IgnoredAny>(json).map_err(|fault| fault.to_string())?;
    let read = || tokenizers::Tokenizer::from_bytes(json).map_err(|fault| fault.to_string());
    let mut tokenizer = guarded(read)?;
    tokenizer.with_padding(None).with_truncation(None).map_err(|fault| fault.to_string())?;
    Ok(tokenizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_refused_wherever_it_ends() {
        let json = br#"{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "decoder":"#;
        let parts = Parts { tokenizer: json.to_vec(), config: None, chat_template: None };
        let refusal = Tokenizer::from_parts(parts).map(drop).map_err(|fault| fault.to_string());
        let words = "tokenizer.json is malformed: EOF while parsing a value at line 1 column 82";
        assert_eq!(refusal, Err(words.to_owned()));
    }

    #[test]
    fn what_the_library_panics_of_is_a_fault_of_the_text() {
        let json = br#"{
            "version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
            "post_processor": {
                "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {}
            }
        }"#;
        let parts = Parts { tokenizer: json.to_vec(), config: None, chat_template: None };
        let encoded = Tokenizer::from_parts(parts).and_then(|tokenizer| tokenizer.encode("a", true));
        let words = "the text of 1 bytes cannot be tokenized: the library panicked: no entry found for key";
        assert_eq!(encoded.map_err(|fault| fault.to_string()), Err(words.to_owned()));
    }
}
