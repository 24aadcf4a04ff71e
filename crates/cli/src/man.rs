//! `espalier man`: pages for the manual, one for each command.

use std::fs;
use std::path::PathBuf;

use clap::Command;
use espalier_command::Verdict;

use crate::error::CliError;

/// The options of `espalier man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder to write to; it is made if it is not there, and pages that are there are replaced.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of `program`.
pub(crate) fn run(args: &Man, program: Command) -> Result<Verdict, CliError> {
    let failed = |source| CliError::Write { path: args.folder.clone(), source };
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(program, &args.folder).map_err(failed)?;
    Ok(Verdict::Good)
}
