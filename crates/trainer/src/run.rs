//! A run from its first step to its last, or to where it was told to stop.

mod gradients;
mod state;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{DType, Tensor};
use rayon::prelude::*;

use crate::data::{Batch, Course, Pace, Texts, Voice};
use crate::error::{Result, TrainError};
use crate::objective::{self, Objective, Setting};
use crate::observer::{Observer, Plan, Speed};
use crate::optimiser::{AdamW, Schedule, Stride};
use crate::output::{self, Entry, Log, Summary};
use crate::place::Place;
use crate::random::{Draws, Purpose};
use crate::recipe::{Options, Recipe, THREADS_MAX};

use gradients::{Part, Sum};
use state::{Best, Note, Progress, State};
use validate::validate;

/// A variable and the value that the environment should give it before the first tensor operation of a process that
/// trains.
///
/// Parts of a batch are computed side by side, one on each thread. candle would have helpers of its own take part in every
/// larger operation and spin until the last of them is done, which costs more than it saves: on two busy processors a
/// step took four times as long. Results do not depend on it.
pub const CANDLE_THREADS: (&str, &str) = ("CANDLE_NUM_THREADS", "1");

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The model is in its folder.
    Finished(Summary),
    /// It was told to stop, and can be resumed after this step.
    Interrupted {
        /// Steps done.
        step: usize,
    },
}

/// Trains a model from the beginning and leaves it in the folder `out`, which is made if need be.
///
/// `stop` may be set at any time: the run then writes a checkpoint, from which [`resume`] goes on to the bit, and
/// returns.
///
/// # Errors
/// [`TrainError`]: a recipe out of range, text that is malformed, a folder that already holds a model or a run, a disk
/// that is full, a loss that is no longer finite.
pub fn train(recipe: &Recipe, out: &Path, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Outcome> {
    recipe.check()?;
    if let Some(what) = output::occupied(out).or_else(|| state::occupied(out)) {
        let folder = out.to_owned();
        return Err(TrainError::Occupied { folder, what });
    }
    in_pool(recipe.options.workers(), || Run::new(recipe.clone(), out, Watch { observer, stop })?.go())
}

/// Goes on with an interrupted run as if it had never been interrupted: the result is the same to the bit.
///
/// # Errors
/// As for [`train`]; and a folder without an unfinished run, or text that is no longer what it was.
pub fn resume(out: &Path, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Outcome> {
    let state = State::open(out)?;
    state.recipe().check()?;
    in_pool(state.recipe().options.workers(), || {
        let mut run = Run::new(state.recipe().clone(), out, Watch { observer, stop })?;
        run.restore(state)?;
        run.go()
    })
}

/// Runs `work` where tensor operations use so many threads.
fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(candle_core::Error::wrap)?.install(work)
}

/// Who hears of a run, and where it is told to stop.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    stop: &'a AtomicBool,
}

/// Everything in motion.
struct Run<'a> {
    recipe: Recipe,
    out: PathBuf,
    objective: Box<dyn Objective>,
    optimiser: AdamW,
    schedule: Schedule,
    course: Course,
    validation: Vec<Batch>,
    /// Of the text.
    fingerprint: String,
    plan: Plan,
    progress: Progress,
    log: Log,
    observer: &'a mut dyn Observer,
    stop: &'a AtomicBool,
    began: Instant,
}

impl<'a> Run<'a> {
    /// A run before its first step.
    fn new(recipe: Recipe, out: &Path, watch: Watch<'a>) -> Result<Self> {
        let Watch { observer, stop } = watch;
        let (data, options) = (&recipe.data, &recipe.options);
        let place = Place::open(options.device)?;
        let texts = Texts::read(data, &Voice::of(recipe.method.origin())?, options.seed)?;
        let setting = Setting { dtype: DType::F32, place, seed: options.seed, length: data.length };
        let objective = objective::open(&recipe.method, &setting)?;
        let plan = plan(objective.as_ref(), &texts);
        let course = Course::new(texts.training, data.pace(), data.epochs, options.seed);
        let steps = course.steps().min(data.steps_max.unwrap_or(usize::MAX));
        Ok(Self {
            optimiser: AdamW::new(objective.params(), &options.optimiser)?,
            schedule: Schedule::new(&options.optimiser, steps),
            validation: batches(texts.validation, data.pace(), options.seed),
            fingerprint: texts.fingerprint,
            plan: Plan { steps, ..plan },
            out: out.to_owned(),
            objective,
            course,
            recipe,
            progress: Progress::default(),
            log: Log::default(),
            observer,
            stop,
            began: Instant::now(),
        })
    }

