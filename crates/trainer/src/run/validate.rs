//! Evaluations on the validation texts, and the best of them.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::{Run, state};
use crate::error::Result;
use crate::objective::{Prediction, hits, loss_sum};
use crate::output::{ExitScore, Validation};
use crate::random::{Draws, Purpose};

/// What the batches of an evaluation add up to, for one exit.
#[derive(Default)]
struct Tally {
    name: String,
    loss: f64,
    hits: usize,
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
    fn validate(&mut self) -> Result<Option<Validation>> {
        let mut tallies: Vec<Tally> = Vec::new();
        let mut positions = 0;
        for (batch, number) in self.validation.iter().zip(0..) {
            if self.is_told_to_stop() {
                return Ok(None);
            }
            let draws = Draws::new(self.recipe.options.seed, Purpose::Validation, number);
            let prediction = self.objective.predict(batch, draws)?;
            positions += prediction.goal.counted();
            add(&mut tallies, &prediction)?;
        }
        let share = |sum: f64| sum / positions.max(1) as f64;
        let exits = tallies.into_iter().map(|tally| ExitScore {
            name: tally.name,
            loss: share(tally.loss),
            top1: share(tally.hits as f64),
        });
        let exits: Vec<ExitScore> = exits.collect();
        let loss = exits.iter().map(|exit| exit.loss).sum::<f64>() / exits.len().max(1) as f64;
        Ok(Some(Validation { loss, positions, exits }))
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

fn add(tallies: &mut Vec<Tally>, prediction: &Prediction) -> Result<()> {
    tallies.resize_with(prediction.exits.len(), Tally::default);
    for (tally, exit) in tallies.iter_mut().zip(&prediction.exits) {
        tally.name.clone_from(&exit.name);
        tally.loss += loss_sum(&exit.logits, &prediction.goal)?.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        tally.hits += hits(&exit.logits, &prediction.goal)?;
    }
    Ok(())
}
