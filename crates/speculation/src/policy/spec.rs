//! A policy as it is written: `name,key=value,...`.

use std::fmt::{self, Display, Formatter};

use super::param::Values;
use super::registry::{KINDS, Kind, max_depth, max_nodes, policy_names};
use super::{Limits, Policy};

/// Longest text read as a policy, in bytes.
const TEXT_MAX: usize = 256;

/// Why a text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Longer than any policy.
    #[error("a policy of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A name that no policy has.
    #[error("unknown policy `{found}`; there are {known}")]
    Unknown {
        /// The name found.
        found: String,
        /// The names there are.
        known: String,
    },
    /// A part that is not `key=value`.
    #[error("`{found}` in policy {policy} is not of the form key=value")]
    Form {
        /// The policy named.
        policy: &'static str,
        /// The part found.
        found: String,
    },
    /// A key that the policy does not have.
    #[error("policy {policy} has no parameter `{found}`; it has {known}")]
    UnknownKey {
        /// The policy named.
        policy: &'static str,
        /// The key found.
        found: String,
        /// The keys it has.
        known: String,
    },
    /// A key given more than once.
    #[error("policy {policy} was given {key} twice")]
    Repeated {
        /// The policy named.
        policy: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A value that is not allowed.
    #[error("{key} of policy {policy} is `{found}`, which is not {allowed}")]
    Value {
        /// The policy named.
        policy: &'static str,
        /// The key.
        key: &'static str,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: String,
    },
}

/// A policy with its parameters; [`Display`] writes what [`parse_policy`] reads back.
#[derive(Debug, Clone)]
pub struct PolicySpec {
    kind: &'static Kind,
    values: Values,
}

impl PolicySpec {
    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// The bounds it sets itself.
    pub fn limits(&self) -> Limits {
        Limits { max_nodes: self.values.count(&max_nodes(1)), max_depth: self.values.count(&max_depth(1)) }
    }

    /// The policy of one sequence, knowing nothing of it yet.
    pub fn build(&self) -> Box<dyn Policy> {
        (self.kind.build)(&self.values)
    }

    /// Reads one `key=value`.
    fn set(&mut self, part: &str, seen: &mut Vec<usize>) -> Result<(), PolicyError> {
        let policy = self.kind.name;
        let (key, value) = part.split_once('=').ok_or_else(|| PolicyError::Form { policy, found: part.to_owned() })?;
        let index = self.index_of(key.trim())?;
        let param = &self.kind.params[index];
        let key = param.key;
        if seen.contains(&index) {
            return Err(PolicyError::Repeated { policy, key });
        }
        seen.push(index);
        let value = value.trim();
        let parsed = param.parse(value).ok_or_else(|| PolicyError::Value {
            policy,
            key,
            found: value.to_owned(),
            allowed: param.to_string(),
        })?;
        self.values.set(index, parsed);
        Ok(())
    }

    fn index_of(&self, key: &str) -> Result<usize, PolicyError> {
        let params = self.kind.params;
        let index = params.iter().position(|param| param.key == key);
        index.ok_or_else(|| PolicyError::UnknownKey {
            policy: self.kind.name,
            found: key.to_owned(),
            known: join(params.iter().map(|param| param.key)),
        })
    }
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        self.kind.name == other.kind.name && self.values == other.values
    }
}

impl Display for PolicySpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        self.values.changed().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

/// Reads `name` or `name,key=value,...`; what is not given is at its default.
///
/// # Errors
/// An unknown name or key, a key given twice, a value that is no number or out of range.
///
/// # Examples
/// ```
/// use espalier_speculation::parse_policy;
/// assert_eq!(parse_policy("pct,width=4,max_depth=10")?.to_string(), "pct,width=4");
/// # Ok::<_, espalier_speculation::PolicyError>(())
/// ```
pub fn parse_policy(text: &str) -> Result<PolicySpec, PolicyError> {
    if text.len() > TEXT_MAX {
        return Err(PolicyError::TooLong { length: text.len(), limit: TEXT_MAX });
    }
    let mut parts = text.split(',');
    let kind = find(parts.next().unwrap_or_default().trim())?;
    let mut spec = PolicySpec { kind, values: Values::defaults(kind.params) };
    let mut seen = Vec::new();
    for part in parts {
        spec.set(part.trim(), &mut seen)?;
    }
    Ok(spec)
}

