//! What a target is asked, as tokens.

use espalier_speculation::Token;
use espalier_text::Message;

use super::recipe::TextRecipe;
use crate::data::{TRAINING_TOKENS_MAX, Voice};
use crate::error::{Result, TrainError};

/// Prompts that each leave room for an answer.
#[derive(Debug)]
pub(super) struct Prompts {
    tokens: Vec<Vec<Token>>,
    /// Positions that a prompt and its answer may have together.
    context: usize,
}

impl Prompts {
    /// Tokenizes prompts as they are tokenized in serving.
    ///
    /// # Errors
    /// None at all, one that cannot be tokenized or fills the context alone, or more than fits in memory with answers.
    pub(super) fn read(prompts: &[String], voice: &Voice, recipe: &TextRecipe, context: usize) -> Result<Self> {
        if prompts.is_empty() {
            return Err(TrainError::NoText { what: "an empty list of prompts".to_owned() });
        }
        let mut tokens = Vec::new();
        let mut total = 0_usize;
        for (prompt, number) in prompts.iter().zip(1..) {
            let read = match recipe.raw {
                true => voice.tokenizer.encode(prompt, true)?,
                false => voice.tokenizer.encode_chat(&Message::user(prompt).into())?,
            };
            if !(1..context).contains(&read.len()) {
                return Err(TrainError::Prompt { number, tokens: read.len(), limit: context - 1 });
            }
            total += read.len() + recipe.max_tokens;
            if total > TRAINING_TOKENS_MAX {
                return Err(TrainError::TooMuchText { limit: TRAINING_TOKENS_MAX });
            }
            tokens.push(read);
        }
        Ok(Self { tokens, context })
    }

    /// The tokens of every prompt.
    pub(super) fn tokens(&self) -> &[Vec<Token>] {
        &self.tokens
    }

    /// Most tokens of the answer to a prompt, as in serving.
    pub(super) fn room(&self, prompt: usize) -> usize {
        self.context - self.tokens[prompt].len()
    }
}
