//! Lines that are typed, or come from elsewhere.

use std::io::{BufRead, IsTerminal, Read, stdin, stdout};
use std::sync::mpsc as standard;
use std::thread;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::sync::mpsc;

use crate::error::CliError;

/// Bytes of a line that comes from elsewhere.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What comes of asking for a line.
pub(crate) type Heard = Result<Option<String>, CliError>;

/// Where lines come from. They are waited for on a thread of their own, which may wait for ever without keeping the program
/// from its end.
pub(crate) struct Lines {
    asks: standard::Sender<String>,
    heard: mpsc::Receiver<Heard>,
    /// Whether a person types them.
    pub(crate) are_typed: bool,
}

impl Lines {
    /// Lines of standard input, edited where it is a terminal.
    pub(crate) fn open() -> Result<Self, CliError> {
        let are_typed = stdin().is_terminal() && stdout().is_terminal();
        let (asks, asked) = standard::channel::<String>();
        let (tell, heard) = mpsc::channel(1);
        let mut source =
            if are_typed { Source::Typed(Box::new(DefaultEditor::new().map_err(typed)?)) } else { Source::Given };
        let read = move || {
            for prompt in asked {
                if tell.blocking_send(source.next(&prompt)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("lines".to_owned()).spawn(read).map_err(CliError::Runtime)?;
        Ok(Self { asks, heard, are_typed })
    }

    /// The next line; none at the end.
    pub(crate) async fn next(&mut self, prompt: &str) -> Heard {
        // The thread lives as long as this does.
        let _ = self.asks.send(prompt.to_owned());
        self.heard.recv().await.unwrap_or(Ok(None))
    }
}

enum Source {
    Typed(Box<DefaultEditor>),
    Given,
}

impl Source {
    fn next(&mut self, prompt: &str) -> Heard {
        match self {
            Self::Typed(editor) => edited(editor, prompt),
            Self::Given => given(&mut stdin().lock()),
        }
    }
}

fn edited(editor: &mut DefaultEditor, prompt: &str) -> Heard {
    match editor.readline(prompt) {
        Ok(line) => {
            editor.add_history_entry(&line).map_err(typed)?;
            Ok(Some(line))
        }
        // Ctrl-C clears the line.
        Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(error) => Err(typed(error)),
    }
}

fn typed(error: ReadlineError) -> CliError {
    CliError::Terminal(std::io::Error::other(error))
}

fn given(from: &mut impl BufRead) -> Heard {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(CliError::StandardInput)?;
    if line.len() as u64 > LINE_BYTES_MAX {
        return Err(CliError::LongLine { limit: LINE_BYTES_MAX });
    }
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_come_one_by_one_and_no_longer_than_they_may_be() {
        let mut from = &b"one\n\ntwo"[..];
        let all: Vec<String> = std::iter::from_fn(|| given(&mut from).unwrap()).collect();
        assert_eq!(all, ["one\n", "\n", "two"]);
        let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
        let refusal = given(&mut &long[..]).unwrap_err().to_string();
        assert_eq!(refusal, "a line of standard input is longer than 1048576 bytes");
    }
}
