//! Checkpoints of a run: all that its further course depends on.
//!
//! `checkpoint/state.safetensors` holds the trained tensors, the optimiser's memory and, as a note, recipe and progress.
//! The place in the text and all randomness are functions of the recipe and the step. The file is replaced as a whole,
//! so whatever happens there is a checkpoint that can be resumed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Result, TrainError};
use crate::files;
use crate::nn::Params;
use crate::optimiser::{AdamW, Moments};
use crate::output::{Archive, Log, Validation, curve, write_tensors};
use crate::recipe::Recipe;

const FOLDER: &str = "checkpoint";
const STATE: &str = "state.safetensors";
const BEST: &str = "best.safetensors";
const LOG: &str = "log.jsonl";
const CURVE: &str = "loss.svg";
/// The note that holds recipe and progress.
const NOTE: &str = "run";
/// How the names of the optimiser's tensors begin.
const MEAN: &str = "mean:";
const SQUARE: &str = "square:";

/// How far a run has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Steps done.
    pub(super) step: usize,
    /// The step after which the validation texts were asked last.
    pub(super) evaluated: usize,
    /// The best evaluation.
    pub(super) best: Option<Best>,
    /// Evaluations since then.
    pub(super) stale: usize,
    /// Tokens seen.
    pub(super) tokens: u64,
    /// Seconds and tokens up to the checkpoint that was resumed.
    pub(super) seconds_before: f64,
    pub(super) tokens_before: u64,
    /// The step of the checkpoint written last.
    pub(super) saved: Option<usize>,
}

/// The best evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    pub(super) step: usize,
    pub(super) validation: Validation,
}

/// The note beside the tensors.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) recipe: Recipe,
    pub(super) text_fingerprint: String,
    pub(super) progress: Progress,
}

/// A checkpoint as read.
pub(super) struct State {
    note: Note,
    archive: Archive,
}

impl State {
    pub(super) fn open(out: &Path) -> Result<Self> {
        let path = path(out, STATE);
        if !path.is_file() {
            return Err(TrainError::NothingToResume { folder: out.to_owned() });
        }
        let archive = Archive::open(&path)?;
        let note = serde_json::from_str(archive.note(NOTE)?).map_err(|fault| TrainError::Json { path, fault })?;
        Ok(Self { note, archive })
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.note.recipe
    }

    /// Refuses text that is no longer what it was.
    pub(super) fn check_text(&self, fingerprint: &str) -> Result<()> {
        let was = &self.note.text_fingerprint;
        if was == fingerprint {
            return Ok(());
        }
        Err(self.archive.fault(format!("its text had the fingerprint {was}, but now has {fingerprint}")))
    }

    /// Gives the trained tensors and the optimiser's memory of them the values that they had.
    pub(super) fn load(&self, params: &Params, optimiser: &mut AdamW) -> Result<()> {
        for (name, var) in params.trained() {
            var.set(&self.archive.tensor_like(name, var)?)?;
            let mean = self.archive.tensor_like(&format!("{MEAN}{name}"), var)?;
            let square = self.archive.tensor_like(&format!("{SQUARE}{name}"), var)?;
            optimiser.restore(name, Moments { mean, square });
        }
        Ok(())
    }

    /// How far the run had come.
    pub(super) fn into_progress(self) -> Progress {
        self.note.progress
    }
}

/// Writes a checkpoint.
pub(super) fn write(out: &Path, params: &Params, optimiser: &AdamW, note: &Note) -> Result<()> {
    files::create_folder(&out.join(FOLDER))?;
    let mut tensors = trained(params);
    for (name, Moments { mean, square }) in optimiser.moments() {
        tensors.insert(format!("{MEAN}{name}"), mean.clone());
        tensors.insert(format!("{SQUARE}{name}"), square.clone());
    }
    let path = path(out, STATE);
    let note = serde_json::to_string(note).map_err(|fault| TrainError::Json { path: path.clone(), fault })?;
    write_tensors(&path, &tensors, HashMap::from([(NOTE.to_owned(), note)]))
}

/// Writes the log and the curve that shows it.
pub(super) fn write_log(out: &Path, log: &Log) -> Result<()> {
    files::create_folder(out)?;
    log.write(&out.join(LOG))?;
    files::replace_text(&out.join(CURVE), &curve::draw(&log.entries)?)
}

/// Reads the log up to a step.
pub(super) fn read_log(out: &Path, step: usize) -> Result<Log> {
    Log::read(&out.join(LOG), step)
}

/// What stands in the way of a new run.
pub(super) fn occupied(out: &Path) -> Option<String> {
    let is = path(out, STATE).is_file();
    is.then(|| "an unfinished training, which can be resumed".to_owned())
}

/// Removes the checkpoints of a finished run.
pub(super) fn remove(out: &Path) -> Result<()> {
    let folder = out.join(FOLDER);
    std::fs::remove_dir_all(&folder).map_err(|fault| TrainError::write(&folder, fault))
}

/// Keeps the trained tensors of the best evaluation.
pub(super) fn write_best(out: &Path, params: &Params) -> Result<()> {
    files::create_folder(&out.join(FOLDER))?;
    write_tensors(&path(out, BEST), &trained(params), HashMap::new())
}

/// Puts the tensors of the best evaluation in the place of the present ones.
pub(super) fn read_best(
    out: &Path,
    params: &Params,
    mut tensors: BTreeMap<String, Tensor>,
) -> Result<BTreeMap<String, Tensor>> {
    let archive = Archive::open(&path(out, BEST))?;
    for (name, var) in params.trained() {
        tensors.insert(name.to_owned(), archive.tensor_like(name, var)?);
    }
    Ok(tensors)
}

fn trained(params: &Params) -> BTreeMap<String, Tensor> {
    params.trained().map(|(name, var)| (name.to_owned(), var.as_tensor().clone())).collect()
}

fn path(out: &Path, name: &str) -> PathBuf {
    out.join(FOLDER).join(name)
}
