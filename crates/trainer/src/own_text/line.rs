//! A line of a target's own text.

use std::io::{self, Write};

use espalier_speculation::Token;
use serde::Serialize;

use super::writer::Answer;
use crate::data::Voice;
use crate::error::Result;

/// What is written of one answer; [`crate::data`] reads the last two fields back, people the others.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    prompt: &'a str,
    answer: String,
    target: &'a str,
    /// 0 where the most probable tokens were taken.
    temperature: f64,
    /// The fingerprint of the tokenizer that the tokens are of.
    tokenizer: &'a str,
    /// Prompt and answer, the token that ended it included.
    token_ids: Vec<Token>,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        prompt: &'a str,
        tokens: &[Token],
        answer: &Answer,
        voice: &'a Voice,
        target: &'a str,
    ) -> Result<Self> {
        Ok(Self {
            prompt,
            answer: voice.tokenizer.decode(&answer.tokens)?,
            target,
            temperature: answer.temperature,
            tokenizer: voice.tokenizer.fingerprint(),
            token_ids: [tokens, &answer.tokens].concat(),
        })
    }

    pub(super) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *file, self)?;
        file.write_all(b"\n")
    }
}
