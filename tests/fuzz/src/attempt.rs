//! One input tried, and how it can fail.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::memory::peak_of;
use crate::target::Target;

/// The longest that an input may take. Most take microseconds; a machine may be busy, and a build without optimisation.
const TIME_MAX: Duration = Duration::from_secs(20);

/// What an input may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory that one thread holds at a time.
    pub bytes: usize,
    /// Time.
    pub time: Duration,
}

/// Why a property does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A panic, with its words.
    Panic(String),
    /// Too much memory.
    Memory {
        /// Bytes that were held at once.
        held: usize,
        /// The most that may be.
        limit: usize,
    },
    /// Too much time.
    Time(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(words) => write!(f, "panics: {words}"),
            Self::Memory { held, limit } => write!(f, "holds {held} bytes of memory, and {limit} are allowed"),
            Self::Time(taken) => write!(f, "takes {taken:?}, and {TIME_MAX:?} are allowed"),
        }
    }
}

/// An input, and what it is tried on.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// What is tried.
    pub target: &'a Target,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Attempt<'_> {
    /// What the input may take.
    pub fn limits(&self) -> Limits {
        Limits { bytes: self.target.memory_for(self.bytes.len()), time: TIME_MAX }
    }

    /// Tries it: whether the bytes were accepted.
    ///
    /// # Errors
    /// Why the property does not hold.
    pub fn make(&self) -> Result<bool, Failure> {
        let (begun, limits) = (Instant::now(), self.limits());
        let mut outcome = Ok(false);
        let held = peak_of(|| outcome = catch_unwind(AssertUnwindSafe(|| (self.target.run)(self.bytes))));
        let accepted = outcome.map_err(|panic| Failure::Panic(words(&*panic)))?;
        let taken = begun.elapsed();
        if held > limits.bytes {
            return Err(Failure::Memory { held, limit: limits.bytes });
        }
        if taken > limits.time { Err(Failure::Time(taken)) } else { Ok(accepted) }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words").to_owned()
}
