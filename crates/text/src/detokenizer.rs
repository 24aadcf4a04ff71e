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

impl Detokenizer {
    pub(crate) fn new(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            window: Vec::new(),
            settled: 0,
            given: String::new(),
        }
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
