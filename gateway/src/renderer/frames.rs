//! What a process that renders is told, and what it answers: JSON behind its length.

use std::io::{self, Read, Write};

use espalier_text::TextError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most bytes of a frame: the largest configuration of a tokenizer, each byte escaped.
const FRAME_BYTES_MAX: u32 = 128 << 20;

/// The first frame of a process: its limits hold, and it takes a template, and then conversations.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) version: String,
}

impl Ready {
    pub(super) fn of_this_program() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// What came of a conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Prompt(String),
    Refused(String),
    Failed(String),
    Syntax(String),
    Long(usize),
    NoTools,
}

impl Answer {
    pub(super) fn of_fault(fault: &TextError) -> Self {
        match fault {
            TextError::Refused { message } => Self::Refused(message.clone()),
            TextError::TemplateSyntax { fault } => Self::Syntax(fault.clone()),
            TextError::TemplateFailed { fault } => Self::Failed(fault.clone()),
            TextError::LongPrompt { limit } => Self::Long(*limit),
            TextError::NoTools => Self::NoTools,
            other => Self::Failed(other.to_string()),
        }
    }

    pub(super) fn into_prompt(self) -> Result<String, TextError> {
        Err(match self {
            Self::Prompt(prompt) => return Ok(prompt),
            Self::Refused(message) => TextError::Refused { message },
            Self::Failed(fault) => TextError::TemplateFailed { fault },
            Self::Syntax(fault) => TextError::TemplateSyntax { fault },
            Self::Long(limit) => TextError::LongPrompt { limit },
            Self::NoTools => TextError::NoTools,
        })
    }
}

pub(super) fn write(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let length = u32::try_from(json.len()).ok().filter(|&length| length <= FRAME_BYTES_MAX);
    let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&json)?;
    out.flush()
}

/// The next frame. Its bytes get memory as they come, and no more than are allowed.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut json = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut json)?;
    if json.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&json)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_cut_ones_are_errors() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Answer::Prompt("é\n".to_owned())).unwrap();
        assert_eq!(read::<Answer>(&mut &*bytes).unwrap().into_prompt().unwrap(), "é\n");
        for cut in 0..bytes.len() {
            assert_eq!(read::<Answer>(&mut &bytes[..cut]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let long = (FRAME_BYTES_MAX + 1).to_le_bytes();
        assert_eq!(read::<Answer>(&mut &long[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read::<Answer>(&mut &b"\x02\0\0\0[]"[..]).is_err());
    }
}
