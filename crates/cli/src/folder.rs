//! The options of commands that check a folder.

use std::path::PathBuf;

/// A folder to be checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Folder {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}
