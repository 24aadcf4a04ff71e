//! What a verifier is told when it starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use espalier_model::{Compute, ComputeConflict, Degree, DeviceKind, Parallel, Quantize};
use espalier_service_kit::{DrainArgs, Faults, MemoryBudget, MonitorArgs, TelemetryArgs, TlsArgs, Workplace};
use espalier_speculation::MAX_TREE_NODES;
use thiserror::Error;

/// The most sequences that a verifier may be told to serve at once.
pub const SEQUENCES_LIMIT: usize = 256;

/// The largest tree that a verifier may be told to take, in nodes.
pub const TREE_NODES_LIMIT: usize = MAX_TREE_NODES;

/// The most threads that a verifier may be told to compute with.
const THREADS_LIMIT: usize = 1024;

/// Hosts a target model and verifies candidate trees.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "espalier-verifier",
    version,
    after_help = "`espalier-verifier probe [startup|ready|live]` asks the service that runs beside it how it stands."
)]
pub struct Args {
    /// The model's folder, in Hugging Face format
    #[arg(long, env = "ESPALIER_VERIFIER_MODEL", value_name = "DIR")]
    pub model: PathBuf,
    /// The target's name; the folder's if absent
    #[arg(long, env = "ESPALIER_VERIFIER_NAME")]
    pub name: Option<String>,
    /// Where to listen; port 0 takes any free one
    #[arg(long, env = "ESPALIER_VERIFIER_LISTEN", default_value = "127.0.0.1:50052", value_name = "HOST:PORT")]
    pub listen: SocketAddr,
    /// Threads that compute; all processors if absent
    #[arg(long, env = "ESPALIER_VERIFIER_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// Sequences served at once; more are refused
    #[arg(long, env = "ESPALIER_VERIFIER_SEQUENCES_MAX", default_value_t = Config::SEQUENCES_MAX, value_name = "N")]
    pub sequences_max: usize,
    /// The largest tree that is taken, in nodes
    #[arg(long, env = "ESPALIER_VERIFIER_TREE_NODES_MAX", default_value_t = Config::TREE_NODES_MAX, value_name = "N")]
    pub tree_nodes_max: usize,
    /// Memory for keys and values, like `512MiB`, or `80%` of what is free on machine or device once weights are loaded;
    /// sequences that it has no room for are refused. If absent, enough for as many full contexts as sequences, but at
    /// most half of what is free
    #[arg(long, env = "ESPALIER_VERIFIER_KV_MEMORY", value_name = "BYTES|PERCENT")]
    pub kv_memory: Option<MemoryBudget>,
    /// What matrices are multiplied in: `f32`; `bf16` or `bf16-dot`, weights and inputs rounded to that; `int8`, both
    /// rounded to 8 bits; `int8-q4`, weights to 4; `stored`, `int8-q4` or `int8` for quantized files, by what they hold, and
    /// `f32` for floats; or `auto`, the same but for floats of 16 bits what this processor has instructions for. Replicas
    /// that shall take over from each other need the same
    #[arg(long, env = "ESPALIER_VERIFIER_COMPUTE", default_value_t, value_name = "ARITHMETIC")]
    pub compute: Compute,
    /// Where the model runs: `cpu`; `cuda` or `cuda:N`, an NVIDIA GPU, if the program was built for it; or `candle`, what
    /// runs on GPUs on the processor, to try it
    #[arg(long, env = "ESPALIER_VERIFIER_DEVICE", default_value_t, value_name = "DEVICE")]
    pub device: DeviceKind,
    /// GPUs that share each layer of the model, from the device on: a number, or `auto` for as many as there are and can
    /// share it
    #[arg(long, env = "ESPALIER_VERIFIER_TENSOR_PARALLEL", default_value_t, value_name = "N")]
    pub tensor_parallel: Degree,
    /// Stages that the model's layers are split into, each on GPUs of its own, from the device on: a number, or `auto` for as
    /// many as there are GPUs
    #[arg(long, env = "ESPALIER_VERIFIER_PIPELINE_PARALLEL", default_value_t, value_name = "N")]
    pub pipeline_parallel: Degree,
    /// Round weights to `q8` or `q4` at load, to be multiplied in `int8`
    #[arg(long, env = "ESPALIER_VERIFIER_QUANTIZE", value_name = "BITS")]
    pub quantize: Option<Quantize>,
    /// What is under TLS
    #[command(flatten)]
    pub tls: TlsArgs,
    /// How it ends
    #[command(flatten)]
    pub drain: DrainArgs,
    /// Logs and traces
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// The port for scrapers and probes
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

/// All that is wrong with a configuration.
pub type ConfigError = Faults<ConfigFault>;

/// A number that is out of range, or a name that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigFault {
    /// Weights are to be rounded for another arithmetic.
    #[error(transparent)]
    Compute(#[from] ComputeConflict),
    /// The number is out of range.
    #[error("{name} is {value}, which is not between 1 and {limit}")]
    Range {
        /// The argument.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// The folder's name cannot serve as the target's.
    #[error("the folder {} has no name that could be the target's", folder.display())]
    Name {
        /// The folder.
        folder: PathBuf,
    },
}

/// How a verifier is to run; valid by construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub(crate) model: PathBuf,
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) sequences_max: usize,
    pub(crate) tree_nodes_max: usize,
    /// The budget for keys and values; what suits model and machine when none.
    pub(crate) kv_memory: Option<MemoryBudget>,
    /// What matrices are multiplied in.
    pub(crate) compute: Compute,
    /// Where the model runs.
    pub(crate) device: DeviceKind,
    /// How it is spread over several of them.
    pub(crate) parallel: Parallel,
    /// Where the engine takes its turns.
    pub(crate) workplace: Workplace,
}

