//! Checks that several fields share.

use super::fault::ConfigFault;

/// Most positions of a model.
pub(super) const CONTEXT_MAX: usize = 1 << 24;

/// A required dimension between 1 and `max`.
pub(super) fn dimension(field: &'static str, value: Option<usize>, max: usize) -> Result<usize, ConfigFault> {
    let found = value.ok_or(ConfigFault::Missing { field })?;
    in_range(field, found as f64, 1.0, max as f64).map(|_| found)
}

pub(super) fn in_range(field: &'static str, found: f64, min: f64, max: f64) -> Result<f64, ConfigFault> {
    if (min..=max).contains(&found) { Ok(found) } else { Err(ConfigFault::Range { field, found, min, max }) }
}

pub(super) fn multiple(field: &'static str, found: usize, of: &'static str, divisor: usize) -> Result<(), ConfigFault> {
    if found.is_multiple_of(divisor) { Ok(()) } else { Err(ConfigFault::Divisible { field, found, of, divisor }) }
}
