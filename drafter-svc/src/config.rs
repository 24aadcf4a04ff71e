//! What the drafter is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;
use espalier_model::{Compute, ComputeConflict, DeviceKind, Quantize};
use espalier_service_kit::{Dialer, DrainArgs, Faults, MemoryBudget, MonitorArgs, TelemetryArgs, TlsArgs, Workplace};
use espalier_speculation::{ExitError, ExitThresholds};
use thiserror::Error;

use crate::allowed::{AllowedHost, AllowedHostError};
use crate::target_shares::{ShareError, TargetShare};

/// Grows candidate trees with a small model and runs the rounds.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "espalier-drafter",
    version,
    after_help = "`espalier-drafter probe [startup|ready|live]` asks the service that runs beside it how it stands."
)]
pub struct Args {
    /// The drafter's folder: a checkpoint in Hugging Face format, or what `espalier train` made for a target.
    #[arg(long, env = "ESPALIER_DRAFTER_MODEL")]
    pub model: PathBuf,
    /// The target's checkpoint, for a drafter that shares its layers.
    #[arg(long, env = "ESPALIER_DRAFTER_TARGET_MODEL", value_name = "DIR")]
    pub target_model: Option<PathBuf>,
    /// Draft with only the first so many layers of the checkpoint. A drafter with several exits then answers after them
    /// alone, unless thresholds are given.
    #[arg(long, env = "ESPALIER_DRAFTER_LAYERS", value_name = "N")]
    pub layers: Option<usize>,
    /// The least confidence at which each exit but the last answers, for a drafter with several. Without it the drafter
    /// finds out what suits each target while it serves, unless a gateway's profile says it.
    #[arg(long, env = "ESPALIER_DRAFTER_THRESHOLDS", value_name = "X,X…")]
    pub thresholds: Option<String>,
    /// Predictors of acceptance, as `espalier train cali-ts` makes them for this drafter and a target: one for each target
    /// at most. Sequences under the policy `cali-ts` make use of them.
    #[arg(long = "predictor", env = "ESPALIER_DRAFTER_PREDICTORS", value_delimiter = ',', value_name = "DIR[,DIR…]")]
    pub predictors: Vec<PathBuf>,
    /// The drafter's name; the folder's when absent, with the number of layers if it is cut.
    #[arg(long, env = "ESPALIER_DRAFTER_NAME")]
    pub name: Option<String>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, env = "ESPALIER_DRAFTER_LISTEN", default_value = "127.0.0.1:50061")]
    pub listen: SocketAddr,
    /// Threads that compute.
    #[arg(long, env = "ESPALIER_DRAFTER_THREADS", default_value_t = default_threads())]
    pub threads: NonZeroUsize,
    /// Most sequences served at once; more are refused with a hint when to come again.
    #[arg(long, env = "ESPALIER_DRAFTER_SEQUENCES_MAX", default_value_t = Config::SEQUENCES_MAX)]
    pub sequences_max: NonZeroUsize,
    /// What targets count where several want to be drafted for at once, with names as the verifiers give them; 1 each unless
    /// told otherwise. At most 1000.
    #[arg(
        long = "weight",
        env = "ESPALIER_DRAFTER_WEIGHTS",
        value_delimiter = ',',
        value_name = "TARGET=N[,TARGET=N…]"
    )]
    pub weights: Vec<String>,
    /// Memory for keys and values, like `512MiB`, or `80%` of what is free on machine or device once weights are loaded;
    /// sequences that it has no room for are refused. When absent, enough for as many full contexts as sequences, but at
    /// most half of what is free.
    #[arg(long, env = "ESPALIER_DRAFTER_KV_MEMORY", value_name = "BYTES|PERCENT")]
    pub kv_memory: Option<MemoryBudget>,
    /// What matrices are multiplied in, which changes no text: `f32`; `bf16` or `bf16-dot`, weights and inputs rounded to
    /// that; `int8`, both rounded to 8 bits; `int8-q4`, weights to 4; `draft`, `int8-q4` for files of 4 bits and `int8` for
    /// all else; `stored`, the same but `f32` for floats; or `auto`, for floats of 16 bits what this processor has
    /// instructions for.
    #[arg(long, env = "ESPALIER_DRAFTER_COMPUTE", default_value_t = Compute::Draft, value_name = "ARITHMETIC")]
    pub compute: Compute,
    /// Where the model runs: `cpu`; `cuda` or `cuda:N`, an NVIDIA GPU, if the program was built for it; or `candle`, what
    /// runs on GPUs on the processor, to try it.
    #[arg(long, env = "ESPALIER_DRAFTER_DEVICE", default_value_t, value_name = "DEVICE")]
    pub device: DeviceKind,
    /// Round weights to `q8` or `q4` at load, to be multiplied in `int8`.
    #[arg(long, env = "ESPALIER_DRAFTER_QUANTIZE", value_name = "BITS")]
    pub quantize: Option<Quantize>,
    /// Hosts that verifiers may be on: an IP address, a range of them like `10.0.0.0/8`, or a name; a sequence for any other
    /// is refused. When absent, any host.
    #[arg(
        long = "allow-verifiers",
        env = "ESPALIER_DRAFTER_ALLOW_VERIFIERS",
        value_delimiter = ',',
        value_name = "HOST[,HOST…]"
    )]
    pub allow_verifiers: Vec<String>,
    /// What is under TLS
    #[command(flatten)]
    pub tls: TlsArgs,
    /// How it ends
    #[command(flatten)]
    pub drain: DrainArgs,
    /// Logs and traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// The port for scrapers and probes
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

