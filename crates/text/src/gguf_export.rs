//! The metadata of a GGUF file for a tokenizer: what `gguf_parts` reads, the other way round.

use espalier_gguf::{Array, Metadata, Value as Entry};
use espalier_speculation::Token;
use serde_json::Value;

use crate::bpe_kind::BpeKind;
use crate::error::Result;
use crate::gguf_parts::{BYTE_LEVEL_BPE, TokenType, parts};
use crate::parts::{Settings, SpecialToken};
use crate::tokenizer::Tokenizer;

/// What a GGUF file says of a tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufTokenizer {
    /// The entries.
    pub metadata: Metadata,
    /// Whether the tokenizer can be made of them. Otherwise they are the chat template only, and `tokenizer.json` must lie
    /// beside the file.
    pub is_whole: bool,
}

impl GgufTokenizer {
    /// The entries for a tokenizer, with as many tokens as the embedding has `rows`.
    ///
    /// # Errors
    /// Settings that are malformed.
    pub fn of(tokenizer: &Tokenizer, rows: usize) -> Result<Self> {
        let settings = tokenizer.parts().settings()?;
        let template = template(&settings);
        let Some(mut metadata) = vocabulary(tokenizer, &settings, rows) else {
            return Ok(Self { metadata: template, is_whole: false });
        };
        metadata.extend(template);
        Ok(Self { metadata, is_whole: true })
    }
}

fn template(settings: &Settings) -> Metadata {
    let entry = |text: &str| ("tokenizer.chat_template".to_owned(), Entry::String(text.to_owned()));
    settings.template().map(entry).into_iter().collect()
}

/// The entries that a tokenizer can be made of, if it is of a known kind: if the one that is made of them speaks of the
/// same tokens.
fn vocabulary(tokenizer: &Tokenizer, settings: &Settings, rows: usize) -> Option<Metadata> {
    let file: Value = serde_json::from_slice(&tokenizer.parts().tokenizer).ok()?;
    let kind = BpeKind::all().find(|kind| is_of(&file, kind))?;
    let mut metadata = tokens(tokenizer, &file, rows)?;
    let entries = [
        ("tokenizer.ggml.model", Entry::String(BYTE_LEVEL_BPE.to_owned())),
        ("tokenizer.ggml.pre", Entry::String(kind.name().to_owned())),
        ("tokenizer.ggml.merges", Entry::Array(Array::String(merges(&file)?))),
    ];
    metadata.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    metadata.extend(special(tokenizer, settings)?);
    let made = Tokenizer::from_parts(parts(&metadata).ok()?).ok()?;
    (made.fingerprint() == tokenizer.fingerprint()).then_some(metadata)
}

/// Whether `tokenizer.json` is of this kind, and asks for nothing that its kind does not have.
fn is_of(file: &Value, kind: &BpeKind) -> bool {
    let is_plain = |added: &Value| {
        let flags = ["single_word", "lstrip", "rstrip"].iter().all(|flag| is_off(&added[flag]));
        // Without a normalizer it makes no difference.
        flags && (is_off(&added["normalized"]) || kind.normalizer().is_null())
    };
    file["normalizer"] == kind.normalizer()
        && without_offsets(&file["pre_tokenizer"]) == without_offsets(&kind.pre_tokenizer())
        && file["decoder"]["type"] == "ByteLevel"
        && is_plain_model(&file["model"])
        && is_off(&file["model"]["ignore_merges"]) != kind.ignores_merges
        && file["added_tokens"].as_array().is_some_and(|added| added.iter().all(is_plain))
}

fn is_plain_model(model: &Value) -> bool {
    let fields =
        ["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"];
    model["type"] == "BPE" && fields.iter().all(|field| is_off(&model[field]))
}

/// Whether a setting is absent, or says that there is nothing.
fn is_off(setting: &Value) -> bool {
    matches!(setting, Value::Null | Value::Bool(false)) || setting == ""
}

/// A part of `tokenizer.json` without what only matters to places in the text.
fn without_offsets(part: &Value) -> Value {
    match part {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "trim_offsets");
            kept.map(|(name, value)| (name.clone(), without_offsets(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(without_offsets).collect(),
        other => other.clone(),
    }
}

/// Texts and types of all tokens, filled up to `rows`.
fn tokens(tokenizer: &Tokenizer, file: &Value, rows: usize) -> Option<Metadata> {
    let count = rows.max(tokenizer.vocab_size());
    let mut texts: Vec<String> = (0..count).map(|token| format!("[PAD{token}]")).collect();
    let mut types = vec![TokenType::Unused.number(); count];
    for (text, token) in tokenizer.vocabulary() {
        *texts.get_mut(token as usize)? = text;
        *types.get_mut(token as usize)? = TokenType::Normal.number();
    }
    for added in file["added_tokens"].as_array()? {
        let kind = if is_off(&added["special"]) { TokenType::UserDefined } else { TokenType::Control };
        *types.get_mut(usize::try_from(added["id"].as_u64()?).ok()?)? = kind.number();
    }
    let entries = [
        ("tokenizer.ggml.tokens", Entry::Array(Array::String(texts))),
        ("tokenizer.ggml.token_type", Entry::Array(Array::I32(types))),
    ];
    Some(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Each merge as two texts with a space between, which neither of them has.
fn merges(file: &Value) -> Option<Vec<String>> {
    let merge = |merge: &Value| match merge {
        Value::String(both) => Some(both.clone()),
        Value::Array(pair) => match &pair[..] {
            [Value::String(left), Value::String(right)] if !left.contains(' ') => Some(format!("{left} {right}")),
            _ => None,
        },
        _ => None,
    };
    file["model"]["merges"].as_array()?.iter().map(merge).collect()
}

/// The special tokens, and which of them begin and end texts.
fn special(tokenizer: &Tokenizer, settings: &Settings) -> Option<Metadata> {
    let around = Around::of(tokenizer)?;
    let token = |special: &Option<SpecialToken>| tokenizer.token(special.as_ref()?.text());
    let (bos, eos) = (token(&settings.bos_token).or(around.first), token(&settings.eos_token).or(around.last));
    // What is added must be what is said to begin and to end a text.
    if [(around.first, bos), (around.last, eos)].iter().any(|(added, said)| added.is_some() && added != said) {
        return None;
    }
    let special =
        [("bos", bos), ("eos", eos), ("unknown", token(&settings.unk_token)), ("padding", token(&settings.pad_token))];
    let ids = special.into_iter().filter_map(|(name, token)| Some((name, token?)));
    let ids = ids.map(|(name, token)| (format!("tokenizer.ggml.{name}_token_id"), Entry::U32(token)));
    let added = [("bos", around.first), ("eos", around.last)];
    let added = added.map(|(name, token)| (format!("tokenizer.ggml.add_{name}_token"), Entry::Bool(token.is_some())));
    Some(ids.chain(added).collect())
}

/// What a tokenizer adds to a text: at most one token before it, and one after it.
struct Around {
    first: Option<Token>,
    last: Option<Token>,
}

impl Around {
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let (whole, bare) = (tokenizer.encode("a", true).ok()?, tokenizer.encode("a", false).ok()?);
        let first = whole.windows(bare.len().max(1)).position(|window| window == bare)?;
        match (&whole[..first], &whole[first + bare.len()..]) {
            (before @ ([] | [_]), after @ ([] | [_])) => {
                Some(Self { first: before.first().copied(), last: after.first().copied() })
            }
            _ => None,
        }
    }
}
