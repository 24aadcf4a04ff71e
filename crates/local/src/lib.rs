//! A whole system in one process: verifiers, drafters and the gateway on their own ports, over real gRPC.
//!
//! What the command line starts and the end-to-end tests test. The services are the very ones of the separate
//! programs; only the process is shared, and the threads that models compute with. [`SystemArgs`] and the names of
//! targets and drafters make a [`Plan`], and a plan makes a [`System`].

mod args;
mod error;
mod models;
mod plan;
mod predictors;
mod profiles;
mod system;
#[cfg(test)]
mod testing;
mod unique;

pub use args::{SystemArgs, processors};
pub use error::LocalError;
pub use espalier_gateway::{
    Config as GatewayConfig, KEYS_BYTES_MAX, LockArgs, Occupancy, Profiles, ProfilesError, Renderer, count_keys,
    render_chat_templates,
};
pub use espalier_service_kit::Role;
pub use models::{
    DEFAULT_DRAFTER, DEFAULT_TARGETS, DrafterChoice, FoundBy, ModelsFolder, checkpoint, models_folder, models_home,
    shared_target,
};
pub use plan::{ANY_PORT, Plan, SEQUENCES_MAX};
pub use system::{Address, Progress, SideGateway, System};
pub use unique::{Twice, unique};
