//! A tokenizer as the parser sees it.

use espalier_speculation::Token;
use espalier_text::Tokenizer;
use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::ConstraintError;

/// What the parser is told that ends a text: no token of the tokenizer's, as what ends one is not the same for all.
const END: &[u8] = b"\xFF<|end of text|>";

/// The bytes of all tokens, and the tokenizer that makes tokens of texts.
pub(crate) struct Vocabulary {
    trie: TokTrie,
    tokenizer: Tokenizer,
}

impl Vocabulary {
    /// That of a tokenizer.
    ///
    /// # Errors
    /// A tokenizer whose tokens are not made of bytes, or that has no token for some byte of a text.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, ConstraintError> {
        let mut words = tokenizer.spellings().map_err(|error| ConstraintError::from(&error))?;
        check_bytes(&words)?;
        let end = words.len() as TokenId;
        words.push(END.to_vec());
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words);
        Ok(Self { trie, tokenizer: tokenizer.clone() })
    }

    /// Whether tokens are exactly these bytes.
    fn spell(&self, tokens: &[Token], bytes: &[u8]) -> bool {
        let spelled = tokens.iter().flat_map(|&token| self.trie.token(token));
        spelled.eq(bytes)
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The tokenizer's own tokens, unless it reads something else into the text than its bytes: then the longest ones.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let text = std::str::from_utf8(bytes).ok();
        let tokens = text.and_then(|text| self.tokenizer.encode(text, false).ok());
        tokens.filter(|tokens| self.spell(tokens, bytes)).unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }
}

/// Every byte that a text in UTF-8 can have must have a token, or there are texts that cannot be written.
fn check_bytes(words: &[Vec<u8>]) -> Result<(), ConstraintError> {
    let mut missing = [true; 256];
    for word in words {
        if let [byte] = word[..] {
            missing[usize::from(byte)] = false;
        }
    }
    let in_texts = (0x00..=0xBF).chain(0xC2..=0xF4_u8);
    match in_texts.into_iter().find(|&byte| missing[usize::from(byte)]) {
        None => Ok(()),
        Some(byte) => Err(ConstraintError::Tokenizer { fault: format!("no token is the byte 0x{byte:02X}") }),
    }
}
