//! `espalier plan calibrate`: entries of a scenario as this machine has them.

use std::time::Duration;

use espalier_command::{Verdict, report};
use espalier_local::{DrafterChoice, LocalError, SystemArgs, checkpoint};
use espalier_model::{Checkpoint, Decoder, DraftFolder, DraftModel, LoadOptions, ModelError, Workspace};
use espalier_planner::calibrations;
use serde::Serialize;

use super::reading::read;
use crate::error::CliError;

/// The options of `espalier plan calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Calibrate {
    /// Measure passes of these targets here, as a verifier does when it starts.
    #[arg(long, value_delimiter = ',', value_name = "T[,T…]")]
    targets: Vec<String>,
    /// Measure levels of these drafters here, as a drafter does when it starts.
    #[arg(long, value_delimiter = ',', value_name = "D[,D…]")]
    drafter: Vec<String>,
    /// Read what `espalier bench kernels --json` printed, here or elsewhere.
    #[arg(long, num_args = 1.., value_name = "FILE.jsonl")]
    kernels: Vec<std::path::PathBuf>,
}

/// What a model's passes cost.
#[derive(Serialize)]
struct Measured {
    name: String,
    curve: Vec<(usize, f64)>,
    layers: usize,
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

fn target(name: &str, system: &SystemArgs, work: &mut Workspace) -> Result<Measured, CliError> {
    let checkpoint = Checkpoint::open(&checkpoint(name, system)?)?;
    let arithmetic = system.target_compute().map_err(LocalError::from)?.of(&checkpoint.weights()?, system.device);
    let options =
        LoadOptions { arithmetic, device: system.device, ranks: system.tensor_parallel, ..LoadOptions::default() };
    let decoder = Decoder::load(&checkpoint, &options)?;
    Ok(Measured::of(name.to_owned(), &decoder, work)?)
}

/// None of a drafter that has no model.
fn drafter(choice: &DrafterChoice, system: &SystemArgs, work: &mut Workspace) -> Result<Option<Measured>, CliError> {
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
    Ok(Some(Measured::of(choice.name(), model.decoder(), work)?))
}

impl Measured {
    fn of(name: String, decoder: &Decoder, work: &mut Workspace) -> Result<Self, ModelError> {
        let ms = |took: Duration| 1e3 * took.as_secs_f64();
        let curve = decoder.measure_passes(work)?.into_iter().map(|(rows, took)| (rows, ms(took))).collect();
        Ok(Self { name, curve, layers: decoder.layers() })
    }
}
