//! What a command found.

use std::process::ExitCode;

/// What a command that judges something found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All is as it should be.
    Good,
    /// Something is not: exit code 1.
    Bad,
    /// It was told to stop before its end: exit code 130, as of a shell's child that SIGINT ended.
    Interrupted,
}

impl From<bool> for Verdict {
    fn from(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::SUCCESS,
            Verdict::Bad => Self::FAILURE,
            Verdict::Interrupted => Self::from(130),
        }
    }
}
