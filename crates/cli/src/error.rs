//! What stops a command, and the exit code it stops with.

use std::path::PathBuf;
use std::process::ExitCode;

use espalier_bench::BenchError;
use espalier_certs::{CertError, FilesError};
use espalier_client::ClientError;
use espalier_command::CommandError;
use espalier_local::{LocalError, ProfilesError};
use espalier_model::ModelError;
use espalier_proto::ApiKeyError;
use espalier_service_kit::{ConnectError, ShutdownError, TelemetryError, TlsError};
use espalier_speculation::{ConstraintLength, ExitError, StopStringError};
use espalier_text::TextError;
use espalier_trainer::TrainError;
use espalier_vectors::VectorsError;

use crate::pull::PullError;

/// Why a command did not get to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be explained", path.display())]
    Trace { path: PathBuf, source: Box<espalier_trace::TraceError> },
    #[error("there is no round {round}; the trace has {rounds}, counted from 1")]
    NoRound { round: usize, rounds: usize },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("{} does not end in `.gguf`", path.display())]
    NotGguf { path: PathBuf },
    #[error("{} is of another tokenizer than {model}'s, and would be taken for it", path.display())]
    OtherTokenizer { path: PathBuf, model: String },
    #[error("{} holds no checkpoint folders", path.display())]
    NoFolders { path: PathBuf },
    #[error("drafter `{drafter}` has one exit only, so it has no thresholds to tune")]
    NoExits { drafter: String },
    #[error("drafter `{drafter}` gave up, so its pace cannot be measured")]
    DrafterLost { drafter: String },
    #[error("no answer was long enough to be timed")]
    NothingTimed,
    #[error("`{name}` is no size of a model: expected layers, hidden, heads, kv-heads, ffn or context")]
    Size { name: String },
    #[error("{} holds no API key", path.display())]
    KeyFile { path: PathBuf, source: ApiKeyError },
    #[error("{name} holds no API key")]
    KeyVariable { name: &'static str, source: ApiKeyError },
    #[error("{url} does not say whether it takes calls: {why}")]
    Silent { url: String, why: String },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Scenario(#[from] espalier_planner::ScenarioError),
    #[error("the scenario has no target `{name}`")]
    NoTarget { name: String },
    #[error("{} is not what `espalier bench kernels --json` prints", path.display())]
    Kernels { path: PathBuf, source: serde_json::Error },
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Exits(#[from] ExitError),
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    StopStrings(#[from] StopStringError),
    #[error(transparent)]
    Constraint(#[from] ConstraintLength),
    #[error(transparent)]
    Vectors(#[from] VectorsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Cert(#[from] CertError),
    #[error(transparent)]
    CertFiles(#[from] FilesError),
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("there is no terminal to show a screen on; --once prints a table, --json one object a reading")]
    NoTerminal,
    #[error("no {what} `{name}` is served here; there are {known}")]
    NotServed { what: &'static str, name: String, known: String },
    #[error("the gateway serves no target at present")]
    NoTargets,
    #[error("{what}")]
    Order { what: String },
    #[error("a line of standard input is longer than {limit} bytes")]
    LongLine { limit: u64 },
    #[error("standard input cannot be read")]
    StandardInput(#[source] std::io::Error),
    #[error("the terminal cannot be used")]
    Terminal(#[source] std::io::Error),
    #[error("the runtime cannot be started")]
    Runtime(#[source] std::io::Error),
}

impl CliError {
    /// 2 for what the caller can mend by asking otherwise, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.is_of_the_request() { 2 } else { 1 })
    }

    fn is_of_the_request(&self) -> bool {
        match self {
            Self::Local(error) => error.is_of_the_request(),
            Self::Bench(error) => error.is_of_the_request(),
            Self::Pull(error) => error.is_of_the_request(),
            Self::Train(error) => error.is_of_the_request(),
            Self::Client(error) => error.is_of_the_request(),
            Self::Command(_)
            | Self::Read { .. }
            | Self::Trace { .. }
            | Self::NoRound { .. }
            | Self::Exists { .. }
            | Self::NotGguf { .. }
            | Self::OtherTokenizer { .. }
            | Self::NoFolders { .. }
            | Self::NoExits { .. }
            | Self::Size { .. }
            | Self::Scenario(_)
            | Self::NoTarget { .. }
            | Self::NotServed { .. }
            | Self::Order { .. }
            | Self::LongLine { .. }
            | Self::Kernels { .. }
            | Self::KeyFile { .. }
            | Self::KeyVariable { .. }
            | Self::Profiles(_)
            | Self::StopStrings(_)
            | Self::Constraint(_)
            | Self::Tls(_)
            | Self::Cert(_)
            | Self::Connect(_)
            | Self::NoTerminal => true,
            _ => false,
        }
    }
}
