//! Evaluations on the validation texts, and the best of them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use candle_core::{DType, Tensor};
use rayon::prelude::*;

use super::{Run, state};
use crate::data::Batch;
use crate::error::Result;
use crate::objective::{Exit, Prediction, hits, loss_sum};
use crate::output::{ExitScore, Validation};
use crate::random::{Draws, Purpose};

/// What the validation texts say of one batch.
struct Tally {
    positions: usize,
    exits: Vec<ExitTally>,
}

/// The same of one exit.
struct ExitTally {
    name: String,
    /// The sum over positions.
    loss: f64,
    hits: usize,
}

impl Tally {
    fn of(prediction: &Prediction) -> Result<Self> {
        let exit = |Exit { name, logits }: &Exit| {
            let loss = loss_sum(logits, &prediction.goal)?.to_dtype(DType::F64)?.to_scalar()?;
            Ok(ExitTally { name: name.clone(), loss, hits: hits(logits, &prediction.goal)? })
        };
        let exits = prediction.exits.iter().map(exit).collect::<Result<_>>()?;
        Ok(Self { positions: prediction.goal.counted(), exits })
    }

    fn sum(tallies: &[Self]) -> Validation {
        let positions = tallies.iter().map(|tally| tally.positions).sum();
        let share = |sum: f64| sum / f64::max(positions as f64, 1.0);
        let names = tallies.first().map_or(&[][..], |tally| &tally.exits);
        let exits = names.iter().enumerate().map(|(exit, ExitTally { name, .. })| ExitScore {
            name: name.clone(),
            loss: share(tallies.iter().map(|tally| tally.exits[exit].loss).sum()),
            top1: share(tallies.iter().map(|tally| tally.exits[exit].hits as f64).sum()),
        });
        let exits: Vec<ExitScore> = exits.collect();
        let loss = exits.iter().map(|exit| exit.loss).sum::<f64>() / exits.len().max(1) as f64;
        Validation { loss, positions, exits }
    }
}

impl Run<'_> {
    /// After every so many steps and after the last, unless it is done already or there is nothing to validate with.
    pub(super) fn evaluation_is_due(&self) -> bool {
        let step = self.progress.step;
        let is_time = step.is_multiple_of(self.recipe.options.evaluate_every) || step == self.plan.steps;
        step > 0 && is_time && self.progress.evaluated != step && !self.validation.is_empty()
    }

    /// Asks the validation texts and keeps the model if it is the best so far; false if told to stop on the way.
    pub(super) fn evaluate(&mut self) -> Result<bool> {
        let Some(validation) = self.validate()? else {
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
            self.progress.best = Some(state::Best { step, validation });
            self.progress.stale = 0;
        } else {
            self.progress.stale += 1;
        }
        Ok(true)
    }

    /// What the validation texts say now. Whatever an objective draws is the same every time, so that evaluations can be
    /// compared.
    fn validate(&self) -> Result<Option<Validation>> {
        let (objective, stop, seed) = (self.objective.as_ref(), self.stop, self.recipe.options.seed);
        let judge = |(number, batch): (usize, &Batch)| {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let draws = Draws::new(seed, Purpose::Validation, number as u64);
            Tally::of(&objective.predict(batch, draws)?).map(Some)
        };
        let tallies = self.validation.par_iter().enumerate().map(judge).collect::<Result<Option<Vec<_>>>>()?;
        Ok(tallies.map(|tallies| Tally::sum(&tallies)))
    }

    /// The tensors to save: those of the best evaluation, or the present ones where nothing was evaluated.
    pub(super) fn best_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let params = self.objective.params();
        let present = params.all().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
        match &self.progress.best {
            Some(best) if best.step != self.progress.step => state::read_best(&self.out, params, present),
            _ => Ok(present),
        }
    }
}