/// One thread for each core.
fn default_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// All that is wrong with a configuration.
pub type ConfigError = Faults<ConfigFault>;

/// An argument that is wrong.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigFault {
    /// Weights are to be rounded for another arithmetic.
    #[error(transparent)]
    Compute(#[from] ComputeConflict),
    /// A drafter without layers.
    #[error("layers is 0, but a drafter has at least 1")]
    NoLayers,
    /// Thresholds that no drafter has.
    #[error(transparent)]
    Thresholds(#[from] ExitError),
    /// What verifiers are allowed on is no host.
    #[error(transparent)]
    AllowedHost(#[from] AllowedHostError),
    /// The share of a target is none.
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// A drafter's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The drafter's folder.
    pub model: PathBuf,
    /// The target's checkpoint, where the drafter shares its layers.
    pub target_model: Option<PathBuf>,
    /// Layers to use; all when none.
    pub layers: Option<usize>,
    /// The least confidence at which each exit but the last answers, with commas between them; tuned for each target when none.
    pub thresholds: Option<String>,
    /// Folders of predictors of its acceptance, one for each target at most.
    pub predictors: Vec<PathBuf>,
    /// The drafter's name.
    pub name: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Threads that compute.
    pub threads: NonZeroUsize,
    /// Most sequences served at once.
    pub sequences_max: NonZeroUsize,
    /// What targets count where several want to be drafted for at once, if not 1.
    pub shares: Vec<TargetShare>,
    /// Hosts that verifiers may be on; any if empty.
    pub allow_verifiers: Vec<AllowedHost>,
    /// How verifiers are connected to; in the clear unless told otherwise.
    pub dialer: Dialer,
    /// The budget for keys and values; what suits model and machine when none.
    pub kv_memory: Option<MemoryBudget>,
    /// What matrices are multiplied in.
    pub compute: Compute,
    /// Where the model runs.
    pub device: DeviceKind,
    /// Where the engine takes its turns.
    pub workplace: Workplace,
}

impl Config {
    /// Sequences served at once unless told otherwise.
    pub const SEQUENCES_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

    /// The usual configuration of the drafter in a folder, or of its first `layers` layers, with so many threads, on a
    /// free port of this machine.
    pub fn new(model: PathBuf, layers: Option<usize>, threads: NonZeroUsize) -> Self {
        Self {
            name: Self::default_name(&model, layers),
            model,
            target_model: None,
            layers,
            thresholds: None,
            predictors: Vec::new(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads,
            sequences_max: Self::SEQUENCES_MAX,
            shares: Vec::new(),
            allow_verifiers: Vec::new(),
            dialer: Dialer::default(),
            kv_memory: None,
            compute: Compute::Draft,
            device: DeviceKind::default(),
            workplace: Workplace::default(),
        }
    }

    /// What the arguments mean.
    ///
    /// # Errors
    /// [`ConfigError`] quotes every argument that is wrong.
    pub fn from_args(args: &Args) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        let layers = faults.sift(check_layers(args.layers));
        let thresholds = faults.sift(args.thresholds.as_deref().map(check_thresholds).transpose());
        let compute = faults.sift(args.compute.quantized(args.quantize));
        let shares = faults.sift_all(args.weights.iter().map(|weight| weight.parse::<TargetShare>()));
        let allow_verifiers = faults.sift_all(args.allow_verifiers.iter().map(|host| host.parse::<AllowedHost>()));
        let name = args.name.clone().unwrap_or_else(|| Self::default_name(&args.model, args.layers));
        faults.finish(|| {
            Some(Self {
                name,
                target_model: args.target_model.clone(),
                thresholds: thresholds?,
                predictors: args.predictors.clone(),
                listen: args.listen,
                sequences_max: args.sequences_max,
                shares,
                allow_verifiers,
                kv_memory: args.kv_memory,
                compute: compute?,
                device: args.device,
                ..Self::new(args.model.clone(), layers?, args.threads)
            })
        })
    }

    /// The name of a drafter made of the first `layers` layers of the checkpoint in `model`.
    pub fn default_name(model: &std::path::Path, layers: Option<usize>) -> String {
        let name = espalier_model::model_name(model).unwrap_or("drafter");
        match layers {
            Some(layers) => format!("{name}-{layers}"),
            None => name.to_owned(),
        }
    }
}

/// Whether there are layers to draft with.
fn check_layers(layers: Option<usize>) -> Result<Option<usize>, ConfigFault> {
    if layers == Some(0) { Err(ConfigFault::NoLayers) } else { Ok(layers) }
}

/// Whether a text can be the thresholds of some drafter. Of which one, its model alone says.
fn check_thresholds(text: &str) -> Result<String, ExitError> {
    let exits = 1 + text.split(',').filter(|_| !text.trim().is_empty()).count();
    ExitThresholds::parse(text, exits).map(|_| text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_drafter_is_named_after_its_folder_and_depth() {
        let parse = |args: &[&str]| {
            Config::from_args(&Args::try_parse_from([&["espalier-drafter"], args].concat()).unwrap()).unwrap()
        };
        assert_eq!(parse(&["--model", "models/small"]).name, "small");
        assert_eq!(parse(&["--model", "models/small", "--layers", "3"]).name, "small-3");
        assert_eq!(parse(&["--model", "models/small", "--name", "d"]).name, "d");
    }

    #[test]
    fn predictors_are_several() {
        let given = ["espalier-drafter", "--model", "m", "--predictor", "a,b", "--predictor", "c"];
        let config = Config::from_args(&Args::try_parse_from(given).unwrap()).unwrap();
        assert_eq!(config.predictors, ["a", "b", "c"].map(PathBuf::from));
    }

    #[test]
    fn all_that_is_wrong_is_told_together() {
        let given = |args: &[&str]| {
            let args = [&["espalier-drafter", "--model", "m"], args].concat();
            Config::from_args(&Args::try_parse_from(args).unwrap()).map_err(|faults| faults.to_string())
        };
        let wrong =
            given(&["--layers", "0", "--thresholds", "0.5,high", "--weight", "medium=2,small", "--weight", "a=0"]);
        let lines = [
            "layers is 0, but a drafter has at least 1",
            "`high` is not a threshold",
            "`small` is not a target and its weight, like `medium=2`",
            "the weight `0` of `a` is not a whole number from 1 to 1000",
        ];
        assert_eq!(wrong.unwrap_err(), lines.join("\n"));
        let right = given(&["--thresholds", "", "--weight", "medium=2"]).unwrap();
        assert_eq!((right.thresholds.as_deref(), right.shares.len()), (Some(""), 1));
    }

    #[test]
    fn zero_threads_are_refused() {
        assert!(Args::try_parse_from(["espalier-drafter", "--model", "m", "--threads", "0"]).is_err());
    }
}
