//! Which promise verification keeps: the text, or its distribution.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// How drafted tokens are accepted above temperature 0. At temperature 0 there is nothing to draw: both are greedy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Acceptance {
    /// A token survives if it is what the target decides, with noise that the drafter shares. The text depends on the
    /// seed, and not on what was drafted.
    #[default]
    Coupled,
    /// A token drawn from the draft distribution `q` survives with probability `min(1, p/q)`. The text has the target's
    /// distribution `p`; which text it is depends on the drafter and its policy too.
    Rejection,
}

/// A name that stands for no acceptance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown acceptance `{found}`; there are {} and {}", Acceptance::Coupled, Acceptance::Rejection)]
pub struct UnknownAcceptance {
    /// The name found.
    pub found: String,
}

impl Display for Acceptance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coupled => "coupled",
            Self::Rejection => "rejection",
        })
    }
}

impl FromStr for Acceptance {
    type Err = UnknownAcceptance;

    fn from_str(text: &str) -> Result<Self, UnknownAcceptance> {
        let known = [Self::Coupled, Self::Rejection].into_iter().find(|acceptance| acceptance.to_string() == text);
        known.ok_or_else(|| UnknownAcceptance { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for acceptance in [Acceptance::Coupled, Acceptance::Rejection] {
            assert_eq!(acceptance.to_string().parse(), Ok(acceptance));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let error = "typical".parse::<Acceptance>().map_err(|error| error.to_string());
        assert_eq!(error, Err("unknown acceptance `typical`; there are coupled and rejection".to_owned()));
    }
}
