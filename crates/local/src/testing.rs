//! What tests of this crate share.

use std::path::PathBuf;

use crate::args::SystemArgs;

/// A system of the models of this repository.
pub(crate) fn shipped() -> SystemArgs {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models");
    SystemArgs { models: Some(models), ..SystemArgs::default() }
}
