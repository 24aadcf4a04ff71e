//! The target: a plain function of the text.

use std::net::SocketAddr;
use std::path::Path;

use espalier_speculation::Token;
use espalier_text::Tokenizer;

pub const VOCAB: usize = 4096;
pub const CONTEXT: usize = 600;
pub const END: Token = 2;
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub fn tokenizer() -> Tokenizer {
    Tokenizer::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/small")).unwrap()
}

/// The target: its next token is a fixed function of the last two. Texts become
/// periodic soon, so n-grams have something to find.
pub fn next_token(text: &[Token]) -> Token {
    let sum = text.iter().rev().take(2).fold(7, |sum: Token, token| sum.wrapping_mul(31).wrapping_add(*token));
    200 + sum % 40
}

/// What the target says alone.
pub fn plain_text(prompt: &[Token], max_tokens: usize) -> Vec<Token> {
    let mut text = prompt.to_vec();
    for _ in 0..max_tokens {
        text.push(next_token(&text));
    }
    text.split_off(prompt.len())
}
