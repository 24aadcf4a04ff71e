//! A tokenizer, and texts that are drawn token by token from what is allowed.

use std::path::PathBuf;
use std::sync::LazyLock;

use espalier_constraint::{Compiled, ConstraintError, Constraints, Follower};
use espalier_speculation::{Constraint, ConstraintKind, Restriction, SplitMix64, Token};
use espalier_text::Tokenizer;

/// What ends a text of the models.
pub(crate) const END: Token = 2;

/// Rows of a matrix that is larger than the tokenizer.
pub(crate) const ROWS: usize = 4_096 + 64;

pub(crate) static CONSTRAINTS: LazyLock<Constraints> = LazyLock::new(|| Constraints::new(tokenizer()));

pub(crate) fn tokenizer() -> Tokenizer {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/small");
    Tokenizer::open(&folder).unwrap()
}

pub(crate) fn compile(kind: ConstraintKind, words: &str) -> Result<std::sync::Arc<Compiled>, ConstraintError> {
    CONSTRAINTS.compile(&Constraint::new(kind, words).unwrap())
}

pub(crate) fn follow(kind: ConstraintKind, words: &str) -> Follower {
    compile(kind, words).unwrap().follow(&[], &[END]).unwrap()
}

/// The tokens that may follow after `path`.
pub(crate) fn allowed(follower: &mut Follower, path: &[Token]) -> Vec<Token> {
    let mut logits = vec![0.0; ROWS];
    follower.restrict(path, &mut logits).unwrap();
    (0..).zip(logits).filter(|(_, logit)| *logit == 0.0).map(|(token, _)| token).collect()
}

/// A text that is drawn from what is allowed, until it ends or has so many tokens, and whether it has ended.
pub(crate) fn drawn(follower: &mut Follower, seed: u64, most: usize) -> (Vec<Token>, bool) {
    let (mut dice, mut text) = (SplitMix64::new(seed), Vec::new());
    while text.len() < most {
        let allowed = allowed(follower, &[]);
        let token = allowed[(dice.next_u64() % allowed.len() as u64) as usize];
        follower.push(&[token]);
        if token == END {
            return (text, true);
        }
        text.push(token);
    }
    (text, false)
}

pub(crate) fn decode(tokens: &[Token]) -> String {
    tokenizer().decode(tokens).unwrap()
}

/// The tokens of a text.
pub(crate) fn encode(text: &str) -> Vec<Token> {
    tokenizer().encode(text, false).unwrap()
}
