//! What stops a command, and the exit code it stops with.

use std::path::PathBuf;
use std::process::ExitCode;

use espalier_drafter::DrafterError;
use espalier_gateway::GatewayError;
use espalier_model::ModelError;
use espalier_proto::{Fault, FaultKind, WireError};
use espalier_service_kit::{ConnectError, ServeError, ShutdownError, TelemetryError};
use espalier_speculation::{PolicyError, SamplingError};
use espalier_verifier::{ConfigError, LoadError, VerifierError};

/// Why a command did not get to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{0}")]
    Fault(Fault),
    #[error("there is no checkpoint `{name}`: neither a folder of that name nor {}", tried.display())]
    NoCheckpoint { name: String, tried: PathBuf },
    #[error("no folder of models was found; name one with --models")]
    NoModels,
    #[error("`{given}` is no drafter: expected NAME, NAME:LAYERS with at least 1 layer, `ngram` or `none`")]
    Drafter { given: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {what}", path.display())]
    Prompt { path: PathBuf, line: usize, what: String },
    #[error("{} holds no prompts", path.display())]
    NoPrompts { path: PathBuf },
    #[error("the answer ended before it was finished")]
    Cut,
    #[error("the gateway answered with what makes no sense")]
    Wire(#[from] WireError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{name} cannot be loaded")]
    Load { name: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error(transparent)]
    Vectors(#[from] crate::vectors::VectorsError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    VerifierLoad(#[from] LoadError),
    #[error(transparent)]
    Verifier(#[from] VerifierError),
    #[error(transparent)]
    DrafterService(#[from] DrafterError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("a task of this program broke")]
    Task(#[from] tokio::task::JoinError),
    #[error("the runtime cannot be started")]
    Runtime(#[source] std::io::Error),
}

impl From<Fault> for CliError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl CliError {
    /// 2 for what the caller can mend by asking otherwise, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let asked = match self {
            Self::Fault(fault) => fault.kind == FaultKind::BadInput,
            Self::NoCheckpoint { .. }
            | Self::NoModels
            | Self::Drafter { .. }
            | Self::Read { .. }
            | Self::Prompt { .. }
            | Self::NoPrompts { .. }
            | Self::Connect(_)
            | Self::Policy(_)
            | Self::Sampling(_)
            | Self::Config(_) => true,
            _ => false,
        };
        ExitCode::from(if asked { 2 } else { 1 })
    }
}
