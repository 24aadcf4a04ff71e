//! All that is wrong, and not only the first of it.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::chain;

/// What is wrong with the arguments of a program: one fault a line, each with its causes.
///
/// # Examples
/// ```
/// use std::num::ParseIntError;
/// use espalier_service_kit::Faults;
/// let mut faults = Faults::<ParseIntError>::none();
/// let (one, two) = (faults.sift("1".parse::<u8>()), faults.sift("two".parse::<u8>()));
/// let sum = faults.finish(|| Some(one? + two?));
/// assert_eq!(sum.map_err(|faults| faults.to_string()), Err("invalid digit found in string".to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults<E>(Vec<E>);

impl<E> Faults<E> {
    /// The exit code of a program whose arguments are wrong, as clap has it.
    pub const EXIT_CODE: u8 = 2;

    /// Nothing is wrong yet.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// What was checked, if nothing is wrong with it; else its fault is noted.
    pub fn sift<T, F: Into<E>>(&mut self, checked: Result<T, F>) -> Option<T> {
        checked.map_err(|fault| self.0.push(fault.into())).ok()
    }

    /// Those of what was checked that nothing is wrong with; the faults of the others are noted.
    pub fn sift_all<T, F: Into<E>>(&mut self, checked: impl IntoIterator<Item = Result<T, F>>) -> Vec<T> {
        checked.into_iter().filter_map(|checked| self.sift(checked)).collect()
    }

    /// What is made of all that was sifted, if no fault was noted; `make` gives nothing only where some of it is missing.
    ///
    /// # Errors
    /// All faults that were noted.
    pub fn finish<T>(self, make: impl FnOnce() -> Option<T>) -> Result<T, Self> {
        match make() {
            Some(made) if self.0.is_empty() => Ok(made),
            _ => Err(self),
        }
    }
}

impl<E: Error> Faults<E> {
    /// Says on standard error what is wrong, a line each, and gives the exit code of `program`.
    pub fn report(&self, program: &str) -> ExitCode {
        eprintln!("{program}: {self}");
        ExitCode::from(Self::EXIT_CODE)
    }
}

impl<E> From<E> for Faults<E> {
    fn from(fault: E) -> Self {
        Self(vec![fault])
    }
}

impl<E: Error> fmt::Display for Faults<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|fault| chain(fault)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl<E: Error> Error for Faults<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("{0} is wrong")]
    struct Wrong(&'static str);

    fn made(faults: Faults<Wrong>) -> Result<u8, Faults<Wrong>> {
        faults.finish(|| Some(7))
    }

    #[test]
    fn what_nothing_is_wrong_with_is_made() {
        let mut faults = Faults::none();
        assert_eq!(faults.sift(Ok::<_, Wrong>(3)), Some(3));
        assert_eq!(made(faults), Ok(7));
    }

    #[test]
    fn every_fault_has_a_line_in_the_order_of_the_checks() {
        let mut faults = Faults::none();
        assert_eq!(faults.sift(Err::<u8, _>(Wrong("one"))), None);
        assert_eq!(faults.sift_all([Ok(2), Err(Wrong("two")), Err(Wrong("three"))]), [2]);
        let text = made(faults).map_err(|faults| faults.to_string());
        assert_eq!(text, Err("one is wrong\ntwo is wrong\nthree is wrong".to_owned()));
    }

    #[test]
    fn a_fault_alone_reads_as_itself() {
        assert_eq!(Faults::from(Wrong("it")).to_string(), "it is wrong");
    }
}
