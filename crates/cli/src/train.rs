//! `espalier train`: models and drafters from text.

mod args;
mod bar;
mod folders;
mod supervise;
mod text;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use espalier_command::{Verdict, report};
use espalier_local::SystemArgs;
use espalier_trainer::{
    BaseMethod, CaliTsMethod, EarlyExitMethod, EddMethod, Method, ModelShape, Outcome, Recipe, SortedMethod, Summary,
    TrainError,
};
use serde::Serialize;

use self::args::{Base, CaliTs, Common, EarlyExit, Edd, Sorted};
use self::bar::Bar;
use self::folders::folder;
use self::supervise::supervise;
use crate::error::CliError;

pub(crate) use args::Train;

/// The sizes of a model from nothing unless told otherwise: about 4 million parameters beside the embedding.
const SMALL: ModelShape = ModelShape { layers: 6, hidden: 256, heads: 4, kv_heads: 2, ffn: 704, context: 2048 };

/// Trains, goes on training, or has the text written for it.
pub(crate) async fn run(system: &SystemArgs, train: &Train) -> Result<Verdict, CliError> {
    match train {
        Train::Text(args) => text::run(system, args).await,
        Train::Base(args) => begin(system, base(system, args)?, &args.common).await,
        Train::Sorted(args) => begin(system, sorted(system, args)?, &args.common).await,
        Train::Edd(args) => begin(system, edd(system, args)?, &args.common).await,
        Train::EarlyExit(args) => begin(system, early_exit(system, args)?, &args.common).await,
        Train::CaliTs(args) => begin(system, cali_ts(system, args)?, &args.common).await,
        Train::Resume(args) => finish(TrainingRun::Resume { out: args.out.clone() }, args.json).await,
    }
}

async fn begin(system: &SystemArgs, method: Method, common: &Common) -> Result<Verdict, CliError> {
    let recipe = Box::new(recipe(system, method, common));
    finish(TrainingRun::New { recipe, out: common.out.clone() }, common.json).await
}

/// Works until the model is there, or until told to stop.
async fn finish(run: TrainingRun, json: bool) -> Result<Verdict, CliError> {
    let out = run.out().to_owned();
    match supervise(move |stop| run.go(stop)).await? {
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

/// A training, from the beginning or from where it was interrupted.
enum TrainingRun {
    New { recipe: Box<Recipe>, out: PathBuf },
    Resume { out: PathBuf },
}

impl TrainingRun {
    fn out(&self) -> &Path {
        match self {
            Self::New { out, .. } | Self::Resume { out } => out,
        }
    }

    fn go(&self, stop: &AtomicBool) -> Result<Outcome, TrainError> {
        let mut bar = Bar::new();
        match self {
            Self::New { recipe, out } => espalier_trainer::train(recipe, out, &mut bar, stop),
            Self::Resume { out } => espalier_trainer::resume(out, &mut bar, stop),
        }
    }
}

fn recipe(system: &SystemArgs, method: Method, common: &Common) -> Recipe {
    let options = common.options(method.learning_rate(), system);
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
    let teachers = args.teachers.iter().map(|name| folder(system, name)).collect::<Result<_, _>>()?;
    Ok(Method::Sorted(SortedMethod {
        init: folder(system, &args.init)?,
        layers: args.exits.last().copied().unwrap_or(0),
        exits: args.exits.clone(),
        teachers,
        teacher_weight: args.teacher_weight,
    }))
}

fn edd(system: &SystemArgs, args: &Edd) -> Result<Method, CliError> {
    Ok(Method::Edd(EddMethod {
        target: folder(system, &args.target)?,
        tapped_layer: args.tapped_layer,
        block_min: args.block_min,
        block_max: args.block_max,
        sight: args.sight(),
        freeze_head: args.freeze_head,
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

/// The result, for people or for programs.
fn show(summary: &Summary, out: &Path, json: bool) {
    if json {
        return report::json(&Finished { folder: out, summary });
    }
    let Summary { steps, tokens, seconds, loss, best_step, .. } = summary;
    let (out, speed) = (out.display(), *tokens as f64 / seconds.max(f64::MIN_POSITIVE));
    anstream::println!("{out}: {steps} steps, {tokens} tokens in {seconds:.0} s, {speed:.0} a second, loss {loss:.4}");
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
