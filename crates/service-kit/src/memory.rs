//! Amounts of memory: as they are written, and what a machine or a device can spare.

use std::fmt;
use std::str::FromStr;

/// Units of bytes, largest first.
const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A number of bytes, written like `512MiB`, `8GiB`, or without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

/// What is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number of bytes, which may end in KiB, MiB or GiB")]
pub struct NotBytes(String);

/// Memory for keys and values, as it is asked for: an amount, or `80%` of what is free once weights are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBudget {
    /// So much.
    Bytes(Bytes),
    /// So many hundredths of what is free: 1 to 100.
    Percent(usize),
}

/// What asks for no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a number of bytes, which may end in KiB, MiB or GiB, nor a share of free memory from 1% to 100%"
)]
pub struct NotABudget(String);

/// A share of an amount that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}% of the free memory cannot be taken, as this system does not tell how much is free: ask for bytes")]
pub struct FreeMemoryUnknown(usize);

impl FromStr for MemoryBudget {
    type Err = NotABudget;

    fn from_str(text: &str) -> Result<Self, NotABudget> {
        let budget = match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Self::Percent),
            None => text.parse().ok().map(Self::Bytes),
        };
        budget.ok_or_else(|| NotABudget(text.to_owned()))
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl From<Bytes> for MemoryBudget {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl MemoryBudget {
    /// What `given` comes to where so much is `free`, as far as that is known; if nothing was given, what is `wanted`, but
    /// at most half of what is free.
    ///
    /// # Errors
    /// A share, and it is not known of how much.
    pub fn of(given: Option<Self>, wanted: Bytes, free: Option<Bytes>) -> Result<Bytes, FreeMemoryUnknown> {
        match (given, free) {
            (Some(Self::Bytes(bytes)), _) => Ok(bytes),
            (Some(Self::Percent(percent)), Some(Bytes(free))) => Ok(Bytes(free / 100 * percent)),
            (Some(Self::Percent(percent)), None) => Err(FreeMemoryUnknown(percent)),
            (None, Some(Bytes(free))) => Ok(wanted.min(Bytes(free / 2))),
            (None, None) => Ok(wanted),
        }
    }
}

impl FromStr for Bytes {
    type Err = NotBytes;

    fn from_str(text: &str) -> Result<Self, NotBytes> {
        let with_unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit) = with_unit.unwrap_or((text, 1));
        let bytes = number.trim_end().parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
        bytes.map(Self).ok_or_else(|| NotBytes(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes)) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Bytes {
    /// Memory that this machine can spare at present; none where the system does not tell.
    pub fn available() -> Option<Self> {
        let told = std::fs::read_to_string("/proc/meminfo").ok()?;
        Self::told(&told, "MemAvailable:")
    }

    /// Memory of this process that is resident; none where the system does not tell.
    pub fn resident() -> Option<Self> {
        let told = std::fs::read_to_string("/proc/self/status").ok()?;
        Self::told(&told, "VmRSS:")
    }

    /// The amount in a line of what Linux tells, like `VmHWM:    1234 kB`.
    pub fn told(lines: &str, name: &str) -> Option<Self> {
        let amount = lines.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes = amount.trim().strip_suffix("kB")?.trim_end().parse::<usize>().ok()?;
        kibibytes.checked_mul(1 << 10).map(Self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn amounts_are_read_with_and_without_units() {
        let cases = [("0", 0), ("1000", 1000), ("3KiB", 3 << 10), ("512MiB", 512 << 20), ("8 GiB", 8 << 30)];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        for wrong in ["", "MiB", "-1", "1.5GiB", "1MB", "99999999999999999999", "99999999999999GiB"] {
            let refusal = wrong.parse::<Bytes>().unwrap_err().to_string();
            assert_eq!(refusal, format!("`{wrong}` is not a number of bytes, which may end in KiB, MiB or GiB"));
        }
    }

    #[test]
    fn amounts_are_written_as_they_are_read() {
        for text in ["7", "1025", "3KiB", "1537MiB", "8GiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_budget_is_an_amount_or_a_share_of_what_is_free() {
        for (text, budget) in [("8GiB", MemoryBudget::Bytes(Bytes(8 << 30))), ("80%", MemoryBudget::Percent(80))] {
            assert_eq!((text.parse(), budget.to_string()), (Ok(budget), text.to_owned()));
        }
        for wrong in ["", "%", "0%", "101%", "0.5%", "-5%", "half"] {
            let refusal = wrong.parse::<MemoryBudget>().unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("`{wrong}` is neither a number of bytes")), "{refusal}");
        }
        let of = |given, free| MemoryBudget::of(given, Bytes(1000), free);
        let percent = Some(MemoryBudget::Percent(80));
        assert_eq!(of(percent, Some(Bytes(4000))), Ok(Bytes(3200)));
        assert_eq!(of(Some(Bytes(7).into()), Some(Bytes(4))), Ok(Bytes(7)));
        let refusal = of(percent, None).unwrap_err().to_string();
        assert!(refusal.starts_with("80% of the free memory cannot be taken"), "{refusal}");
    }

    #[test]
    fn without_a_budget_no_more_is_taken_than_half_of_what_is_free() {
        let told = "MemTotal:       24540000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(Bytes::told(told, "MemAvailable:"), Some(Bytes(20_000_000 << 10)));
        assert_eq!((Bytes::told("VmHWM: much kB", "VmHWM:"), Bytes::told(told, "VmHWM:")), (None, None));
        let wanted = Bytes(1000);
        let cases = [(Some(Bytes(3000)), wanted), (Some(Bytes(800)), Bytes(400)), (None, wanted)];
        for (available, budget) in cases {
            assert_eq!(MemoryBudget::of(None, wanted, available), Ok(budget));
        }
    }
}
