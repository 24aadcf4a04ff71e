//! `espalier train`: models and drafters from text.

mod args;
mod bar;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use espalier_service_kit::signal;
use espalier_trainer::{
    BaseMethod, CaliTsMethod, EarlyExitMethod, EddMethod, Method, ModelShape, Outcome, Recipe, SortedMethod, Summary,
    TrainError,
};
use serde::Serialize;

use crate::Verdict;
use crate::args::SystemArgs;
use crate::error::CliError;
use crate::models::checkpoint;
use crate::{report, system};

pub(crate) use args::Train;
use args::{Base, CaliTs, Common, EarlyExit, Edd, Sorted};
use bar::Bar;

/// The sizes of a model from nothing unless told otherwise: about 4 million parameters beside the embedding.
const SMALL: ModelShape = ModelShape { layers: 6, hidden: 256, heads: 4, kv_heads: 2, ffn: 704, context: 2048 };

/// Trains, or goes on training.
pub(crate) async fn run(system: &SystemArgs, train: &Train) -> Result<Verdict, CliError> {
    let job = Job::of(system, train)?;
    let (out, json) = (job.out().to_owned(), job.json);
    let outcome = supervise(job).await?;
    match outcome {
        Outcome::Finished(summary) => {
            show(&summary, &out, json);
            Ok(Verdict::Good)
        }
        Outcome::Interrupted { step } => {
            let out = out.display();
            anstream::eprintln!("interrupted after step {step}; `espalier train resume {out}` goes on from there");
            Ok(Verdict::Interrupted)
        }
    }
}

/// What is asked for.
struct Job {
    work: Work,
    json: bool,
}

enum Work {
    New { recipe: Box<Recipe>, out: PathBuf },
    Resume { out: PathBuf },
}

impl Job {
    fn of(system: &SystemArgs, train: &Train) -> Result<Self, CliError> {
        let (method, common) = match train {
            Train::Base(args) => (base(system, args)?, &args.common),
            Train::Sorted(args) => (sorted(system, args)?, &args.common),
            Train::Edd(args) => (edd(system, args)?, &args.common),
            Train::EarlyExit(args) => (early_exit(system, args)?, &args.common),
            Train::CaliTs(args) => (cali_ts(system, args)?, &args.common),
            Train::Resume(args) => return Ok(Self { work: Work::Resume { out: args.out.clone() }, json: args.json }),
        };
        let work = Work::New { recipe: Box::new(recipe(system, method, common)), out: common.out.clone() };
        Ok(Self { work, json: common.json })
    }

    fn out(&self) -> &Path {
        match &self.work {
            Work::New { out, .. } | Work::Resume { out } => out,
        }
    }

    fn run(&self, stop: &AtomicBool) -> Result<Outcome, TrainError> {
        let mut bar = Bar::new();
        match &self.work {
            Work::New { recipe, out } => espalier_trainer::train(recipe, out, &mut bar, stop),
            Work::Resume { out } => espalier_trainer::resume(out, &mut bar, stop),
        }
    }
}

/// Runs a job on a thread of its own and has it stop at the first SIGINT or SIGTERM.
async fn supervise(job: Job) -> Result<Outcome, CliError> {
    let told = signal()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut training = tokio::task::spawn_blocking(move || job.run(&flag));
    let outcome = tokio::select! {
        outcome = &mut training => outcome,
        () = told => {
            stop.store(true, Ordering::Relaxed);
            training.await
        }
    };
    // A panic of the training goes on here.
    Ok(outcome.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))?)
}

fn recipe(system: &SystemArgs, method: Method, common: &Common) -> Recipe {
    let options = common.options(method.learning_rate(), system::threads(system));
    Recipe { data: common.data(), options, method }
}

fn base(system: &SystemArgs, args: &Base) -> Result<Method, CliError> {
    let init = folder(system, &args.init)?;
    let Some(sizes) = &args.scratch else {
        return Ok(Method::Base(BaseMethod::Checkpoint(init)));
    };
    let mut shape = SMALL;
    for size in sizes {
        let slot = match &*size.name {
            "layers" => &mut shape.layers,
            "hidden" => &mut shape.hidden,
            "heads" => &mut shape.heads,
            "kv-heads" => &mut shape.kv_heads,
            "ffn" => &mut shape.ffn,
            "context" => &mut shape.context,
            other => return Err(CliError::Size { name: other.to_owned() }),
        };
        *slot = size.value;
    }
    Ok(Method::Base(BaseMethod::Scratch { tokenizer: init, shape }))
}

fn sorted(system: &SystemArgs, args: &Sorted) -> Result<Method, CliError> {
    let layers = args.exits.last().copied().unwrap_or(0);
    Ok(Method::Sorted(SortedMethod { init: folder(system, &args.init)?, layers, exits: args.exits.clone() }))
}

fn edd(system: &SystemArgs, args: &Edd) -> Result<Method, CliError> {
    Ok(Method::Edd(EddMethod {
        target: folder(system, &args.target)?,
        tapped_layer: args.tapped_layer,
        block_min: args.block_min,
        block_max: args.block_max,
        freeze_head: args.freeze_head,
        hidden_states: !args.no_hidden_states,
        divergence: !args.no_divergence,
    }))
}

fn early_exit(system: &SystemArgs, args: &EarlyExit) -> Result<Method, CliError> {
    let target = folder(system, &args.target)?;
    Ok(Method::EarlyExit(EarlyExitMethod { target, shared_layers: args.shared_layers }))
}

fn cali_ts(system: &SystemArgs, args: &CaliTs) -> Result<Method, CliError> {
    let (target, drafter) = (folder(system, &args.target)?, folder(system, &args.drafter)?);
    Ok(Method::CaliTs(CaliTsMethod { target, drafter }))
}

/// A checkpoint's folder, wherever the run is resumed.
fn folder(system: &SystemArgs, name: &str) -> Result<PathBuf, CliError> {
    Ok(absolute(&checkpoint(name, system)?))
}

/// The path from the root, if the working directory is known.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The result, for people or for programs.
fn show(summary: &Summary, out: &Path, json: bool) {
    if json {
        return report::json(&Finished { folder: out, summary });
    }
    let Summary { steps, tokens, seconds, loss, best_step, .. } = summary;
    anstream::println!("{}: {steps} steps, {tokens} tokens, {seconds:.0} s, loss {loss:.4}", out.display());
    if let Some(validation) = &summary.validation {
        anstream::println!("kept: step {best_step}, validation loss {:.4}", validation.loss);
        for exit in &validation.exits {
            anstream::println!("  {}: loss {:.4}, top-1 {:.1} %", exit.name, exit.loss, exit.top1 * 100.0);
        }
    }
}

#[derive(Serialize)]
struct Finished<'a> {
    folder: &'a Path,
    #[serde(flatten)]
    summary: &'a Summary,
}
