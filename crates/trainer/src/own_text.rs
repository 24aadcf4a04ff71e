//! A target's own text: prompts, and what it answers when it is served.
//!
//! A drafter guesses what its target says, and a target does not talk like the text that it learned from. Every line
//! carries the tokens as they were read and said, so that training on it sees what serving will see.

mod line;
mod prompts;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use espalier_model::{Checkpoint, Decoder, LoadOptions};
use espalier_speculation::Sampling;

use crate::data::Voice;
use crate::error::{Result, TrainError, in_range};
use crate::files;
use crate::recipe::THREADS_MAX;

use line::Line;
use prompts::Prompts;
use writer::{Answer, answer_all};

/// Most tokens of an answer.
pub const ANSWER_TOKENS_MAX: usize = 1 << 16;
/// Most answers that a thread writes at a time.
pub const ANSWERS_AT_A_TIME_MAX: usize = 512;

/// How a target's own text is written. One recipe and the same prompts give the same bytes, whatever the number of
/// threads and of answers at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct TextRecipe {
    /// The checkpoint of the target.
    pub target: PathBuf,
    /// Continue the prompts as they are, without the chat template.
    pub raw: bool,
    /// Most tokens of an answer, 1 to [`ANSWER_TOKENS_MAX`]; less where the context ends.
    pub max_tokens: usize,
    /// The share of answers of the most probable tokens, 0 to 1; which, the seed says. The others are drawn.
    pub greedy_share: f64,
    /// The temperature of drawn answers.
    pub temperature: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Answers that each thread writes at a time, 1 to [`ANSWERS_AT_A_TIME_MAX`]: more share one reading of the weights,
    /// and hold more keys and values.
    pub answers_at_a_time: usize,
    /// Threads.
    pub threads: usize,
}

impl TextRecipe {
    /// The usual way for a target: answers of up to 128 tokens, half of them greedy, half drawn at temperature 1.
    pub fn new(target: PathBuf) -> Self {
        Self {
            target,
            raw: false,
            max_tokens: 128,
            greedy_share: 0.5,
            temperature: 1.0,
            seed: 0,
            answers_at_a_time: 16,
            threads: 1,
        }
    }

    fn check(&self) -> Result<()> {
        in_range("most tokens of an answer", self.max_tokens as f64, 1.0, ANSWER_TOKENS_MAX as f64)?;
        in_range("the share of greedy answers", self.greedy_share, 0.0, 1.0)?;
        in_range("answers at a time", self.answers_at_a_time as f64, 1.0, ANSWERS_AT_A_TIME_MAX as f64)?;
        in_range("threads", self.threads as f64, 1.0, THREADS_MAX as f64)?;
        Ok(Sampling::new(self.temperature, 0, 1.0, self.seed).map(drop)?)
    }
}

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
    let decoder = Decoder::load(&checkpoint, &LoadOptions::default())?;
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
