//! Early exits of one drafter with several (S2D, "Sorted Speculative Decoding", adaptive draft selection): a node runs
//! to the first exit, and deeper only while the confidence there is below that exit's threshold.
//!
//! Thresholds belong to the target, not to the drafter: what a wrong token costs grows with the target.

use std::fmt::{self, Display, Formatter};

/// Most exits that a drafter may have.
pub const EXITS_MAX: usize = 64;

/// Why thresholds were refused, or nothing could be decided by them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExitError {
    /// A number of exits that no drafter has.
    #[error("a drafter cannot have {found} exits, only 1 to {EXITS_MAX}")]
    Exits {
        /// Exits asked for.
        found: usize,
    },
    /// There must be one threshold for each exit but the last.
    #[error("{found} thresholds were given for {exits} exits, which take {}", exits - 1)]
    Count {
        /// Exits of the drafter.
        exits: usize,
        /// Thresholds given.
        found: usize,
    },
    /// A threshold that is not a probability.
    #[error("the threshold of exit {exit} is {found}, which is not between 0 and 1")]
    Threshold {
        /// The exit, counted from 0.
        exit: usize,
        /// Its threshold.
        found: f64,
    },
    /// A text that is no number.
    #[error("`{found}` is not a threshold")]
    Text {
        /// The text found.
        found: String,
    },
    /// An exit that the drafter does not have.
    #[error("exit {exit} was asked about, but there are only {exits}")]
    NoSuchExit {
        /// The exit, counted from 0.
        exit: usize,
        /// Exits of the drafter.
        exits: usize,
    },
    /// A confidence that is not a probability.
    #[error("the confidence at exit {exit} is {found}, which is not between 0 and 1")]
    Confidence {
        /// The exit, counted from 0.
        exit: usize,
        /// The confidence.
        found: f64,
    },
}

/// The least confidence at which each exit but the last answers; valid by construction.
///
/// [`Display`] writes what [`Self::parse`] reads back.
#[derive(Debug, Clone, PartialEq)]
pub struct ExitThresholds(Vec<f64>);

impl ExitThresholds {
    /// `thresholds[i]` in [0, 1] is that of exit `i`; the last of the `exits` has none.
    ///
    /// # Errors
    /// No exit or more than [`EXITS_MAX`]; another number of thresholds; one that is not between 0 and 1.
    pub fn new(thresholds: Vec<f64>, exits: usize) -> Result<Self, ExitError> {
        if !(1..=EXITS_MAX).contains(&exits) {
            return Err(ExitError::Exits { found: exits });
        }
        if thresholds.len() != exits - 1 {
            return Err(ExitError::Count { exits, found: thresholds.len() });
        }
        match (0..).zip(&thresholds).find(|(_, threshold)| !(0.0..=1.0).contains(*threshold)) {
            Some((exit, &found)) => Err(ExitError::Threshold { exit, found }),
            None => Ok(Self(thresholds)),
        }
    }

    /// Reads thresholds with commas between them, for a drafter of so many `exits`; empty where there is but one.
    ///
    /// # Errors
    /// What is no number, and all of [`Self::new`].
    ///
    /// # Examples
    /// ```
    /// use espalier_speculation::ExitThresholds;
    /// let thresholds = ExitThresholds::parse("0.75, 0.7", 3)?;
    /// assert!(!thresholds.answers(0, 0.7)?);
    /// assert!(thresholds.answers(1, 0.7)?);
    /// # Ok::<_, espalier_speculation::ExitError>(())
    /// ```
    pub fn parse(text: &str, exits: usize) -> Result<Self, ExitError> {
        let number = |part: &str| part.trim().parse().map_err(|_| ExitError::Text { found: part.trim().to_owned() });
        // More parts than any drafter has exits are not read: their number alone is a fault.
        let parts = text.split(',').take(EXITS_MAX + 1).filter(|_| !text.trim().is_empty());
        Self::new(parts.map(number).collect::<Result<_, _>>()?, exits)
    }

    /// Number of exits, at least 1.
    pub fn exits(&self) -> usize {
        self.0.len() + 1
    }

    /// The thresholds, one fewer than exits.
    pub fn thresholds(&self) -> &[f64] {
        &self.0
    }

