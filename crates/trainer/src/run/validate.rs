//! What validation texts say of a model.

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::DType;
use rayon::prelude::*;

use crate::data::Batch;
use crate::error::Result;
use crate::objective::{Exit, Objective, Prediction, hits, loss_sum};
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

/// What validation texts say of a model now; nothing if told to stop on the way. Whatever an objective draws is the same
/// every time, so that evaluations can be compared.
pub(super) fn validate(
    objective: &dyn Objective,
    batches: &[Batch],
    seed: u64,
    stop: &AtomicBool,
) -> Result<Option<Validation>> {
    let judge = |(number, batch): (usize, &Batch)| {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let draws = Draws::new(seed, Purpose::Validation, number as u64);
        Tally::of(&objective.predict(batch, draws)?).map(Some)
    };
    let tallies = batches.par_iter().enumerate().map(judge).collect::<Result<Option<Vec<_>>>>()?;
    Ok(tallies.map(|tallies| Tally::sum(&tallies)))
}
