//! A target's own text: prompts, and what it answers when it is served.
//!
//! A drafter guesses what its target says, and a target does not talk like the text that it learned from. Every line
//! carries the tokens as they were read and said, so that training on it sees what serving will see.

mod line;
mod prompts;
mod recipe;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use espalier_model::{Checkpoint, Decoder};

use crate::data::Voice;
use crate::error::{Result, TrainError};
use crate::files;
use crate::place::served_on;

use line::Line;
use prompts::Prompts;
pub use recipe::{ANSWER_TOKENS_MAX, ANSWERS_AT_A_TIME_MAX, TextRecipe};
use writer::{Answer, answer_all};

/// How much of a target's own text there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct TextSummary {
    /// Answers, one for each prompt.
    pub answers: usize,
    /// Those that the target ended itself; the others were cut.
    pub ended: usize,
    /// Tokens of their prompts.
    pub prompt_tokens: usize,
    /// Tokens of the answers.
    pub answer_tokens: usize,
    /// Seconds of writing.
    pub seconds: f64,
}

impl TextSummary {
    fn add(&mut self, prompt_tokens: usize, answer: &Answer) {
        self.answers += 1;
        self.ended += usize::from(answer.ended);
        self.prompt_tokens += prompt_tokens;
        self.answer_tokens += answer.tokens.len();
    }
}

/// Has a target answer `prompts` and writes prompts and answers to the file `out`, a JSON object a line, in their order.
///
/// `progress` is told after every answer what there is so far. `stop` may be set at any time: nothing is returned then,
/// and nothing written.
///
/// # Errors
/// [`TrainError`]: numbers out of range, a file that exists already, a checkpoint that cannot be loaded, prompts that
/// cannot be tokenized or leave no room for an answer, a disk that is full.
pub fn write_text(
    recipe: &TextRecipe,
    prompts: &[String],
    out: &Path,
    progress: &mut dyn FnMut(&TextSummary),
    stop: &AtomicBool,
) -> Result<Option<TextSummary>> {
    recipe.check()?;
    make_room(out)?;
    let checkpoint = Checkpoint::open(&recipe.target)?;
    let voice = Voice::of(&recipe.target)?;
    let asked = Prompts::read(prompts, &voice, recipe, checkpoint.config.context)?;
    let decoder = Decoder::load(&checkpoint, &served_on(recipe.device, &checkpoint.weights()?))?;
    let (began, mut summary) = (Instant::now(), TextSummary::default());
    let answers = answer_all(&decoder, &asked, recipe, stop, &mut |prompt, answer| {
        summary.add(prompt, answer);
        summary.seconds = began.elapsed().as_secs_f64();
        progress(&summary);
    })?;
    let Some(answers) = answers else {
        return Ok(None);
    };
    let lines = prompts.iter().zip(asked.tokens()).zip(&answers);
    let lines = lines.map(|((prompt, tokens), answer)| Line::new(prompt, tokens, answer, &voice, checkpoint.name()));
    let lines = lines.collect::<Result<Vec<_>>>()?;
    files::replace(out, |file| lines.iter().try_for_each(|line| line.write(file)))?;
    Ok(Some(summary))
}

/// Sees to it, before the work and not after it, that a file can be written.
fn make_room(out: &Path) -> Result<()> {
    if out.exists() {
        return Err(TrainError::Exists { path: out.to_owned() });
    }
    match out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(folder) => files::create_folder(folder),
        None => Ok(()),
    }
}
