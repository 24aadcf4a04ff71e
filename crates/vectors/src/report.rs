//! How the cases of a folder went.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// How the cases of a folder went, file by file.
#[derive(Debug, Default)]
pub struct Report {
    /// The files in the order of their names.
    pub files: Vec<FileReport>,
}

/// How the cases of one file went.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// The file's name without its ending.
    pub file: String,
    /// Cases that gave what was expected.
    pub passed: usize,
    /// Cases that gave something else.
    pub failed: Vec<Failure>,
    /// Cases about what this build does not have.
    pub skipped: usize,
}

/// A case that gave something else than expected.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// The case's id.
    pub case: String,
    /// What was found and what was expected.
    pub fault: String,
}

impl Report {
    /// Cases that gave what was expected.
    pub fn passed(&self) -> usize {
        self.files.iter().map(|file| file.passed).sum()
    }

    /// Cases that gave something else.
    pub fn failed(&self) -> usize {
        self.files.iter().map(|file| file.failed.len()).sum()
    }

    /// Cases about what this build does not have.
    pub fn skipped(&self) -> usize {
        self.files.iter().map(|file| file.skipped).sum()
    }
}

/// A line for each file and failed case, and `N passed, M failed, K skipped` in cases.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{file}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed(), self.failed(), self.skipped())
    }
}

impl Display for FileReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.skipped > 0 {
            return write!(f, "{} skipped, not built yet", self.skipped);
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed.len())?;
        self.failed.iter().try_for_each(|Failure { case, fault }| write!(f, "\n  {case}: {fault}"))
    }
}
