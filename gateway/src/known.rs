//! What may be asked for by name, and whether that is all there is.

use std::fmt;

/// Names of targets, or of drafters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    names: Vec<String>,
    silent: usize,
}

impl Known {
    /// Each name once, though several may bear it; and how many services, or names of services, have never told theirs.
    pub(crate) fn new(names: impl IntoIterator<Item = String>, silent: usize) -> Self {
        let mut known = Self { names: Vec::new(), silent };
        for name in names {
            if !known.names.contains(&name) {
                known.names.push(name);
            }
        }
        known
    }

    /// Whether there are no others, so that asking again for another is of no use.
    pub fn is_all(&self) -> bool {
        self.silent == 0
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        let names = if names.is_empty() { "none at present".to_owned() } else { names.join(", ") };
        match self.silent {
            0 => f.write_str(&names),
            silent => write!(f, "{names}, beside {silent} that never said what they are"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_told_once_and_how_many_are_not_known() {
        let known = |names: &[&str], silent| Known::new(names.iter().map(ToString::to_string), silent).to_string();
        assert_eq!(known(&["b", "a", "b"], 0), "`b`, `a`");
        assert_eq!(known(&["a"], 2), "`a`, beside 2 that never said what they are");
        assert_eq!(known(&[], 0), "none at present");
    }
}
