//! What happened when, in a file.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lines with the seconds since the beginning.
pub(crate) struct Timeline {
    begun: Instant,
    file: Mutex<File>,
}

impl Timeline {
    /// An empty one, in a folder of logs.
    pub(crate) fn new(logs: &Path) -> Self {
        Self { begun: Instant::now(), file: Mutex::new(File::create(logs.join("timeline.log")).unwrap()) }
    }

    /// Adds a line.
    pub(crate) fn note(&self, what: impl Display) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{:8.3} {what}", self.begun.elapsed().as_secs_f64()).unwrap();
    }
}
