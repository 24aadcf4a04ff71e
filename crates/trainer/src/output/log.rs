//! The training log: one JSON object a step, in a file that always ends where the checkpoint does.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Result, TrainError};
use crate::files;

/// What one step, or what led up to it, came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The step, from 1.
    pub step: usize,
    /// The epoch, from 1.
    pub epoch: usize,
    /// The mean loss of the step's positions, in nats.
    pub loss: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// The length of the gradient before it was clipped.
    pub gradient_norm: f64,
    /// Tokens seen since the beginning.
    pub tokens: u64,
    /// Seconds of training since the beginning.
    pub seconds: f64,
    /// What the validation texts said after the step, if they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

/// What the validation texts say of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The mean loss over all positions, the mean over exits where there are several.
    pub loss: f64,
    /// Positions that were judged.
    pub positions: usize,
    /// Each exit on its own.
    pub exits: Vec<ExitScore>,
}

/// What the validation texts say of one exit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExitScore {
    /// The exit.
    pub name: String,
    /// The mean loss there.
    pub loss: f64,
    /// The share of positions where the most probable token is the best one: the text's next token under
    /// cross-entropy, the target's most probable token under divergence.
    pub top1: f64,
}

/// All entries so far, in order of their steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Log {
    pub(crate) entries: Vec<Entry>,
}

impl Log {
    /// Reads a log, keeping what is not after `step`.
    pub(crate) fn read(path: &Path, step: usize) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|fault| TrainError::read(path, fault))?;
        let malformed = |(line, fault): (usize, serde_json::Error)| TrainError::Line {
            path: path.to_owned(),
            line: line + 1,
            what: fault.to_string(),
        };
        let parse = |(line, text)| serde_json::from_str::<Entry>(text).map_err(|fault| malformed((line, fault)));
        let mut entries = text.lines().enumerate().map(parse).collect::<Result<Vec<_>>>()?;
        entries.retain(|entry| entry.step <= step);
        Ok(Self { entries })
    }

    /// Writes all entries.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        files::replace(path, |file| {
            for entry in &self.entries {
                serde_json::to_writer(&mut *file, entry)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(step: usize) -> Entry {
        let exits = vec![ExitScore { name: "exit".to_owned(), loss: 0.1 + 0.2, top1: 0.5 }];
        Entry {
            step,
            epoch: 1,
            loss: 1.0 / 3.0,
            learning_rate: 1e-4,
            gradient_norm: 0.7,
            tokens: 1 << 40,
            seconds: 2.5,
            validation: (step == 2).then_some(Validation { loss: 0.3, positions: 7, exits }),
        }
    }

    #[test]
    fn a_log_is_read_up_to_the_step_of_its_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = Log { entries: (1..=3).map(entry).collect() };
        log.write(&path).unwrap();
        assert_eq!(Log::read(&path, 3).unwrap(), log);
        assert_eq!(Log::read(&path, 2).unwrap().entries, log.entries[..2]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().matches("validation").count(), 1);
    }
}
