//! Over how many devices a model is shared.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use crate::config::ModelConfig;
use crate::device;
use crate::device_kind::DeviceKind;
use crate::error::{ModelError, Result};

/// So many ranks share a model, each on a device of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorParallel {
    /// As many as there are devices, but no more than can share the model.
    Auto,
    /// So many.
    Ranks(NonZeroUsize),
}

/// No number of ranks is called that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no number of ranks: it must be auto or a whole number from 1 on")]
pub struct UnknownRanks {
    found: String,
}

impl TensorParallel {
    /// Ranks for a model, from a device on.
    ///
    /// # Errors
    /// Several ranks on the processor, or a device that cannot be had.
    pub(crate) fn of(self, device: DeviceKind, config: &ModelConfig) -> Result<usize> {
        match (self, device) {
            (Self::Ranks(ranks), DeviceKind::Cpu) if ranks.get() > 1 => {
                Err(ModelError::RanksOnCpu { ranks: ranks.get() })
            }
            (Self::Ranks(ranks), _) => Ok(ranks.get()),
            (Self::Auto, DeviceKind::Cpu | DeviceKind::Candle | DeviceKind::Emulated) => Ok(1),
            (Self::Auto, DeviceKind::Cuda(first)) => {
                let devices = device::count()?.saturating_sub(first);
                Ok((1..=devices).rev().find(|ranks| device::divides(config, *ranks)).unwrap_or(1))
            }
        }
    }
}

impl Default for TensorParallel {
    fn default() -> Self {
        Self::Ranks(NonZeroUsize::MIN)
    }
}

impl fmt::Display for TensorParallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Ranks(ranks) => ranks.fmt(f),
        }
    }
}

impl FromStr for TensorParallel {
    type Err = UnknownRanks;

    fn from_str(text: &str) -> Result<Self, UnknownRanks> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Ranks).map_err(|_| UnknownRanks { found: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranks_are_a_number_or_auto() {
        for text in ["auto", "1", "8"] {
            assert_eq!(text.parse::<TensorParallel>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "two", ""] {
            let refusal = text.parse::<TensorParallel>().unwrap_err().to_string();
            assert_eq!(refusal, format!("{text:?} is no number of ranks: it must be auto or a whole number from 1 on"));
        }
    }
}
