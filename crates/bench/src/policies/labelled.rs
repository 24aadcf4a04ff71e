//! Prompt files under labels, as in the papers' tables: `gsm8k=data/test.jsonl`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use espalier_command::prompts;
use espalier_local::unique;

use crate::error::BenchError;

/// A file of prompts and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labelled {
    label: String,
    path: PathBuf,
}

impl FromStr for Labelled {
    type Err = Infallible;

    /// Reads `LABEL=PATH`; a path alone is labelled by the file's name without its ending. What stands before a `=` is
    /// no label if it is empty or holds a `/`.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        if let Some((label, path)) = text.split_once('=').filter(|(label, _)| is_label(label)) {
            return Ok(Self { label: label.to_owned(), path: path.into() });
        }
        let path = PathBuf::from(text);
        let label = path.file_stem().map_or_else(|| text.into(), |stem| stem.to_string_lossy()).into_owned();
        Ok(Self { label, path })
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// The prompts of a label.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) label: String,
    pub(super) prompts: Vec<String>,
}

/// The first `limit` prompts of each file.
///
/// # Errors
/// A label that two files share, and what [`prompts::read`] refuses.
pub(super) fn read(files: &[Labelled], limit: usize) -> Result<Vec<Group>, BenchError> {
    unique("label", files.iter().map(|file| file.label.as_str()))?;
    let group = |file: &Labelled| {
        let prompts = prompts::read(&file.path, Some(limit))?;
        Ok(Group { label: file.label.clone(), prompts })
    };
    files.iter().map(group).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, PathBuf) {
        let Labelled { label, path } = text.parse().unwrap();
        (label, path)
    }

    #[test]
    fn a_file_has_the_label_it_is_given() {
        assert_eq!(parse("gsm8k=data/test.jsonl"), ("gsm8k".to_owned(), "data/test.jsonl".into()));
        assert_eq!(parse("a=b=c.jsonl"), ("a".to_owned(), "b=c.jsonl".into()));
    }

    #[test]
    fn without_one_it_is_called_by_its_name() {
        assert_eq!(parse("data/test.jsonl"), ("test".to_owned(), "data/test.jsonl".into()));
        assert_eq!(parse("problems"), ("problems".to_owned(), "problems".into()));
        assert_eq!(parse("data/k=5.jsonl"), ("k=5".to_owned(), "data/k=5.jsonl".into()));
        assert_eq!(parse("=x.jsonl"), ("=x".to_owned(), "=x.jsonl".into()));
    }

    #[test]
    fn two_files_cannot_share_a_label() {
        let files = ["a/test.jsonl", "b/test.jsonl"].map(|text| text.parse().unwrap());
        assert_eq!(read(&files, 1).unwrap_err().to_string(), "the label `test` is given twice");
    }
}
