//! Reading from front to back. Nothing is taken that is not there.

use std::fmt::Display;

use crate::error::{GgufError, Result};

/// What is left of a file. Each step says what it reads, for the message if it cannot.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

/// What a count is held against before anything is allocated for it.
pub(crate) struct CountLimit {
    /// The largest count that is read.
    pub(crate) max: u64,
    /// Bytes in the file that each of what is counted takes at least.
    pub(crate) bytes_each: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.rest.len() as u64
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &dyn Display) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.truncated(N as u64, field))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u32(&mut self, field: &dyn Display) -> Result<u32> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &dyn Display) -> Result<u64> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, length: u64, field: &dyn Display) -> Result<&'a [u8]> {
        let at = usize::try_from(length).ok();
        let (head, rest) =
            at.and_then(|at| self.rest.split_at_checked(at)).ok_or_else(|| self.truncated(length, field))?;
        self.rest = rest;
        Ok(head)
    }

    /// A number of things that follow.
    pub(crate) fn count(&mut self, limit: &CountLimit, field: &dyn Display) -> Result<usize> {
        let found = self.u64(field)?;
        within(found, limit.max, field)?;
        let needed = found.saturating_mul(limit.bytes_each);
        if needed > self.left() {
            return Err(self.truncated(needed, &format_args!("{field} is {found}, which")));
        }
        usize::try_from(found).map_err(|_| self.truncated(needed, field))
    }

    /// A text of at most `limit` bytes.
    pub(crate) fn string(&mut self, limit: u64, field: &dyn Display) -> Result<&'a str> {
        let length = Length(field);
        let bytes = self.u64(&length)?;
        within(bytes, limit, &length)?;
        let text = self.bytes(bytes, field)?;
        std::str::from_utf8(text)
            .map_err(|fault| GgufError::Utf8 { field: field.to_string(), valid: fault.valid_up_to() as u64 })
    }

    fn truncated(&self, needed: u64, field: &dyn Display) -> GgufError {
        GgufError::Truncated { field: field.to_string(), needed, left: self.left() }
    }
}

fn within(found: u64, limit: u64, field: &dyn Display) -> Result<()> {
    if found <= limit { Ok(()) } else { Err(GgufError::Limit { field: field.to_string(), found, limit }) }
}

/// How the length of a field is called.
struct Length<'a>(&'a dyn Display);

impl Display for Length<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the length of {}", self.0)
    }
}
