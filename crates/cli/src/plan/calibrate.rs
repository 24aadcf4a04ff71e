//! `espalier plan calibrate`: entries of a scenario as this machine has them.

use espalier_command::{Verdict, report};
use espalier_local::{DrafterChoice, LocalError, SystemArgs, checkpoint};
use espalier_model::{Checkpoint, Decoder, DraftFolder, DraftModel, LoadOptions, Workspace};
use espalier_planner::calibrations;
use serde::Serialize;

use super::costs::Costs;
use super::reading::read;
use crate::error::CliError;

/// The options of `espalier plan calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Calibrate {
    /// Measure passes of these targets here, while nothing else runs.
    #[arg(long, value_delimiter = ',', value_name = "T[,T…]")]
    targets: Vec<String>,
    /// Measure levels of these drafters here, while nothing else runs.
    #[arg(long, value_delimiter = ',', value_name = "D[,D…]")]
    drafter: Vec<String>,
    /// Read what `espalier bench kernels --json` printed, here or elsewhere.
    #[arg(long, num_args = 1.., value_name = "FILE.jsonl")]
    kernels: Vec<std::path::PathBuf>,
}

/// What a model's passes cost, as an entry of a scenario has it.
#[derive(Serialize)]
struct Entry {
    name: String,
    curve: Vec<(usize, f64)>,
    /// A drafter reads prompts as it grows levels.
    #[serde(flatten)]
    target: Option<TargetCosts>,
    cold_ms: f64,
    jitter: f64,
    layers: usize,
}

#[derive(Serialize)]
struct TargetCosts {
    prompt_us: f64,
    context_us: f64,
}

pub(super) fn run(system: &SystemArgs, args: &Calibrate) -> Result<Verdict, CliError> {
    let mut work = Workspace::new(system.threads());
    for name in &args.targets {
        report::json(&target(name, system, &mut work)?);
    }
    for choice in DrafterChoice::parse_all(&args.drafter, system)? {
        if let Some(measured) = drafter(&choice, system, &mut work)? {
            report::json(&measured);
        }
    }
    for path in &args.kernels {
        let found = calibrations(&read(path)?);
        let found = found.map_err(|source| CliError::Kernels { path: path.clone(), source })?;
        found.iter().for_each(report::json);
    }
    Ok(Verdict::Good)
}

fn target(name: &str, system: &SystemArgs, work: &mut Workspace) -> Result<Entry, CliError> {
    let checkpoint = Checkpoint::open(&checkpoint(name, system)?)?;
    let arithmetic = system.target_compute().map_err(LocalError::from)?.of(&checkpoint.weights()?, system.device);
    let options =
        LoadOptions { arithmetic, device: system.device, parallel: system.parallel(), ..LoadOptions::default() };
    let decoder = Decoder::load(&checkpoint, &options)?;
    let costs = Costs::measure(&decoder, work)?;
    let target = TargetCosts { prompt_us: 1e3 * costs.prompt, context_us: 1e3 * costs.context };
    Ok(Entry { target: Some(target), ..Entry::of(name.to_owned(), costs, decoder.layers()) })
}

/// None of a drafter that has no model.
fn drafter(choice: &DrafterChoice, system: &SystemArgs, work: &mut Workspace) -> Result<Option<Entry>, CliError> {
    let DrafterChoice::Model { folder, layers } = choice else { return Ok(None) };
    let device = system.draft_device();
    let weights = Checkpoint::open(folder)?.weights()?;
    let options = LoadOptions {
        layers: *layers,
        arithmetic: system.draft_compute().of(&weights, device),
        device,
        ..LoadOptions::default()
    };
    let model = DraftModel::open_with_progress(DraftFolder { dir: folder, target: None }, &options, |_, _| {});
    let model = model.map_err(LocalError::from)?;
    let decoder = model.decoder();
    Ok(Some(Entry::of(choice.name(), Costs::measure(decoder, work)?, decoder.layers())))
}

impl Entry {
    fn of(name: String, costs: Costs, layers: usize) -> Self {
        Self { name, curve: costs.curve, target: None, cold_ms: costs.cold, jitter: costs.jitter, layers }
    }
}
