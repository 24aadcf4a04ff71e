//! What a program says to whoever started it. A disk that is full, or a reader that has gone, is no reason to end.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::chain::chain;

/// Says on standard output that the program is ready.
pub fn ready(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Says on standard error why `program` ends, and what it ends with.
pub fn failed(program: &str, error: &dyn Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "{program}: {}", chain(error));
    ExitCode::FAILURE
}
