//! `espalier completions`: what a shell has to know to complete command lines of this program.

use std::io::{Write, stdout};

use clap::Command;
use clap_complete::{Shell, generate};
use espalier_command::Verdict;

/// The options of `espalier completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell that is to complete.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `program`.
pub(crate) fn run(args: &Completions, mut program: Command) -> Verdict {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut program, name, &mut script);
    // Who has gone does not want to know.
    let _ = stdout().write_all(&script);
    Verdict::Good
}