    fn go(mut self) -> Result<Outcome> {
        self.plan.done = self.progress.step;
        self.observer.began(&self.plan);
        loop {
            if self.evaluation_is_due() && !self.evaluate()? {
                return self.interrupted();
            }
            if self.progress.step == self.plan.steps || self.has_lost_patience() {
                return self.finish();
            }
            if !self.step()? {
                return self.interrupted();
            }
            if self.progress.step.is_multiple_of(self.recipe.options.checkpoint_every) {
                self.save()?;
            }
        }
    }

    /// Takes up a run where its checkpoint left it.
    fn restore(&mut self, state: State) -> Result<()> {
        state.check_text(&self.fingerprint)?;
        state.load(self.objective.params(), &mut self.optimiser)?;
        let progress = state.into_progress();
        self.log = state::read_log(&self.out, progress.step)?;
        self.progress = progress;
        Ok(())
    }

    /// Writes log, curve and checkpoint, the checkpoint last: the others are never behind it.
    fn save(&mut self) -> Result<()> {
        state::write_log(&self.out, &self.log)?;
        state::write(&self.out, self.objective.params(), &self.optimiser, &self.note())?;
        self.progress.saved = Some(self.progress.step);
        self.observer.saved(self.progress.step);
        Ok(())
    }

    fn note(&self) -> Note {
        let progress = Progress {
            seconds_before: self.seconds(),
            tokens_before: self.progress.tokens,
            saved: Some(self.progress.step),
            ..self.progress.clone()
        };
        Note { recipe: self.recipe.clone(), text_fingerprint: self.fingerprint.clone(), progress }
    }

    fn is_told_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes one step; false, and nothing changed, if told to stop before its end.
    fn step(&mut self) -> Result<bool> {
        let step = self.progress.step + 1;
        let batches = self.course.batches(step - 1);
        let Some(sum) = self.gradients(step, &batches)? else {
            return Ok(false);
        };
        let positions = sum.positions.max(1) as f64;
        let size = sum.size(self.objective.params())?;
        self.check_finite("loss", step, size.loss)?;
        let gradient_norm = size.gradient / positions;
        self.check_finite("gradient", step, gradient_norm)?;
        let clip_norm = self.recipe.options.optimiser.clip_norm;
        let scale = (clip_norm / gradient_norm).min(1.0) / positions;
        let learning_rate = self.schedule.rate(step);
        self.optimiser.step(self.objective.params(), &sum.gradients, Stride { step, learning_rate, scale })?;
        self.progress.step = step;
        self.progress.tokens += batches.iter().map(|batch| batch.token_count() as u64).sum::<u64>();
        self.record(Entry {
            step,
            epoch: self.course.epoch_of(step - 1) + 1,
            loss: size.loss / positions,
            learning_rate,
            gradient_norm,
            tokens: self.progress.tokens,
            seconds: self.seconds(),
            validation: None,
        });
        Ok(true)
    }

    /// The gradients of a step's batches; nothing if told to stop on the way.
    fn gradients(&self, step: usize, batches: &[Batch]) -> Result<Option<Sum>> {
        let mut sum = Sum::default();
        let first = (step - 1) * self.recipe.data.accumulate;
        for (batch, number) in batches.iter().zip(first..) {
            if self.is_told_to_stop() {
                return Ok(None);
            }
            for part in self.parts(batch, number) {
                sum.add(self.objective.params(), part?)?;
            }
        }
        Ok(Some(sum))
    }

    /// Computes a batch in parts, each on one thread: they never wait for each other, as threads that share every
    /// operation would. `number` is that of the batch among all batches.
    fn parts(&self, batch: &Batch, number: usize) -> Vec<Result<Part>> {
        let Options { seed, .. } = self.recipe.options;
        let objective = self.objective.as_ref();
        let compute = |(index, part): (usize, &Batch)| {
            let draws = Draws::new(seed, Purpose::Training, (number * THREADS_MAX + index) as u64);
            Part::compute(objective, part, draws)
        };
        batch.split(self.recipe.options.workers()).par_iter().enumerate().map(compute).collect()
    }