impl Config {
    /// Sequences served at once unless told otherwise.
    pub const SEQUENCES_MAX: usize = 64;

    /// The largest tree taken unless told otherwise, in nodes: a full `vanilla-tree`.
    pub const TREE_NODES_MAX: usize = 363;

    /// What the arguments mean on a machine of so many processors.
    ///
    /// # Errors
    /// [`ConfigError`] quotes every argument that is wrong.
    pub fn from_args(args: &Args, processors: usize) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        let name = faults.sift(args.name.clone().map_or_else(|| folder_name(&args.model), Ok));
        let threads = faults.sift(in_range("threads", args.threads.unwrap_or(processors), THREADS_LIMIT));
        let sequences_max = faults.sift(in_range("sequences-max", args.sequences_max, SEQUENCES_LIMIT));
        let compute = faults.sift(args.compute.quantized(args.quantize));
        let tree_nodes_max = faults.sift(in_range("tree-nodes-max", args.tree_nodes_max, TREE_NODES_LIMIT));
        faults.finish(|| {
            Some(Self {
                model: args.model.clone(),
                name: name?,
                threads: threads?,
                sequences_max: sequences_max?,
                tree_nodes_max: tree_nodes_max?,
                kv_memory: args.kv_memory,
                compute: compute?,
                device: args.device,
                parallel: Parallel { tensor: args.tensor_parallel, pipeline: args.pipeline_parallel },
                workplace: Workplace::default(),
            })
        })
    }

    /// The usual configuration for the model in a folder, named after it.
    ///
    /// # Errors
    /// A folder without a name, or no or too many threads.
    pub fn new(model: PathBuf, threads: usize) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        let name = faults.sift(folder_name(&model));
        let threads = faults.sift(in_range("threads", threads, THREADS_LIMIT));
        let (sequences_max, tree_nodes_max) = (Self::SEQUENCES_MAX, Self::TREE_NODES_MAX);
        faults.finish(|| {
            Some(Self {
                model,
                name: name?,
                threads: threads?,
                sequences_max,
                tree_nodes_max,
                kv_memory: None,
                compute: Compute::default(),
                device: DeviceKind::default(),
                parallel: Parallel::default(),
                workplace: Workplace::default(),
            })
        })
    }

    /// Threads that the model computes with.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The same with slots for so many sequences at once.
    ///
    /// # Errors
    /// None, or more than [`SEQUENCES_LIMIT`].
    pub fn with_sequences_max(self, sequences_max: usize) -> Result<Self, ConfigError> {
        Ok(Self { sequences_max: in_range("sequences-max", sequences_max, SEQUENCES_LIMIT)?, ..self })
    }

    /// The same with a budget for keys and values.
    #[must_use]
    pub fn with_kv_memory(self, budget: Option<MemoryBudget>) -> Self {
        Self { kv_memory: budget, ..self }
    }

    /// The same with an engine that takes its turns elsewhere.
    #[must_use]
    pub fn with_workplace(self, workplace: Workplace) -> Self {
        Self { workplace, ..self }
    }

    /// The same with matrices multiplied in another arithmetic.
    #[must_use]
    pub fn with_compute(self, compute: Compute) -> Self {
        Self { compute, ..self }
    }

    /// The same on another device, or spread over several.
    #[must_use]
    pub fn with_device(self, device: DeviceKind, parallel: Parallel) -> Self {
        Self { device, parallel, ..self }
    }

    /// The target's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn folder_name(folder: &Path) -> Result<String, ConfigFault> {
    let name = espalier_model::model_name(folder).map(str::to_owned);
    name.ok_or_else(|| ConfigFault::Name { folder: folder.to_owned() })
}

