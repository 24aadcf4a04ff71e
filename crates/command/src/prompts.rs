//! Prompts from a JSONL file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::CommandError;

/// Where prompts come from, and how many: `LIMIT` unless told otherwise.
#[derive(Debug, Clone, clap::Args)]
pub struct PromptArgs<const LIMIT: usize = 20> {
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, default_value_t = NonZeroUsize::new(LIMIT).unwrap_or(NonZeroUsize::MIN), value_name = "N")]
    pub limit: NonZeroUsize,
}

impl<const LIMIT: usize> PromptArgs<LIMIT> {
    /// The prompts.
    ///
    /// # Errors
    /// As for [`read`].
    pub fn read(&self) -> Result<Vec<String>, CommandError> {
        read(&self.prompts, Some(self.limit.get()))
    }
}

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A line, as far as it concerns us.
#[derive(Deserialize)]
struct Line {
    prompt: Option<String>,
    question: Option<String>,
    turns: Option<Vec<String>>,
    answer: Option<String>,
}

/// A prompt, and its answer where the file has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What is asked.
    pub prompt: String,
    /// What was answered by whoever wrote the file.
    pub answer: Option<String>,
}

impl Line {
    fn task(self) -> Option<Task> {
        let prompt = self.prompt.or(self.question).or_else(|| self.turns?.into_iter().next())?;
        Some(Task { prompt, answer: self.answer })
    }
}

/// The first `limit` prompts of a file. Empty lines are passed over.
///
/// # Errors
/// A file that cannot be read, and the first line that holds no prompt, by its number.
pub fn read(path: &Path, limit: Option<usize>) -> Result<Vec<String>, CommandError> {
    Ok(read_tasks(path, limit)?.into_iter().map(|task| task.prompt).collect())
}

/// The first `limit` prompts of a file, with their answers.
///
/// # Errors
/// As for [`read`].
pub fn read_tasks(path: &Path, limit: Option<usize>) -> Result<Vec<Task>, CommandError> {
    let unreadable = |source| CommandError::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut tasks = Vec::new();
    for line in 1.. {
        let mut text = String::new();
        let read = file.by_ref().take(LINE_BYTES_MAX).read_line(&mut text).map_err(unreadable)?;
        if read == 0 || limit.is_some_and(|limit| tasks.len() >= limit) {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        let wrong = |what| CommandError::Prompt { path: path.to_owned(), line, what };
        tasks.push(parse(&text).map_err(wrong)?);
    }
    if tasks.is_empty() {
        return Err(CommandError::NoPrompts { path: path.to_owned() });
    }
    Ok(tasks)
}

fn parse(text: &str) -> Result<Task, String> {
    if text.len() as u64 >= LINE_BYTES_MAX {
        return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
    }
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    line.task().ok_or_else(|| "the object has neither `prompt` nor `question` nor `turns`".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn prompts_go_by_three_names() {
        let file =
            file("{\"prompt\": \"a\"}\n\n{\"question\": \"b\", \"answer\": \"x\"}\n{\"turns\": [\"c\", \"d\"]}\n");
        assert_eq!(read(file.path(), None).unwrap(), ["a", "b", "c"]);
        assert_eq!(read(file.path(), Some(2)).unwrap(), ["a", "b"]);
        let answers = read_tasks(file.path(), None).unwrap().into_iter().map(|task| task.answer);
        assert!(answers.eq([None, Some("x".to_owned()), None]));
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number() {
        let broken = file("{\"prompt\": \"a\"}\n{\"prompt\": \n");
        let refusal = read(broken.path(), None).unwrap_err().to_string();
        assert!(refusal.contains("line 2: EOF while parsing"), "{refusal}");
        let other = file("{\"prompt\": \"a\"}\n\n{\"text\": \"b\"}\n");
        let refusal = read(other.path(), None).unwrap_err().to_string();
        assert!(refusal.contains("line 3: the object has neither"), "{refusal}");
    }

    #[test]
    fn a_line_beyond_the_limit_is_not_read_to_its_end() {
        let long = file(&format!("{{\"prompt\": \"{}\"}}\n", "x".repeat(LINE_BYTES_MAX as usize)));
        assert!(read(long.path(), None).unwrap_err().to_string().contains("line 1: the line is longer"));
    }

    #[test]
    fn nothing_to_ask_is_an_error() {
        let refusal = read(file("\n").path(), None).unwrap_err().to_string();
        assert!(refusal.ends_with("holds no prompts"), "{refusal}");
    }
}
