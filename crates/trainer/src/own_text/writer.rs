//! Answers to many prompts at once.
//!
//! Every thread keeps some answers in the making and runs all their newest tokens in one pass; where an answer ends, the
//! next prompt takes its place. A row's logits are the same bits whatever shares its pass, so an answer depends on its
//! prompt and the seed alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use espalier_model::{Asked, Decoder, KvCache, Logits, ModelError, Row, Segment, Workspace};
use espalier_speculation::{Sampler, Sampling, Token};

use super::prompts::Prompts;
use super::recipe::TextRecipe;
use crate::error::Result;
use crate::random::{Draws, Purpose};

/// Rows of one forward pass: enough to be busy with, few enough to stay in the caches.
const WRITER_PASS_ROWS: usize = 512;
/// Finished answers that wait for being noted.
const WAITING_MAX: usize = 64;

/// What a target said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// The token that ended it included.
    pub(super) tokens: Vec<Token>,
    /// Whether the target ended it; otherwise it was cut.
    pub(super) ended: bool,
    /// The temperature it was drawn at, 0 where nothing was drawn.
    pub(super) temperature: f64,
}

/// Has all prompts answered; nothing if told to stop. `note` hears of every answer, with the length of its prompt, in
/// the order in which they are finished.
pub(super) fn answer_all(
    decoder: &Decoder,
    prompts: &Prompts,
    recipe: &TextRecipe,
    stop: &AtomicBool,
    note: &mut dyn FnMut(usize, &Answer),
) -> Result<Option<Vec<Answer>>> {
    let task = Task { decoder, prompts, recipe, stop, next: AtomicUsize::new(0) };
    let count = prompts.tokens().len();
    let mut answers: Vec<Option<Answer>> = vec![None; count];
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        for _ in 0..recipe.writers().min(count) {
            let (sender, task) = (sender.clone(), &task);
            scope.spawn(move || task.work(&sender));
        }
        drop(sender);
        // Leaving early drops the receiver: threads end when they find nobody to hand an answer to.
        for finished in receiver {
            let (prompt, answer) = finished?;
            note(prompts.tokens()[prompt].len(), &answer);
            answers[prompt] = Some(answer);
        }
        Ok(answers.into_iter().collect())
    })
}

/// An answer and its prompt's number, or what went wrong.
type Finished = Result<(usize, Answer)>;

/// What all threads have before them.
struct Task<'a> {
    decoder: &'a Decoder,
    prompts: &'a Prompts,
    recipe: &'a TextRecipe,
    stop: &'a AtomicBool,
    /// The first prompt that nobody has taken.
    next: AtomicUsize,
}

impl Task<'_> {
    /// Answers prompts until there are none left, until told to stop, or until nobody listens.
    fn work(&self, done: &SyncSender<Finished>) {
        if let Err(fault) = self.answer(done) {
            // If nobody listens, another thread's fault has been heard of.
            let _ = done.send(Err(fault));
        }
    }

    fn answer(&self, done: &SyncSender<Finished>) -> Result<()> {
        let mut work = Workspace::new(1);
        let mut drafts = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            self.take_more(&mut drafts)?;
            if drafts.is_empty() {
                break;
            }
            self.pass(&mut work, &mut drafts)?;
            let mut finished = drafts.extract_if(.., |draft| draft.is_finished());
            if !finished.all(|draft| done.send(Ok(draft.finish())).is_ok()) {
                break;
            }
        }
        Ok(())
    }

    /// Takes prompts until enough answers are in the making.
    fn take_more(&self, drafts: &mut Vec<Draft>) -> Result<()> {
        while drafts.len() < self.recipe.answers_at_a_time {
            let prompt = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(tokens) = self.prompts.tokens().get(prompt) else {
                break;
            };
            drafts.push(self.begin(prompt, tokens)?);
        }
        Ok(())
    }

    fn begin(&self, prompt: usize, tokens: &[Token]) -> Result<Draft> {
        let TextRecipe { greedy_share, temperature, max_tokens, seed, .. } = *self.recipe;
        let mut draws = Draws::new(seed, Purpose::Answer, prompt as u64);
        let is_greedy = draws.open_unit() < greedy_share;
        let temperature = if is_greedy { 0.0 } else { temperature };
        let sampling = Sampling::new(temperature, 0, 1.0, draws.bits())?;
        Ok(Draft {
            prompt,
            cache: self.decoder.new_cache(),
            unread: tokens.to_vec(),
            sampler: Sampler::new(sampling, tokens, &[]),
            answer: Answer { tokens: Vec::new(), ended: false, temperature },
            room: max_tokens.min(self.prompts.room(prompt)),
        })
    }

    /// Runs one pass and adds a token to every answer whose prompt has been read.
    fn pass(&self, work: &mut Workspace, drafts: &mut [Draft]) -> Result<()> {
        let rows = share_rows(drafts);
        let segments = drafts.iter_mut().zip(&rows).map(|(draft, rows)| draft.segment(rows));
        let mut segments: Vec<Segment<'_>> = segments.collect();
        let output = self.decoder.forward(work, &mut segments, Asked::default())?;
        for (segment, (draft, rows)) in drafts.iter_mut().zip(&rows).enumerate() {
            draft.has_read(rows.len())?;
            if draft.unread.is_empty() {
                draft.say(output.logits(segment, 0), &self.decoder.config().eos)?;
            }
        }
        Ok(())
    }
}

/// What the drafts, the oldest first, read in one pass; those that no row is left for are not in it.
fn share_rows(drafts: &[Draft]) -> Vec<Vec<Row>> {
    let mut free = WRITER_PASS_ROWS;
    let read = |draft: &Draft| {
        let rows = draft.unread.len().min(free);
        free -= rows;
        Row::chain(&draft.unread[..rows], 0)
    };
    drafts.iter().map(read).take_while(|rows| !rows.is_empty()).collect()
}

/// An answer in the making.
struct Draft {
    /// The prompt's number.
    prompt: usize,
    /// Of what has been read.
    cache: KvCache,
    /// What is left of the prompt, or the token said last. Never empty between passes.
    unread: Vec<Token>,
    sampler: Sampler,
    answer: Answer,
    /// Most tokens of the answer.
    room: usize,
}

impl Draft {
    /// The rows of a pass; what follows is wanted only where nothing is left to read after them.
    fn segment<'a>(&'a mut self, rows: &'a [Row]) -> Segment<'a> {
        let logits = if rows.len() == self.unread.len() { Logits::Last(1) } else { Logits::None };
        Segment { cache: &mut self.cache, rows, logits }
    }

    fn has_read(&mut self, rows: usize) -> Result<()> {
        self.unread.drain(..rows);
        Ok(self.cache.keep_path(&(0..rows).collect::<Vec<_>>())?)
    }

    fn say(&mut self, logits: &[f32], ends: &[Token]) -> Result<()> {
        let token = self.sampler.decide(logits, &[]).map_err(ModelError::from)?;
        self.sampler.push(&[token]);
        self.unread.push(token);
        self.answer.tokens.push(token);
        self.answer.ended = ends.contains(&token);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.answer.ended || self.answer.tokens.len() == self.room
    }

    fn finish(self) -> (usize, Answer) {
        (self.prompt, self.answer)
    }
}
