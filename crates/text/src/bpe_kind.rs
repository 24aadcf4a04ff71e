//! The kinds of byte-level BPE that a GGUF file can name: how a text is cut into the words that merges work on.

use serde_json::{Value, json};

/// A kind of byte-level BPE.
#[derive(Debug)]
pub(crate) struct BpeKind {
    /// Its names in `tokenizer.ggml.pre`; files are written with the first.
    names: &'static [&'static str],
    /// Whether texts are brought into Unicode's form NFC first.
    composes: bool,
    words: Words,
    /// Whether a word that is a token is never taken apart.
    pub(crate) ignores_merges: bool,
    /// Whether texts begin with a token of their own where the file does not say.
    pub(crate) begins: bool,
}

/// How words are found.
#[derive(Debug)]
enum Words {
    /// As GPT-2 finds them.
    Gpt2,
    /// As GPT-2 finds them, with every digit a word of its own.
    Gpt2Digits,
    /// Each match of a pattern is one.
    Pattern(&'static str),
}

/// Llama 3's words: up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen's words: every digit alone.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const KINDS: [BpeKind; 4] = [
    BpeKind { names: &["gpt-2"], composes: false, words: Words::Gpt2, ignores_merges: false, begins: false },
    BpeKind {
        names: &["llama-bpe", "llama3", "llama-v3"],
        composes: false,
        words: Words::Pattern(LLAMA3),
        ignores_merges: true,
        begins: true,
    },
    BpeKind { names: &["qwen2"], composes: true, words: Words::Pattern(QWEN2), ignores_merges: false, begins: false },
    BpeKind { names: &["smollm"], composes: false, words: Words::Gpt2Digits, ignores_merges: false, begins: false },
];

impl BpeKind {
    /// The names that files are written with, for messages.
    pub(crate) const KNOWN: &str = "gpt-2, llama-bpe, qwen2 and smollm";

    /// The kind of a name.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.names.contains(&name))
    }

    /// All kinds.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        KINDS.iter()
    }

    /// The name that files are written with.
    pub(crate) fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// `normalizer` in `tokenizer.json`.
    pub(crate) fn normalizer(&self) -> Value {
        if self.composes { json!({ "type": "NFC" }) } else { Value::Null }
    }

    /// `pre_tokenizer` in `tokenizer.json`.
    pub(crate) fn pre_tokenizer(&self) -> Value {
        match self.words {
            Words::Gpt2 => byte_level(true),
            Words::Gpt2Digits => sequence(&json!({ "type": "Digits", "individual_digits": true }), &byte_level(true)),
            Words::Pattern(pattern) => {
                let split = json!({
                    "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
                });
                sequence(&split, &byte_level(false))
            }
        }
    }
}

/// Bytes to letters, after GPT-2's pattern has found words or without it.
fn byte_level(use_regex: bool) -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex })
}

fn sequence(first: &Value, second: &Value) -> Value {
    json!({ "type": "Sequence", "pretokenizers": [first, second] })
}
