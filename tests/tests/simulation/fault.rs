//! What goes wrong, and when.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use espalier_fuzz::Dice;

/// The shortest and the longest time between two faults.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(1200);

/// The shortest and the longest time that a fault lasts.
const LASTS: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_millis(2500);

/// A service that suffers, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The number of the service.
    pub(crate) service: usize,
    pub(crate) kind: Kind,
    /// When it begins, and when it is over.
    pub(crate) begins: Duration,
    pub(crate) ends: Duration,
}

impl Fault {
    /// Whether it is about a service that another is about.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        self.about().any(|service| other.about().any(|one| one == service))
    }

    fn about(&self) -> impl Iterator<Item = usize> {
        let other = match self.kind {
            Kind::CutOffFrom(other) => Some(other),
            _ => None,
        };
        [self.service].into_iter().chain(other)
    }
}

/// How a service suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is killed, and started again.
    Killed,
    /// It is stopped, so that what it is sent comes later: as a process that stands still seems to others.
    Held,
    /// All that it says and is told is lost.
    CutOff,
    /// The same with one other service alone, by its number.
    CutOffFrom(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed => f.write_str("killed"),
            Self::Held => f.write_str("held up"),
            Self::CutOff => f.write_str("cut off"),
            Self::CutOffFrom(other) => write!(f, "cut off from service {other}"),
        }
    }
}

/// Faults without end, which a seed decides.
pub(crate) struct Faults {
    dice: Dice,
    services: usize,
    next: Duration,
}

impl Faults {
    /// Those of so many services, from a time on.
    pub(crate) fn of(seed: u64, services: usize, from: Duration) -> Self {
        Self { dice: Dice::of(seed, 0, 0), services, next: from }
    }

    /// A time within a range, all of which are equally likely.
    fn within(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let share = self.dice.number() as f64 / u64::MAX as f64;
        *range.start() + (*range.end() - *range.start()).mul_f64(share)
    }
}

impl Iterator for Faults {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        let pause = self.within(EVERY);
        self.next += pause;
        let service = self.dice.below(self.services);
        let other = (service + 1 + self.dice.below(self.services - 1)) % self.services;
        let kind = *self.dice.pick(&[Kind::Killed, Kind::Held, Kind::CutOff, Kind::CutOffFrom(other)]);
        let begins = self.next;
        Some(Fault { service, kind, begins, ends: begins + self.within(LASTS) })
    }
}
