//! Bounds of what may be asked for.

use clap::builder::RangedU64ValueParser;

/// The most requests at once, or slots: as many as a verifier serves.
pub(crate) const AT_ONCE_MAX: usize = espalier_verifier::SEQUENCES_LIMIT;

/// Reads a number of requests at once, or of slots.
pub(crate) fn at_once() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=AT_ONCE_MAX as u64)
}
