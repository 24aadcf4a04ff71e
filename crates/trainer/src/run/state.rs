//! Checkpoints of a run: all that its further course depends on.
//!
//! `checkpoint/state.safetensors` holds the trained tensors, the optimiser's memory and, as a note, recipe and progress.
//! The place in the text and all randomness are functions of the recipe and the step. The file is replaced as a whole,
//! so whatever happens there is a checkpoint that can be resumed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::{Result, TrainError};
use crate::files;
use crate::nn::Params;
use crate::optimiser::Moments;
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
struct Note {
    recipe: Recipe,
    text_fingerprint: String,
    progress: Progress,
}

/// A checkpoint as read.
pub(super) struct State {
    pub(super) recipe: Recipe,
    text_fingerprint: String,
    progress: Progress,
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
        let Note { recipe, text_fingerprint, progress } = note;
        Ok(Self { recipe, text_fingerprint, progress, archive })
    }
}

impl Run<'_> {
    /// Writes log, curve and checkpoint, the checkpoint last: the others are never behind it.
    pub(super) fn save(&mut self) -> Result<()> {
        files::create_folder(&self.out.join(FOLDER))?;
        self.log.write(&self.out.join(LOG))?;
        files::replace_text(&self.out.join(CURVE), &curve::draw(&self.log.entries)?)?;
        let mut tensors = trained(self.objective.params());
        for (name, Moments { mean, square }) in self.optimiser.moments() {
            tensors.insert(format!("{MEAN}{name}"), mean.clone());
            tensors.insert(format!("{SQUARE}{name}"), square.clone());
        }
        write_tensors(&path(&self.out, STATE), &tensors, HashMap::from([(NOTE.to_owned(), self.note()?)]))?;
        self.progress.saved = Some(self.progress.step);
        self.observer.saved(self.progress.step);
        Ok(())
    }

    fn note(&self) -> Result<String> {
        let step = self.progress.step;
        let progress = Progress {
            seconds_before: self.seconds(),
            tokens_before: self.progress.tokens,
            saved: Some(step),
            ..self.progress.clone()
        };
        let note = Note { recipe: self.recipe.clone(), text_fingerprint: self.fingerprint.clone(), progress };
        let path = path(&self.out, STATE);
        serde_json::to_string(&note).map_err(|fault| TrainError::Json { path, fault })
    }

    /// Takes up a run where its checkpoint left it.
    pub(super) fn restore(&mut self, state: State) -> Result<()> {
        let State { text_fingerprint, progress, archive, .. } = state;
        if text_fingerprint != self.fingerprint {
            let (was, is) = (&text_fingerprint, &self.fingerprint);
            return Err(archive.fault(format!("its text had the fingerprint {was}, but now has {is}")));
        }
        for (name, var) in self.objective.params().trained() {
            var.set(&archive.tensor_like(name, var)?)?;
            let mean = archive.tensor_like(&format!("{MEAN}{name}"), var)?;
            let square = archive.tensor_like(&format!("{SQUARE}{name}"), var)?;
            self.optimiser.restore(name, Moments { mean, square });
        }
        self.log = Log::read(&self.out.join(LOG), progress.step)?;
        self.progress = progress;
        Ok(())
    }
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
