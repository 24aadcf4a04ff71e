//! A tokenizer as the parser sees it.

use std::cmp::Reverse;

use espalier_speculation::Token;
use espalier_text::Tokenizer;
use llguidance::toktrie::{SimpleVob, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::ConstraintError;

/// What the parser is told that ends a text: no token of the tokenizer's, as what ends one is not the same for all.
const END: &[u8] = b"\xFF<|end of text|>";

/// The bytes of all tokens.
pub(crate) struct Vocabulary {
    trie: TokTrie,
    /// A token for each byte that texts can have.
    bytes: [Token; 256],
}

impl Vocabulary {
    /// That of a tokenizer.
    ///
    /// # Errors
    /// A tokenizer whose tokens are not made of bytes, or that has no token for some byte of a text.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, ConstraintError> {
        let mut words = tokenizer.spellings().map_err(|error| ConstraintError::from(&error))?;
        let bytes = bytes(&words)?;
        let end = words.len() as TokenId;
        words.push(END.to_vec());
        Ok(Self { trie: TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words), bytes })
    }

    /// Tokens that there are.
    pub(crate) fn tokens(&self) -> usize {
        self.trie.vocab_size().saturating_sub(1)
    }

    /// Whether a text may end where this is allowed.
    pub(crate) fn may_end(&self, mask: &SimpleVob) -> bool {
        mask.is_allowed(self.trie.eos_token())
    }

    /// The byte that all `tokens` begin with, if there is one.
    pub(crate) fn first_byte(&self, tokens: impl Iterator<Item = Token>) -> Option<u8> {
        let mut bytes = tokens.map(|token| self.trie.token(token).first().copied());
        let first = bytes.next()??;
        bytes.all(|byte| byte == Some(first)).then_some(first)
    }

    /// The longest of `tokens` that `bytes` begin with, of equals the first.
    pub(crate) fn longest(&self, tokens: impl Iterator<Item = Token>, bytes: &[u8]) -> Option<Token> {
        let within = tokens.filter(|&token| bytes.starts_with(self.trie.token(token)));
        within.min_by_key(|&token| Reverse(self.trie.token(token).len()))
    }

    /// Whether `bytes` are the beginning of a token that is longer.
    pub(crate) fn is_begun(&self, bytes: &[u8]) -> bool {
        self.trie.has_extensions(bytes)
    }

    /// A token that is this byte alone.
    pub(crate) fn of_byte(&self, byte: u8) -> Token {
        self.bytes[usize::from(byte)]
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    /// The parser would follow what is forced to its end, however far that is.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// A token for every byte. One that a text in UTF-8 can have must have one, or there are texts that cannot be written.
fn bytes(words: &[Vec<u8>]) -> Result<[Token; 256], ConstraintError> {
    let mut tokens = [None; 256];
    for (token, word) in (0..).zip(words) {
        if let [byte] = word[..] {
            tokens[usize::from(byte)].get_or_insert(token);
        }
    }
    let in_texts = |byte: usize| matches!(byte, 0x00..=0xBF | 0xC2..=0xF4);
    match (0..256).find(|&byte| in_texts(byte) && tokens[byte].is_none()) {
        None => Ok(tokens.map(Option::unwrap_or_default)),
        Some(byte) => Err(ConstraintError::Tokenizer { fault: format!("no token is the byte 0x{byte:02X}") }),
    }
}