fn in_range(name: &'static str, value: usize, limit: usize) -> Result<usize, ConfigFault> {
    if !(1..=limit).contains(&value) {
        return Err(ConfigFault::Range { name, value, limit });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parsed(args: &[&str]) -> Result<Config, ConfigError> {
        let args = ["verifier", "--model", "models/medium"].iter().chain(args);
        Config::from_args(&Args::try_parse_from(args).unwrap(), 2)
    }

    #[test]
    fn the_usual_configuration_needs_only_a_model() {
        assert_eq!(parsed(&[]), Config::new("models/medium".into(), 2));
        assert_eq!(parsed(&[]).unwrap().name(), "medium");
    }

    #[test]
    fn a_target_may_have_a_name_of_its_own() {
        assert_eq!(parsed(&["--name", "big"]).unwrap().name(), "big");
        let refusal = Config::new("/".into(), 1).unwrap_err();
        assert_eq!(refusal.to_string(), "the folder / has no name that could be the target's");
    }

    #[test]
    fn the_budget_for_keys_and_values_may_be_given() {
        let expected = Config::new("models/medium".into(), 2).unwrap().with_kv_memory(Some(MemoryBudget::Percent(40)));
        assert_eq!(parsed(&["--kv-memory", "40%"]), Ok(expected));
    }

    #[test]
    fn all_that_is_wrong_is_told_together() {
        let args = ["verifier", "--model", "/", "--threads", "0", "--tree-nodes-max", "2000"];
        let refusal = Config::from_args(&Args::try_parse_from(args).unwrap(), 2).unwrap_err();
        let lines = [
            "the folder / has no name that could be the target's",
            "threads is 0, which is not between 1 and 1024",
            "tree-nodes-max is 2000, which is not between 1 and 1024",
        ];
        assert_eq!(refusal.to_string(), lines.join("\n"));
        assert_eq!(Config::new("/".into(), 0).unwrap_err().to_string(), lines[..2].join("\n"));
    }

    #[test]
    fn every_number_has_a_limit() {
        for (name, limit) in [("threads", 1024), ("sequences-max", 256), ("tree-nodes-max", 1024)] {
            for value in [0, limit + 1] {
                let refusal = parsed(&[&format!("--{name}"), &value.to_string()]).unwrap_err();
                assert_eq!(refusal.to_string(), format!("{name} is {value}, which is not between 1 and {limit}"));
            }
        }
    }
}