    /// After every so many steps and after the last, unless it is done already or there is nothing to validate with.
    fn evaluation_is_due(&self) -> bool {
        let step = self.progress.step;
        let is_time = step.is_multiple_of(self.recipe.options.evaluate_every) || step == self.plan.steps;
        step > 0 && is_time && self.progress.evaluated != step && !self.validation.is_empty()
    }

    /// Asks the validation texts and keeps the model if it is the best so far; false if told to stop on the way.
    fn evaluate(&mut self) -> Result<bool> {
        let Some(validation) =
            validate(self.objective.as_ref(), &self.validation, self.recipe.options.seed, self.stop)?
        else {
            return Ok(false);
        };
        let step = self.progress.step;
        self.progress.evaluated = step;
        self.check_finite("validation loss", step, validation.loss)?;
        let is_best = self.progress.best.as_ref().is_none_or(|best| validation.loss < best.validation.loss);
        self.observer.validated(step, &validation, is_best);
        if let Some(entry) = self.log.entries.last_mut() {
            entry.validation = Some(validation.clone());
        }
        if is_best {
            state::write_best(&self.out, self.objective.params())?;
            self.progress.best = Some(Best { step, validation });
            self.progress.stale = 0;
        } else {
            self.progress.stale += 1;
        }
        Ok(true)
    }

    /// The tensors to save: those of the best evaluation, or the present ones where nothing was evaluated.
    fn best_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let params = self.objective.params();
        let present = params.all().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
        match &self.progress.best {
            Some(best) if best.step != self.progress.step => state::read_best(&self.out, params, present),
            _ => Ok(present),
        }
    }

    fn check_finite(&self, what: &'static str, step: usize, value: f64) -> Result<()> {
        if value.is_finite() {
            return Ok(());
        }
        Err(TrainError::NotFinite { what, step, checkpoint: self.progress.saved })
    }

    fn record(&mut self, entry: Entry) {
        let tokens = self.progress.tokens - self.progress.tokens_before;
        let elapsed = self.began.elapsed().as_secs_f64();
        let per_step = elapsed / (self.progress.step - self.plan.done) as f64;
        let seconds_left = per_step * (self.plan.steps - self.progress.step) as f64;
        self.observer.stepped(&entry, Speed { tokens_per_second: tokens as f64 / elapsed, seconds_left });
        self.log.entries.push(entry);
    }

    /// Seconds of training, those before an interruption included.
    fn seconds(&self) -> f64 {
        self.progress.seconds_before + self.began.elapsed().as_secs_f64()
    }

    fn has_lost_patience(&self) -> bool {
        self.recipe.options.patience.is_some_and(|patience| self.progress.stale >= patience)
    }

    fn interrupted(mut self) -> Result<Outcome> {
        self.save()?;
        Ok(Outcome::Interrupted { step: self.progress.step })
    }

    /// Leaves the best model in the folder, and no checkpoint.
    fn finish(mut self) -> Result<Outcome> {
        self.save()?;
        let tensors = self.best_tensors()?;
        let summary = self.summary();
        output::save(&self.out, self.objective.product(), tensors, &self.recipe, &summary)?;
        state::remove(&self.out)?;
        Ok(Outcome::Finished(summary))
    }

    fn summary(&self) -> Summary {
        let last = self.log.entries.last();
        Summary {
            steps: self.progress.step,
            steps_planned: self.plan.steps,
            best_step: self.progress.best.as_ref().map_or(self.progress.step, |best| best.step),
            parameters: self.plan.parameters,
            tokens: self.progress.tokens,
            seconds: self.seconds(),
            loss: last.map_or(f64::NAN, |entry| entry.loss),
            validation: self.progress.best.as_ref().map(|best| best.validation.clone()),
            text_fingerprint: self.fingerprint.clone(),
        }
    }
}

fn plan(objective: &dyn Objective, texts: &Texts) -> Plan {
    let tokens = |texts: &[Vec<_>]| texts.iter().map(Vec::len).sum();
    Plan {
        steps: 0,
        done: 0,
        parameters: objective.params().trained().map(|(_, var)| var.elem_count()).sum(),
        tokens: tokens(&texts.training),
        validation_tokens: tokens(&texts.validation),
    }
}

/// All validation texts as batches, the same for every evaluation.
fn batches(texts: Vec<Vec<u32>>, pace: Pace, seed: u64) -> Vec<Batch> {
    let mut course = Course::new(texts, Pace { accumulate: 1, ..pace }, 1, seed);
    (0..course.steps()).flat_map(|step| course.batches(step)).collect()
}
