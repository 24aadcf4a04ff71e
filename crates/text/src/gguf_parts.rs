//! A tokenizer from the metadata of a GGUF file, in the files that Hugging Face's library would write for it.

use std::collections::HashSet;

use espalier_gguf::Metadata;
use serde_json::{Map, Value, json};

use crate::bpe_kind::BpeKind;
use crate::gguf_fault::GgufTokenizerFault as Fault;
use crate::parts::Parts;

/// What `tokenizer.ggml.model` is for byte-level BPE.
pub(crate) const BYTE_LEVEL_BPE: &str = "gpt2";

/// What a token is for, as `tokenizer.ggml.token_type` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// Made by merges.
    Normal,
    /// Never seen in a text: it guides the model.
    Control,
    /// Found in texts before all others.
    UserDefined,
    /// Fills the vocabulary up to the rows of the embedding.
    Unused,
}

impl TokenType {
    /// Its number in files.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Normal => 1,
            Self::Control => 3,
            Self::UserDefined => 4,
            Self::Unused => 5,
        }
    }

    fn of(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Normal),
            // Byte-level BPE knows all texts; its unknown token is one that nothing but a template writes.
            2 | 3 => Some(Self::Control),
            4 => Some(Self::UserDefined),
            5 => Some(Self::Unused),
            _ => None,
        }
    }
}

/// The parts of a tokenizer that is described by a file's metadata.
pub(crate) fn parts(metadata: &Metadata) -> Result<Parts, Fault> {
    let kind = kind(metadata)?;
    let vocabulary = Vocabulary::read(metadata)?;
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": kind.normalizer(),
        "pre_tokenizer": kind.pre_tokenizer(),
        "post_processor": ends(metadata, kind, &vocabulary)?,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": kind.ignores_merges,
            "vocab": vocabulary.used(),
            "merges": merges(metadata)?,
        },
    });
    let config = settings(metadata)?.map(|config| config.to_string().into_bytes());
    Ok(Parts { tokenizer: tokenizer.to_string().into_bytes(), config, chat_template: None })
}

/// `tokenizer_config.json`: the special tokens and the chat template, if the file has any tokens.
pub(crate) fn settings(metadata: &Metadata) -> Result<Option<Value>, Fault> {
    let Some(tokens) = metadata.optional::<&[String]>("tokenizer.ggml.tokens")? else { return Ok(None) };
    let mut settings = Map::new();
    let names = [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")];
    for (name, field) in names {
        if let Some(token) = special(metadata, name, tokens)? {
            settings.insert(field.to_owned(), json!(token.text));
        }
    }
    if let Some(template) = metadata.optional::<&str>("tokenizer.chat_template")? {
        settings.insert("chat_template".to_owned(), json!(template));
    }
    Ok(Some(Value::Object(settings)))
}

fn kind(metadata: &Metadata) -> Result<&'static BpeKind, Fault> {
    let model: &str = metadata.required("tokenizer.ggml.model")?;
    if model != BYTE_LEVEL_BPE {
        return Err(Fault::Model { found: model.to_owned() });
    }
    let words: &str = metadata.optional("tokenizer.ggml.pre")?.unwrap_or_default();
    BpeKind::of(words).ok_or_else(|| Fault::Words { found: words.to_owned() })
}

/// The tokens of a file, each of a text and a type of its own.
struct Vocabulary<'a> {
    tokens: &'a [String],
    types: Vec<TokenType>,
}

impl<'a> Vocabulary<'a> {
    fn read(metadata: &'a Metadata) -> Result<Self, Fault> {
        let tokens: &[String] = metadata.required("tokenizer.ggml.tokens")?;
        let types: &[i32] = metadata.required("tokenizer.ggml.token_type")?;
        if types.len() != tokens.len() {
            return Err(Fault::Types { found: types.len(), tokens: tokens.len() });
        }
        let mut texts = HashSet::new();
        if let Some((token, text)) = tokens.iter().enumerate().find(|(_, text)| !texts.insert(text.as_str())) {
            return Err(Fault::Twice { token, text: text.clone() });
        }
        let numbers = types.iter().copied().enumerate();
        let types = numbers.map(|(token, found)| TokenType::of(found).ok_or(Fault::Type { token, found }));
        Ok(Self { tokens, types: types.collect::<Result<_, _>>()? })
    }

