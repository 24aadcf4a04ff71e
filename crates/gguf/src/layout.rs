//! Where tensors lie in a file.

use std::ops::Range;

use crate::error::{GgufError, Result};
use crate::limits::ALIGNMENT_MAX;
use crate::listing::Listing;
use crate::metadata::Metadata;

const ALIGNMENT_KEY: &str = "general.alignment";
const ALIGNMENT_DEFAULT: u32 = 32;

/// The part of a file that holds the tensors.
pub(crate) struct Data {
    /// Where it begins in the file.
    start: u64,
    /// Its bytes.
    length: u64,
    alignment: u64,
}

impl Data {
    /// The data of a file of `file` bytes whose header ends at `header_end`.
    pub(crate) fn after(header_end: u64, file: u64, metadata: &Metadata) -> Result<Self> {
        let alignment = alignment(metadata)?;
        let start = header_end.next_multiple_of(alignment);
        Ok(Self { start, length: file.saturating_sub(start), alignment })
    }

    /// The bytes of the file in which a tensor lies.
    pub(crate) fn place(&self, listing: &Listing<'_>) -> Result<Range<usize>> {
        let &Listing { name, offset, bytes, .. } = listing;
        if !offset.is_multiple_of(self.alignment) {
            return Err(GgufError::Misaligned { name: name.to_owned(), offset, alignment: self.alignment });
        }
        let fault = || GgufError::OutOfFile { name: name.to_owned(), bytes, offset, limit: self.length };
        let end = offset.checked_add(bytes).filter(|&end| end <= self.length).ok_or_else(fault)?;
        let in_file = |at: u64| self.start.checked_add(at).and_then(|at| usize::try_from(at).ok()).ok_or_else(fault);
        Ok(in_file(offset)?..in_file(end)?)
    }
}

/// Refuses tensors that share bytes.
pub(crate) fn check_apart<'a>(tensors: impl Iterator<Item = (&'a str, &'a Range<usize>)>) -> Result<()> {
    let mut tensors: Vec<_> = tensors.collect();
    tensors.sort_unstable_by_key(|(_, range)| range.start);
    for (before, after) in tensors.iter().zip(tensors.iter().skip(1)) {
        let (start, end) = (after.1.start as u64, before.1.end as u64);
        if start < end {
            return Err(GgufError::Overlap { name: after.0.to_owned(), start, before: before.0.to_owned(), end });
        }
    }
    Ok(())
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    let found = metadata.optional(ALIGNMENT_KEY)?.unwrap_or(ALIGNMENT_DEFAULT);
    if !found.is_power_of_two() || found > ALIGNMENT_MAX {
        return Err(GgufError::Alignment { found, limit: ALIGNMENT_MAX });
    }
    Ok(found.into())
}
