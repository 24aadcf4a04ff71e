//! Checksums that files are held against.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::error::PullError;
use super::source::is_plain;

/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// What files are expected to be, by their names, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums(HashMap<String, String>);

impl Sums {
    /// Those that were given: `HEX` of the single file, `NAME=HEX`, or files as `sha256sum` writes them.
    pub(crate) fn of_args(given: &[String], single: Option<&str>) -> Result<Self, PullError> {
        let mut all = Self::default();
        for given in given {
            if let Some(sum) = hex(given) {
                let name = single.ok_or(PullError::NamelessSum)?;
                all.0.insert(name.to_owned(), sum);
            } else if let Some((name, sum)) = given.split_once('=').and_then(|(name, sum)| Some((name, hex(sum)?))) {
                all.0.insert(name.to_owned(), sum);
            } else {
                let read = fs::read_to_string(Path::new(given));
                let text = read.map_err(|source| PullError::Sum { given: given.clone(), source: Some(source) })?;
                all.0.extend(Self::parse(&text, given)?.0);
            }
        }
        Ok(all)
    }

    /// Reads lines as `sha256sum` writes them. Files in other folders are left out.
    pub(crate) fn parse(text: &str, what: &str) -> Result<Self, PullError> {
        let mut all = HashMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = || PullError::SumLine { what: what.to_owned(), line: i + 1 };
            let (sum, name) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let sum = hex(sum).ok_or_else(wrong)?;
            let name = name.trim_start().trim_start_matches('*');
            let name = name.strip_prefix("./").unwrap_or(name);
            if is_plain(name) {
                all.insert(name.to_owned(), sum);
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn hex(text: &str) -> Option<String> {
    let is_hex = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lists_of_sha256sum_are_read() {
        let (a, b) = ("a".repeat(DIGITS), "B".repeat(DIGITS));
        let text = format!("{a}  config.json\n{b} *./model.safetensors\n\n{a}  other/folder.json\n");
        let sums = Sums::parse(&text, "SHA256SUMS").unwrap();
        assert_eq!(sums.of("config.json"), Some(a.as_str()));
        assert_eq!(sums.of("model.safetensors"), Some("b".repeat(DIGITS).as_str()));
        assert_eq!(sums.0.len(), 2);
        for wrong in ["abc  config.json", a.as_str()] {
            let refusal = Sums::parse(&format!("{text}{wrong}"), "SHA256SUMS").unwrap_err().to_string();
            assert_eq!(refusal, "line 5 of SHA256SUMS is not a checksum and the name of a file");
        }
    }

    #[test]
    fn a_sum_without_a_name_is_that_of_the_single_file() {
        let sum = "0".repeat(DIGITS);
        let given = |text: &str, single| Sums::of_args(&[text.to_owned()], single);
        assert_eq!(given(&sum, Some("a.gguf")).unwrap().of("a.gguf"), Some(sum.as_str()));
        assert_eq!(given(&format!("b.bin={sum}"), None).unwrap().of("b.bin"), Some(sum.as_str()));
        assert!(matches!(given(&sum, None), Err(PullError::NamelessSum)));
        assert!(matches!(given("/nowhere", None), Err(PullError::Sum { .. })));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{sum}  config.json\n")).unwrap();
        assert_eq!(given(file.path().to_str().unwrap(), None).unwrap().of("config.json"), Some(sum.as_str()));
    }
}
