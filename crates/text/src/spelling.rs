//! What each token adds to a text, in bytes.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Result, TextError};
use crate::tokenizer::Tokenizer;

impl Tokenizer {
    /// The bytes of every token, by its number: nothing for special tokens and for numbers that no token has.
    ///
    /// # Errors
    /// A decoder that does not put texts together from bytes of tokens.
    pub fn spellings(&self) -> Result<Vec<Vec<u8>>> {
        let alphabet = self.parts().tokenizer(Alphabet::of)?.ok_or(TextError::Spelling)?;
        let mut spellings = vec![Vec::new(); self.vocab_size()];
        for (text, token) in self.vocabulary() {
            if let Some(spelling) = spellings.get_mut(token as usize).filter(|_| self.is_visible(token)) {
                *spelling = alphabet.bytes(&text);
            }
        }
        Ok(spellings)
    }
}

/// How a vocabulary writes bytes.
enum Alphabet {
    /// GPT-2's: each byte is a character.
    ByteLevel,
    /// SentencePiece's: texts in which some characters stand for others, and tokens like `<0x0A>` for single bytes.
    Pieces { replaced: Vec<(String, String)> },
}

impl Alphabet {
    /// That of `tokenizer.json`; none if its decoder is of another kind.
    fn of(json: &[u8]) -> Result<Option<Self>, String> {
        #[derive(Deserialize)]
        struct File {
            decoder: Value,
        }
        let File { decoder } = serde_json::from_slice(json).map_err(|fault| fault.to_string())?;
        let decoders = match decoder["decoders"].as_array() {
            Some(several) => several.clone(),
            None => vec![decoder],
        };
        let is = |kind: &str| decoders.iter().any(|decoder| decoder["type"] == kind);
        if is("ByteLevel") {
            return Ok(Some(Self::ByteLevel));
        }
        let replaced = decoders.iter().filter_map(replaced).collect();
        Ok((is("ByteFallback") || is("Metaspace")).then_some(Self::Pieces { replaced }))
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        match self {
            // What is not written in it stands for itself.
            Self::ByteLevel => text.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| text.into()),
            Self::Pieces { replaced } => match single_byte(text) {
                Some(byte) => vec![byte],
                None => replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)).into(),
            },
        }
    }
}

/// What a decoder replaces, and by what.
fn replaced(decoder: &Value) -> Option<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match decoder["type"].as_str()? {
        "Replace" => Some((text(&decoder["pattern"]["String"])?, text(&decoder["content"])?)),
        "Metaspace" => Some((text(&decoder["replacement"])?, " ".to_owned())),
        _ => None,
    }
}

/// The byte that a token like `<0x0A>` stands for.
fn single_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The byte that a character of GPT-2's alphabet stands for: itself where it can be seen, else the characters from 256 on
/// in the order of those that cannot.
fn byte_of(character: char) -> Option<u8> {
    let seen = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let code = u32::from(character);
    let byte = match code.checked_sub(256) {
        None => Some(code).filter(|&code| seen(code)),
        Some(index) => (0..256).filter(|&byte| !seen(byte)).nth(index as usize),
    };
    byte.and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::parts::Parts;

    fn tokenizer(decoder: &Value, texts: &[&str]) -> Tokenizer {
        let vocabulary: serde_json::Map<_, _> =
            texts.iter().map(|&text| text.to_owned()).zip((0..).map(|id| json!(id))).collect();
        let special = json!({
            "id": texts.len(), "content": "<end>", "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        });
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": true},
        });
        let parts = Parts { tokenizer: file.to_string().into_bytes(), config: None, chat_template: None };
        Tokenizer::from_parts(parts).unwrap()
    }

    #[test]
    fn every_byte_has_one_character() {
        let characters = (0..0x200).filter_map(char::from_u32);
        let mut bytes: Vec<u8> = characters.filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(
            ['Ġ', 'Ċ', 'a', '\u{FF}', ' '].map(byte_of),
            [Some(b' '), Some(b'\n'), Some(b'a'), Some(0xFF), None]
        );
    }

    #[test]
    fn bytes_may_be_written_as_characters() {
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let spellings = tokenizer(&byte_level, &["a", "Ġthe", "Ã", "two words"]).spellings().unwrap();
        assert_eq!(spellings, [&b"a"[..], b" the", &[0xC3], b"two words", b""]);
    }

    #[test]
    fn bytes_may_be_tokens_of_their_own() {
        let space = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let decoder = json!({"type": "Sequence", "decoders": [space, {"type": "ByteFallback"}, {"type": "Fuse"}]});
        let spellings = tokenizer(&decoder, &["▁the", "<0x0A>", "<0xC3>", "é"]).spellings().unwrap();
        assert_eq!(spellings, [&b" the"[..], b"\n", &[0xC3], "é".as_bytes(), b""]);
    }

    #[test]
    fn other_decoders_are_refused() {
        let words = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        let refusal = tokenizer(&words, &["a"]).spellings().unwrap_err().to_string();
        assert_eq!(refusal, "the tokenizer's decoder does not make texts of bytes, as constraints need it");
    }
}
