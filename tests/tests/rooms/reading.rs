//! The way through one round that `docs/ARCHITECTURE.md` shows to those who read the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most files that one has to read to understand a round.
const FILES_MAX: usize = 20;

/// The line before the list.
const INTRODUCTION: &str = "The files of one round, in the order to read them:";

/// What is wrong with the list of a page, whose links lead from `docs` to files of the workspace at `root`.
pub(crate) fn faults(page: &str, root: &Path) -> Vec<String> {
    let files: Vec<&str> = listed(page).collect();
    let distinct: BTreeSet<&str> = files.iter().copied().collect();
    let counted = (files.is_empty() || files.len() > FILES_MAX).then(|| format!("{} files are listed", files.len()));
    let twice = (distinct.len() < files.len()).then(|| "a file is listed twice".to_owned());
    let gone = files.iter().filter(|file| !path(root, file).is_file()).map(|file| format!("there is no {file}"));
    counted.into_iter().chain(twice).chain(gone).collect()
}

fn path(root: &Path, file: &str) -> PathBuf {
    root.join("docs").join(file)
}

/// Where the links of the numbered list lead.
fn listed(page: &str) -> impl Iterator<Item = &str> {
    let list = page.split_once(INTRODUCTION).map_or("", |(_, rest)| rest.trim_start());
    let entries = list.lines().take_while(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    entries.map(|line| line.split_once("](").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(file, _)| file))
}
