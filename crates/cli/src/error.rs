//! What stops a command, and the exit code it stops with.

use std::path::PathBuf;
use std::process::ExitCode;

use espalier_client::ClientError;
use espalier_local::{LocalError, ProfilesError};
use espalier_model::ModelError;
use espalier_proto::FaultKind;
use espalier_service_kit::{ShutdownError, TelemetryError};
use espalier_speculation::{ExitError, LogitsError, PolicyError, PruningPolicy, SamplingError, StopStringError};
use espalier_text::TextError;
use espalier_trainer::TrainError;
use espalier_verifier::ConfigError;

/// Why a command did not get to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("there is no checkpoint `{name}`: neither a folder of that name nor {}", tried.display())]
    NoCheckpoint { name: String, tried: PathBuf },
    #[error("no folder of models was found; name one with --models")]
    NoModels,
    #[error("`{given}` is no drafter: expected NAME, NAME:LAYERS with at least 1 layer, `ngram` or `none`")]
    Drafter { given: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {what}", path.display())]
    Prompt { path: PathBuf, line: usize, what: String },
    #[error("{} holds no checkpoint folders", path.display())]
    NoFolders { path: PathBuf },
    #[error("{} holds no prompts", path.display())]
    NoPrompts { path: PathBuf },
    #[error("the {what} `{name}` is given twice")]
    Twice { what: &'static str, name: String },
    #[error("--drafters-each names {drafters} drafters for {targets} targets; it takes one for each")]
    DraftersEach { drafters: usize, targets: usize },
    #[error("`none` guesses nothing that could be compared with the target's text")]
    NobodyGuesses,
    #[error("drafter `{drafter}` and target `{target}` have different tokenizers")]
    Tokenizers { drafter: String, target: String },
    #[error(
        "predictor `{predictor}` was trained with a drafter of fingerprint {fingerprint}, which is none of those here"
    )]
    NoDrafterOf { predictor: String, fingerprint: String },
    #[error("drafter `{drafter}` has one exit only, so it has no thresholds to tune")]
    NoExits { drafter: String },
    #[error("drafter `{drafter}` gave up, so its pace cannot be measured")]
    DrafterLost { drafter: String },
    #[error("no answer was long enough to be timed")]
    NothingTimed,
    #[error("`{name}` is no size of a model: expected layers, hidden, heads, kv-heads, ffn or context")]
    Size { name: String },
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Exits(#[from] ExitError),
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Logits(#[from] LogitsError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Pruning(#[from] PruningPolicy),
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error(transparent)]
    StopStrings(#[from] StopStringError),
    #[error(transparent)]
    Vectors(#[from] crate::vectors::VectorsError),
    #[error(transparent)]
    Perf(#[from] crate::bench::perf::PerfError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("there is no terminal to show a screen on; --once prints a table, --json one object a reading")]
    NoTerminal,
    #[error("the terminal cannot be used")]
    Terminal(#[source] std::io::Error),
    #[error("the runtime cannot be started")]
    Runtime(#[source] std::io::Error),
}

impl CliError {
    /// 2 for what the caller can mend by asking otherwise, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let asked = match self {
            Self::Client(ClientError::Fault(fault)) => fault.kind == FaultKind::BadInput,
            Self::Client(ClientError::Connect(_)) => true,
            Self::Train(fault) => fault.is_of_the_request(),
            Self::NoCheckpoint { .. }
            | Self::NoModels
            | Self::Drafter { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Prompt { .. }
            | Self::Twice { .. }
            | Self::Size { .. }
            | Self::DraftersEach { .. }
            | Self::NobodyGuesses
            | Self::NoTerminal
            | Self::Tokenizers { .. }
            | Self::NoDrafterOf { .. }
            | Self::NoExits { .. }
            | Self::Profiles(_)
            | Self::NoFolders { .. }
            | Self::NoPrompts { .. }
            | Self::Policy(_)
            | Self::Pruning(_)
            | Self::Sampling(_)
            | Self::StopStrings(_)
            | Self::Config(_) => true,
            _ => false,
        };
        ExitCode::from(if asked { 2 } else { 1 })
    }
}
