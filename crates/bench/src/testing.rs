//! What tests of this crate share.

use std::path::PathBuf;

use clap::{Args, Parser};
use espalier_local::SystemArgs;

/// A system of the models of this repository.
pub(crate) fn shipped() -> SystemArgs {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models");
    SystemArgs { models: Some(models), ..SystemArgs::default() }
}

/// A command with nothing but these options.
#[derive(Parser)]
struct Line<T: Args> {
    #[command(flatten)]
    options: T,
}

/// A command's options from these flags.
pub(crate) fn parsed<T: Args>(flags: &[&str]) -> T {
    Line::parse_from(["command"].iter().chain(flags)).options
}