    /// Whether a node that has run to `exit`, counted from 0, leaves there with the `confidence` it has: the greatest
    /// probability of that exit's distribution. It does where the threshold is reached; the last exit always answers.
    ///
    /// # Errors
    /// An exit that there is not; a confidence that is not between 0 and 1.
    pub fn answers(&self, exit: usize, confidence: f64) -> Result<bool, ExitError> {
        if exit >= self.exits() {
            return Err(ExitError::NoSuchExit { exit, exits: self.exits() });
        }
        if !(0.0..=1.0).contains(&confidence) {
            return Err(ExitError::Confidence { exit, found: confidence });
        }
        Ok(self.0.get(exit).is_none_or(|&threshold| confidence >= threshold))
    }

    /// The exit at which a node leaves, counted from 0; `confidence(exit)` is asked for one exit after the other, and
    /// for none beyond the one that answers.
    ///
    /// # Errors
    /// The first error of `confidence`, or one that is not between 0 and 1.
    pub fn choose<E: From<ExitError>>(&self, mut confidence: impl FnMut(usize) -> Result<f64, E>) -> Result<usize, E> {
        for exit in 0..self.0.len() {
            if self.answers(exit, confidence(exit)?)? {
                return Ok(exit);
            }
        }
        Ok(self.0.len())
    }
}

impl Display for ExitThresholds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn chosen(thresholds: &[f64], confidences: &[f64]) -> usize {
        let thresholds = ExitThresholds::new(thresholds.to_vec(), thresholds.len() + 1).unwrap();
        thresholds.choose(|exit| Ok::<_, ExitError>(confidences[exit])).unwrap()
    }

    #[test]
    fn the_first_exit_that_reaches_its_threshold_answers() {
        assert_eq!(chosen(&[0.5, 0.5], &[0.5, 0.0, 0.0]), 0);
        assert_eq!(chosen(&[0.5, 0.5], &[0.49, 0.6, 0.0]), 1);
        assert_eq!(chosen(&[0.75, 0.7], &[0.7, 0.7, 0.0]), 1);
    }

    #[test]
    fn the_last_exit_always_answers_and_is_not_asked() {
        // There is no third confidence to ask for.
        assert_eq!(chosen(&[0.5, 0.5], &[0.1, 0.1]), 2);
        assert_eq!(chosen(&[], &[]), 0);
        assert!(ExitThresholds::new(vec![1.0], 2).unwrap().answers(1, 0.0).unwrap());
    }

    #[test]
    fn faults_name_what_was_found_and_what_is_allowed() {
        let error = |text, exits| ExitThresholds::parse(text, exits).unwrap_err().to_string();
        assert_eq!(error("", 0), "a drafter cannot have 0 exits, only 1 to 64");
        assert_eq!(error("0.5", 65), "a drafter cannot have 65 exits, only 1 to 64");
        assert_eq!(error("0.5", 3), "1 thresholds were given for 3 exits, which take 2");
        assert_eq!(error("0.5,1.5", 3), "the threshold of exit 1 is 1.5, which is not between 0 and 1");
        assert_eq!(error("NaN", 2), "the threshold of exit 0 is NaN, which is not between 0 and 1");
        assert_eq!(error("0.5, high", 3), "`high` is not a threshold");
        assert_eq!(error("0.5,", 3), "`` is not a threshold");
    }

    #[test]
    fn an_impossible_question_is_an_error() {
        let error = |exit, confidence| {
            let thresholds = ExitThresholds::parse("0.5,0.5", 3).unwrap();
            thresholds.answers(exit, confidence).unwrap_err().to_string()
        };
        assert_eq!(error(3, 0.5), "exit 3 was asked about, but there are only 3");
        assert_eq!(error(2, f64::NAN), "the confidence at exit 2 is NaN, which is not between 0 and 1");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(thresholds in prop::collection::vec(0.0_f64..=1.0, 0..8)) {
            let exits = thresholds.len() + 1;
            let thresholds = ExitThresholds::new(thresholds, exits).unwrap();
            prop_assert_eq!(ExitThresholds::parse(&thresholds.to_string(), exits), Ok(thresholds));
        }

        #[test]
        fn a_lower_threshold_never_leaves_later(
            pairs in prop::collection::vec((0.0_f64..=1.0, 0.0_f64..=1.0, 0.0_f64..=1.0), 0..6)
        ) {
            let lower: Vec<f64> = pairs.iter().map(|pair| pair.0.min(pair.1)).collect();
            let higher: Vec<f64> = pairs.iter().map(|pair| pair.0.max(pair.1)).collect();
            let confidences: Vec<f64> = pairs.iter().map(|pair| pair.2).collect();
            prop_assert!(chosen(&lower, &confidences) <= chosen(&higher, &confidences));
        }
    }
}