    /// The tokens whose type is `wanted`, in order.
    fn each(&self, wanted: impl Fn(TokenType) -> bool) -> impl Iterator<Item = Entry<'a>> {
        let typed = self.tokens.iter().zip(&self.types).enumerate();
        let entries = typed.map(|(token, (text, &kind))| Entry { token, text, kind });
        entries.filter(move |entry| wanted(entry.kind))
    }

    /// `model.vocab`.
    fn used(&self) -> Map<String, Value> {
        let used = self.each(|kind| kind != TokenType::Unused);
        used.map(|entry| (entry.text.to_owned(), json!(entry.token))).collect()
    }

    /// `added_tokens`.
    fn added(&self) -> Vec<Value> {
        let added = self.each(|kind| matches!(kind, TokenType::Control | TokenType::UserDefined));
        added.map(|entry| entry.added()).collect()
    }
}

/// A token of a vocabulary.
struct Entry<'a> {
    token: usize,
    text: &'a str,
    kind: TokenType,
}

impl Entry<'_> {
    /// An element of `added_tokens`.
    fn added(&self) -> Value {
        json!({
            "id": self.token, "content": self.text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": self.kind == TokenType::Control,
        })
    }
}

/// A token with a purpose of its own.
struct Special<'a> {
    token: u32,
    text: &'a str,
}

fn special<'a>(metadata: &Metadata, name: &str, tokens: &'a [String]) -> Result<Option<Special<'a>>, Fault> {
    let key = format!("tokenizer.ggml.{name}_token_id");
    let Some(found) = metadata.optional::<u32>(&key)? else { return Ok(None) };
    match tokens.get(found as usize) {
        Some(text) => Ok(Some(Special { token: found, text })),
        None => Err(Fault::NoToken { key, found, tokens: tokens.len() }),
    }
}

/// `post_processor`: the tokens that begin and end a text, if any do.
fn ends(metadata: &Metadata, kind: &BpeKind, vocabulary: &Vocabulary<'_>) -> Result<Value, Fault> {
    let wanted = |name: &str, default: bool| -> Result<Option<Special<'_>>, Fault> {
        let add = metadata.optional(&format!("tokenizer.ggml.add_{name}_token"))?.unwrap_or(default);
        if add { special(metadata, name, vocabulary.tokens) } else { Ok(None) }
    };
    let (first, last) = (wanted("bos", kind.begins)?, wanted("eos", false)?);
    if first.is_none() && last.is_none() {
        return Ok(Value::Null);
    }
    let piece = |special: &Special<'_>| json!({ "SpecialToken": { "id": special.text, "type_id": 0 } });
    let text = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    let around = |id| first.iter().map(piece).chain([text(id)]).chain(last.iter().map(piece)).collect::<Vec<_>>();
    let entry = |special: &Special<'_>| {
        let Special { token, text } = special;
        ((*text).to_owned(), json!({ "id": text, "ids": [token], "tokens": [text] }))
    };
    let pair = [around("A"), around("B")].concat();
    Ok(json!({
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": pair,
        "special_tokens": first.iter().chain(&last).map(entry).collect::<Map<_, _>>(),
    }))
}

fn merges(metadata: &Metadata) -> Result<Vec<[&str; 2]>, Fault> {
    let merges: &[String] = metadata.required("tokenizer.ggml.merges")?;
    let mut pairs = Vec::with_capacity(merges.len());
    for (merge, text) in merges.iter().enumerate() {
        match text.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => pairs.push([left, right]),
            _ => return Err(Fault::Merge { merge, text: text.clone() }),
        }
    }
    Ok(pairs)
}
