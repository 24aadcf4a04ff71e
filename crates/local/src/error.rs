//! Why there is no system, or what one ended with.

use std::path::PathBuf;

use espalier_drafter::DrafterError;
use espalier_gateway::ProfilesError;
use espalier_model::ModelError;
use espalier_service_kit::ServeError;
use espalier_verifier::LoadError;
use tokio::task::JoinError;

use crate::unique::Twice;

/// Why a system did not start, or what it ended with.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// An address cannot be had, or a server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A target cannot be loaded.
    #[error("the target {name} cannot be loaded")]
    Target {
        /// The target's name.
        name: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// The drafter cannot be loaded, or failed.
    #[error(transparent)]
    Drafter(#[from] DrafterError),
    /// A verifier failed.
    #[error(transparent)]
    Verifier(#[from] espalier_verifier::ServiceError),
    /// The gateway's configuration is wrong.
    #[error(transparent)]
    Config(#[from] espalier_gateway::ConfigError),
    /// Weights are to be rounded for another arithmetic.
    #[error(transparent)]
    Compute(#[from] espalier_model::ComputeConflict),
    /// A service broke.
    #[error("a service of this process broke")]
    Task(#[from] JoinError),
    /// A name stands for no checkpoint.
    #[error("there is no checkpoint `{name}`: neither a folder of that name nor {}", tried.display())]
    NoCheckpoint {
        /// The name.
        name: String,
        /// Where it would be in the folder of models.
        tried: PathBuf,
    },
    /// There is no folder of models.
    #[error(
        "there is no folder of models in any of {}; name one with --models, or fetch a checkpoint with `espalier pull URL`",
        listed(tried)
    )]
    NoModels {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// A text stands for no drafter.
    #[error("`{given}` is no drafter: expected NAME, NAME:LAYERS with at least 1 layer, `ngram` or `none`")]
    NoDrafter {
        /// The text.
        given: String,
    },
    /// Two things are called by one name.
    #[error(transparent)]
    Twice(#[from] Twice),
    /// A folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A predictor belongs to none of the drafters.
    #[error(
        "predictor `{predictor}` was trained with a drafter of fingerprint {fingerprint}, which is none of those here"
    )]
    NoDrafterOf {
        /// The predictor.
        predictor: String,
        /// The fingerprint of its drafter.
        fingerprint: String,
    },
    /// A file of profiles cannot be used.
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    /// A checkpoint cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A verifier's configuration is wrong.
    #[error(transparent)]
    VerifierConfig(#[from] espalier_verifier::ConfigError),
}

impl LocalError {
    /// Whether the caller can mend it by asking otherwise.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            Self::NoCheckpoint { .. }
            | Self::NoModels { .. }
            | Self::NoDrafter { .. }
            | Self::Twice(_)
            | Self::Read { .. }
            | Self::NoDrafterOf { .. }
            | Self::Profiles(_)
            | Self::Compute(_)
            | Self::VerifierConfig(_) => true,
            Self::Serve(_)
            | Self::Target { .. }
            | Self::Drafter(_)
            | Self::Verifier(_)
            | Self::Config(_)
            | Self::Task(_)
            | Self::Model(_) => false,
        }
    }
}

/// Paths with commas between them; those in the working directory begin with a dot.
fn listed(paths: &[PathBuf]) -> String {
    let shown = |path: &PathBuf| match path.is_relative() {
        true => format!("./{}", path.display()),
        false => path.display().to_string(),
    };
    paths.iter().map(shown).collect::<Vec<_>>().join(", ")
}
