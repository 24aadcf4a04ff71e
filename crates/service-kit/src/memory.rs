//! Amounts of memory: as they are written, and what a machine can spare.

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
    /// The budget that was given for keys and values; without one enough for so many sequences of `longest` bytes each,
    /// but at most half of the memory that this machine can spare at present, as far as it tells.
    pub fn budget(given: Option<Self>, sequences: usize, Self(longest): Self) -> Self {
        given.unwrap_or_else(|| {
            let wanted = Self(longest.saturating_mul(sequences));
            wanted.spared(Self::available())
        })
    }

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

    fn spared(self, available: Option<Self>) -> Self {
        available.map_or(self, |Self(available)| self.min(Self(available / 2)))
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
    fn no_more_is_spared_than_half_of_what_there_is() {
        let told = "MemTotal:       24540000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(Bytes::told(told, "MemAvailable:"), Some(Bytes(20_000_000 << 10)));
        assert_eq!((Bytes::told("VmHWM: much kB", "VmHWM:"), Bytes::told(told, "VmHWM:")), (None, None));
        let wanted = Bytes(1000);
        let cases = [(Some(Bytes(3000)), wanted), (Some(Bytes(800)), Bytes(400)), (None, wanted)];
        for (available, budget) in cases {
            assert_eq!(wanted.spared(available), budget);
        }
        assert_eq!(Bytes::budget(Some(Bytes(7)), 2, wanted), Bytes(7));
    }
}
