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
