//! Tokens to text as they come, in pieces that are whole characters.

use espalier_speculation::Token;

use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// What a decoder puts in place of bytes that are not, or not yet, a character.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
/// A window that cannot be cut cleanly is cut anyhow from this length on, where its text is settled.
const WINDOW_SOFT: usize = 16;
/// No window outgrows this: what is unsettled by then is given out as it is.
const WINDOW_MAX: usize = 64;

/// An incremental decoder. The pieces that it yields add up to [`Tokenizer::decode`] of all its tokens.
///
/// The text of a token depends on those before it: it may continue a character, or keep a space that a first token
/// loses. So a short window of tokens is decoded anew for every token, and only what is new in its text is given out;
/// the work per token is bounded.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    /// The last tokens.
    window: Vec<Token>,
    /// Where in the window the tokens begin whose text is not all given out.
    settled: usize,
    /// The text of the window that has been given out.
    given: String,
}

impl Tokenizer {
    /// Turns tokens into text one by one.
    pub fn decoder(&self) -> Detokenizer {
        Detokenizer::new(self.clone())
    }
}

impl Detokenizer {
    fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, window: Vec::new(), settled: 0, given: String::new() }
    }

    /// Adds a token and yields the text that it completes, if any.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn push(&mut self, token: Token) -> Result<Option<String>> {
        if !self.tokenizer.is_visible(token) {
            return Ok(None);
        }
        self.window.push(token);
        let text = self.tokenizer.decode(&self.window)?;
        let mut piece = self.give_whole(&text);
        if self.given.len() == text.len() {
            self.settle()?;
        } else if self.window.len() >= WINDOW_MAX {
            piece.push_str(&self.take_rest()?);
        }
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }

    /// Yields what is left, be it incomplete, and starts anew.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn finish(&mut self) -> Result<Option<String>> {
        Ok(Some(self.take_rest()?).filter(|rest| !rest.is_empty()))
    }

    /// What is new in the window's text, up to its last whole character. An incomplete one shows as one replacement, or
    /// as one for each of its bytes; with byte fallback even those before it do, so that nothing can be given.
    fn give_whole(&mut self, text: &str) -> String {
        let whole = text.trim_end_matches(REPLACEMENT);
        let piece = whole.strip_prefix(self.given.as_str()).unwrap_or_default();
        self.given.push_str(piece);
        piece.to_owned()
    }

    fn take_rest(&mut self) -> Result<String> {
        let text = self.tokenizer.decode(&self.window)?;
        let rest = match text.strip_prefix(self.given.as_str()) {
            Some(rest) => rest.to_owned(),
            None => self.tokenizer.decode(&self.window[self.settled..])?,
        };
        *self = Self::new(self.tokenizer.clone());
        Ok(rest)
    }

    /// All text is out: drops the tokens before the newest piece, if that reads the same without them.
    fn settle(&mut self) -> Result<()> {
        let newest = self.tokenizer.decode(&self.window[self.settled..])?;
        let clean = !newest.is_empty() && !newest.contains(REPLACEMENT);
        if clean || self.window.len() >= WINDOW_SOFT {
            self.window.drain(..self.settled);
            self.given = newest;
        }
        self.settled = self.window.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::parts::Parts;

    /// A tokenizer in the manner of Llama 2: `▁` for spaces, the first one stripped, and a token for every byte.
    /// 0..256 are bytes, then `▁the`, `▁cat`, `s`, `▁`, and the special `<end>`.
    fn byte_fallback() -> Tokenizer {
        let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
        let words = ["▁the", "▁cat", "s", "▁", "<end>"].map(str::to_owned);
        let vocabulary: serde_json::Map<_, _> = bytes.chain(words).zip((0..).map(|id| json!(id))).collect();
        let space = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
        let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
        let decoders = [space, json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" }), strip];
        let special = json!({
            "id": END, "content": "<end>", "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        });
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
            "normalizer": null, "pre_tokenizer": null, "post_processor": null,
            "decoder": { "type": "Sequence", "decoders": decoders },
            "model": { "type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": true },
        });
        let parts = Parts { tokenizer: tokenizer.to_string().into_bytes(), config: None, chat_template: None };
        Tokenizer::from_parts(parts).unwrap()
    }

    const THE: Token = 256;
    const CAT: Token = 257;
    const PLURAL: Token = 258;
    const END: Token = 260;

    fn bytes(text: &str) -> Vec<Token> {
        text.bytes().map(Token::from).collect()
    }

    /// What each token yields, and last what is left.
    fn yields(tokens: &[Token]) -> Vec<Option<String>> {
        let mut decoder = byte_fallback().decoder();
        let mut yields: Vec<_> = tokens.iter().map(|&token| decoder.push(token).unwrap()).collect();
        yields.push(decoder.finish().unwrap());
        yields
    }

    fn text(yields: &[Option<String>]) -> String {
        yields.iter().flatten().map(String::as_str).collect()
    }

    #[test]
    fn words_come_one_by_one_with_their_spaces() {
        let words = yields(&[THE, CAT, PLURAL, END, THE]);
        let expected = [Some("the"), Some(" cat"), Some("s"), None, Some(" the"), None];
        assert_eq!(words, expected.map(|piece| piece.map(str::to_owned)));
    }

    #[test]
    fn characters_come_with_their_last_byte() {
        let pieces = yields(&bytes("é中"));
        let expected = [None, Some("é"), None, None, Some("中"), None];
        assert_eq!(pieces, expected.map(|piece| piece.map(str::to_owned)));
    }

    #[test]
    fn a_cut_character_is_left_for_the_end() {
        assert_eq!(text(&yields(&[THE, 0xE4, 0xB8])), "the\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn unknown_and_special_tokens_are_silent() {
        assert_eq!(text(&yields(&[THE, 100_000, END, CAT])), "the cat");
        assert_eq!(text(&yields(&[])), "");
    }

    #[test]
    fn the_window_is_bounded_whatever_comes() {
        let mut decoder = byte_fallback().decoder();
        let garbage = (0..10_000).map(|i| if i % 97 == 0 { THE } else { 0x80 + i % 0x80 });
        for token in garbage {
            decoder.push(token).unwrap();
            assert!(decoder.window.len() <= WINDOW_MAX);
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_text_add_up(words in prop::collection::vec((THE..=END, "[a-zé中🦀]{0,6}"), 0..40)) {
            let tokens: Vec<Token> = words.iter().flat_map(|(word, text)| [vec![*word], bytes(text)].concat()).collect();
            prop_assert_eq!(text(&yields(&tokens)), byte_fallback().decode(&tokens).unwrap());
        }
    }
}