fn find(name: &str) -> Result<&'static Kind, PolicyError> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    kind.ok_or_else(|| PolicyError::Unknown { found: name.to_owned(), known: join(policy_names()) })
}

fn join(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        parse_policy(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_given_is_at_its_default() {
        let spec = parse_policy("pct").unwrap();
        assert_eq!(spec.limits(), Limits { max_nodes: 64, max_depth: 10 });
        assert_eq!(spec, parse_policy(" pct , width = 5 , ratio = auto ").unwrap());
    }

    #[test]
    fn limits_are_read_like_any_parameter() {
        let limits = parse_policy("constant,max_nodes=7,max_depth=3").unwrap().limits();
        assert_eq!(limits, Limits { max_nodes: 7, max_depth: 3 });
    }

    #[test]
    fn only_what_differs_from_the_default_is_written() {
        for text in ["constant", "constant,k=8", "pct,leaf_threshold=0.001,ratio=0.25", "opt-tree,delta=auto"] {
            assert_eq!(parse_policy(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_policy("constant,k=5").unwrap().to_string(), "constant");
    }

    #[test]
    fn faults_name_what_was_found_and_what_is_allowed() {
        assert_eq!(
            error("best"),
            "unknown policy `best`; there are \
             constant, heuristic, svip, vanilla-tree, cape, eagle2, opt-tree, pct, expected-gain"
        );
        assert_eq!(error("constant,5"), "`5` in policy constant is not of the form key=value");
        assert_eq!(
            error("constant,width=5"),
            "policy constant has no parameter `width`; it has k, max_nodes, max_depth"
        );
        assert_eq!(error("constant,k=5,k=5"), "policy constant was given k twice");
        assert_eq!(error("constant,k=0"), "k of policy constant is `0`, which is not a whole number from 1 to 64");
        assert_eq!(
            error("pct,ratio=-1"),
            "ratio of policy pct is `-1`, which is not a number from 0 to 1000000 or auto"
        );
        assert_eq!(error(&"x".repeat(257)), "a policy of 257 bytes exceeds the limit of 256");
    }

    #[test]
    fn a_value_must_be_a_number_of_its_kind() {
        for text in ["constant,k=2.5", "constant,k=NaN", "constant,k=", "constant,k=auto", "svip,h=inf"] {
            assert!(matches!(parse_policy(text), Err(PolicyError::Value { .. })), "{text}");
        }
    }

    #[test]
    fn every_policy_has_both_limits_and_valid_defaults() {
        for kind in KINDS {
            let keys: Vec<&str> = kind.params.iter().map(|param| param.key).collect();
            assert!(keys.contains(&"max_nodes") && keys.contains(&"max_depth"), "{}", kind.name);
            for param in kind.params {
                let default = super::super::param::Value(param.default);
                assert_eq!(param.parse(&default.to_string()), Some(default), "{} of {}", param.key, kind.name);
            }
        }
    }

    #[test]
    fn the_help_names_every_policy_and_parameter() {
        let help = super::super::policy_help();
        for kind in KINDS {
            assert!(help.contains(kind.name));
            assert!(kind.params.iter().all(|param| help.contains(&format!("{}=", param.key))));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(constant|pct|svip)?[,=a-z0-9. -]{0,40}") {
            if let Ok(spec) = parse_policy(&text) {
                prop_assert_eq!(parse_policy(&spec.to_string()), Ok(spec));
            }
        }
    }
}
