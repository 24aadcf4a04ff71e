//! How much each target counts where targets share a drafter.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

/// The greatest weight.
const WEIGHT_MAX: u32 = 1000;

/// What a target counts, written `TARGET=WEIGHT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetShare {
    /// The target's name.
    pub target: Arc<str>,
    /// What it counts, beside others.
    pub weight: NonZeroU32,
}

/// Why a share cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// It does not name a target.
    #[error("`{0}` is not a target and its weight, like `medium=2`")]
    Form(String),
    /// The weight is none.
    #[error("the weight `{found}` of `{target}` is not a whole number from 1 to {WEIGHT_MAX}")]
    Weight {
        /// The target.
        target: String,
        /// What was given.
        found: String,
    },
}

impl FromStr for TargetShare {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (target, weight) = text
            .rsplit_once('=')
            .filter(|(target, _)| !target.is_empty())
            .ok_or_else(|| ShareError::Form(text.to_owned()))?;
        let read = weight.parse().ok().filter(|weight: &NonZeroU32| weight.get() <= WEIGHT_MAX);
        let weight = read.ok_or_else(|| ShareError::Weight { target: target.to_owned(), found: weight.to_owned() })?;
        Ok(Self { target: target.into(), weight })
    }
}

/// The shares that were given.
#[derive(Debug, Default)]
pub(crate) struct TargetShares(HashMap<Arc<str>, TargetShare>);

impl TargetShares {
    pub(crate) fn new(shares: &[TargetShare]) -> Self {
        Self(shares.iter().map(|given| (given.target.clone(), given.clone())).collect())
    }

    /// A target's share, of weight 1 where none was given.
    pub(crate) fn share(&self, target: &str) -> TargetShare {
        let usual = || TargetShare { target: target.into(), weight: NonZeroU32::MIN };
        self.0.get(target).cloned().unwrap_or_else(usual)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_target_counts_what_was_said_or_1() {
        let shares = TargetShares::new(&["medium=3".parse().unwrap(), "a=b=2".parse().unwrap()]);
        let weight = |target| shares.share(target).weight.get();
        assert_eq!((weight("medium"), weight("a=b"), weight("small")), (3, 2, 1));
    }

    #[test]
    fn what_is_no_weight_is_refused_with_what_was_found() {
        let refusal = |text: &str| text.parse::<TargetShare>().unwrap_err().to_string();
        for text in ["medium", "=2"] {
            assert_eq!(refusal(text), format!("`{text}` is not a target and its weight, like `medium=2`"));
        }
        for weight in ["0", "1001", "-1", "1.5", ""] {
            let expected = format!("the weight `{weight}` of `medium` is not a whole number from 1 to 1000");
            assert_eq!(refusal(&format!("medium={weight}")), expected);
        }
    }
}
