//! Documents from JSONL files: chats (`question`, `answer`), plain text (`text`) and tokens (`token_ids`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use espalier_speculation::Token;
use serde::Deserialize;

use crate::error::{Result, TrainError};

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A text to learn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Document {
    /// A user's question and the assistant's answer.
    Chat { question: String, answer: String },
    /// Plain text.
    Plain(String),
    /// A whole text as tokens, and the fingerprint of their tokenizer if it is known.
    Tokens { tokens: Vec<Token>, tokenizer: Option<String> },
}

/// A line, as far as it concerns us.
#[derive(Deserialize)]
struct Line {
    question: Option<String>,
    answer: Option<String>,
    text: Option<String>,
    token_ids: Option<Vec<Token>>,
    tokenizer: Option<String>,
}

impl TryFrom<Line> for Document {
    type Error = &'static str;

    fn try_from(line: Line) -> Result<Self, Self::Error> {
        match line {
            // Whatever else the object has says the same again.
            Line { token_ids: Some(tokens), tokenizer, .. } if !tokens.is_empty() => {
                Ok(Self::Tokens { tokens, tokenizer })
            }
            Line { token_ids: Some(_), .. } => Err("`token_ids` is empty"),
            Line { question: Some(question), answer: Some(answer), text: None, .. } => {
                Ok(Self::Chat { question, answer })
            }
            Line { question: None, answer: None, text: Some(text), .. } => Ok(Self::Plain(text)),
            Line { text: Some(_), .. } => Err("the object has `text` beside `question` or `answer`"),
            _ => Err("the object has neither `text` nor `token_ids` nor both `question` and `answer`"),
        }
    }
}

/// Hands every document of a file to `take`, with its line number. Empty lines are passed over.
///
/// # Errors
/// A file that cannot be read, the first malformed line by its number, and whatever `take` refuses.
pub(super) fn read(path: &Path, mut take: impl FnMut(usize, Document) -> Result<()>) -> Result<()> {
    let unreadable = |fault| TrainError::read(path, fault);
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    for line in 1.. {
        let mut bytes = Vec::new();
        let read = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        let malformed = |what| TrainError::Line { path: path.to_owned(), line, what };
        if !bytes.trim_ascii().is_empty() {
            take(line, parse(&bytes).map_err(malformed)?)?;
        }
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<Document, String> {
    if bytes.len() as u64 >= LINE_BYTES_MAX {
        return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
    }
    let line: Line = serde_json::from_slice(bytes).map_err(|fault| fault.to_string())?;
    Document::try_from(line).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use super::*;

    fn documents(content: &[u8]) -> Result<Vec<(usize, Document)>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut found = Vec::new();
        read(file.path(), |line, document| {
            found.push((line, document));
            Ok(())
        })?;
        Ok(found)
    }

    fn refusal(content: &[u8]) -> String {
        let fault = documents(content).unwrap_err().to_string();
        fault.split_once(", ").unwrap().1.to_owned()
    }

    #[test]
    fn chats_and_plain_texts_may_be_mixed() {
        let content = b"{\"question\": \"q\", \"answer\": \"a\", \"id\": 3}\n\n{\"text\": \"t\"}";
        let chat = Document::Chat { question: "q".to_owned(), answer: "a".to_owned() };
        assert_eq!(documents(content).unwrap(), [(1, chat), (3, Document::Plain("t".to_owned()))]);
    }

    #[test]
    fn tokens_stand_for_the_text_beside_them() {
        let content = br#"{"question": "q", "answer": "a", "token_ids": [1, 2], "tokenizer": "f"}"#;
        let tokenizer = Some("f".to_owned());
        assert_eq!(documents(content).unwrap(), [(1, Document::Tokens { tokens: vec![1, 2], tokenizer })]);
        assert_eq!(refusal(br#"{"token_ids": []}"#), "line 1: `token_ids` is empty");
        assert!(refusal(br#"{"token_ids": [-1]}"#).starts_with("line 1: invalid value: integer `-1`"));
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number() {
        assert!(refusal(b"{\"text\": \"t\"}\n\n{\"text\": \n").starts_with("line 3: EOF while parsing"));
        assert!(refusal(b"{\"text\": \"\xff\"}").starts_with("line 1: invalid unicode"));
        assert!(refusal(b"[]\n").starts_with("line 1: invalid length"));
        for lacking in ["{}", r#"{"question": "q"}"#, r#"{"answer": "a"}"#] {
            let what = "line 1: the object has neither `text` nor `token_ids` nor both `question` and `answer`";
            assert_eq!(refusal(lacking.as_bytes()), what);
        }
        let both = br#"{"question": "q", "answer": "a", "text": "t"}"#;
        assert_eq!(refusal(both), "line 1: the object has `text` beside `question` or `answer`");
    }

    #[test]
    fn a_line_beyond_the_limit_is_not_read_to_its_end() {
        let long = format!("{{\"text\": \"{}\"}}\n", "x".repeat(LINE_BYTES_MAX as usize));
        assert_eq!(refusal(long.as_bytes()), "line 1: the line is longer than 4194304 bytes");
    }
}
