//! What of drafting a request may ask for: the policies of some names, and trees up to a size.

use espalier_speculation::{Limits, PolicySpec, policy_names};
use thiserror::Error;

/// A request asks for more of drafting than it may.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CapError {
    /// The policy is none of those that may be asked for.
    #[error("policy `{found}` may not be asked for here; those that may are {allowed}")]
    Policy {
        /// The policy that was asked for.
        found: &'static str,
        /// Those that may be.
        allowed: String,
    },
    /// Trees may become larger, or deeper, than they may be here.
    #[error("policy `{policy}` has {name}={found}, and at most {limit} may be asked for here")]
    Size {
        /// The policy with its parameters.
        policy: String,
        /// The parameter.
        name: &'static str,
        /// Its value.
        found: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// No policy has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{found}` is no policy that requests could ask for; there are {known}")]
pub struct UnknownPolicy {
    /// What was given.
    pub found: String,
    /// The names there are.
    pub known: String,
}

/// What requests may ask for.
#[derive(Debug, Clone)]
pub(crate) struct PolicyCaps {
    /// The policies by name; all where there is none.
    names: Vec<String>,
    limits: Limits,
}

impl Default for PolicyCaps {
    fn default() -> Self {
        Self { names: Vec::new(), limits: Limits { max_nodes: usize::MAX, max_depth: usize::MAX } }
    }
}

impl PolicyCaps {
    /// Policies of these names alone, or all if there is none, with trees within limits.
    pub(crate) fn new(names: &[String], limits: Limits) -> Result<Self, UnknownPolicy> {
        match names.iter().find(|name| !policy_names().any(|known| known == **name)) {
            Some(found) => Err(UnknownPolicy { found: found.clone(), known: list(policy_names()) }),
            None => Ok(Self { names: names.to_vec(), limits }),
        }
    }

    /// Whether a request may ask for this policy.
    pub(crate) fn check(&self, policy: &PolicySpec) -> Result<(), CapError> {
        let found = policy.name();
        if !(self.names.is_empty() || self.names.iter().any(|name| name == found)) {
            return Err(CapError::Policy { found, allowed: list(self.names.iter().map(String::as_str)) });
        }
        let asked = policy.limits();
        let sizes = [
            ("max_nodes", asked.max_nodes, self.limits.max_nodes),
            ("max_depth", asked.max_depth, self.limits.max_depth),
        ];
        match sizes.into_iter().find(|(_, found, limit)| found > limit) {
            Some((name, found, limit)) => Err(CapError::Size { policy: policy.to_string(), name, found, limit }),
            None => Ok(()),
        }
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::parse_policy;

    use super::*;

    #[test]
    fn what_is_not_allowed_by_name_or_size_is_refused_with_what_is() {
        let limits = Limits { max_nodes: 64, max_depth: 12 };
        let caps = PolicyCaps::new(&["svip".to_owned(), "eagle2".to_owned()], limits).unwrap();
        let check = |text: &str| caps.check(&parse_policy(text).unwrap()).map_err(|error| error.to_string());
        assert_eq!(check("svip,max_depth=12"), Ok(()));
        let words = "policy `pct` may not be asked for here; those that may are `svip`, `eagle2`";
        assert_eq!(check("pct"), Err(words.to_owned()));
        let deep = check("svip,max_depth=13").unwrap_err();
        assert!(deep.ends_with("has max_depth=13, and at most 12 may be asked for here"), "{deep}");
        let large = check("eagle2,max_nodes=65,max_depth=8").unwrap_err();
        assert!(large.ends_with("has max_nodes=65, and at most 64 may be asked for here"), "{large}");
    }

    #[test]
    fn unless_told_otherwise_all_may_be_asked_for() {
        for name in policy_names() {
            assert_eq!(PolicyCaps::default().check(&parse_policy(name).unwrap()), Ok(()));
        }
        let unknown = PolicyCaps::new(&["guess".to_owned()], Limits { max_nodes: 1, max_depth: 1 }).unwrap_err();
        assert!(
            unknown.to_string().starts_with("`guess` is no policy that requests could ask for; there are `constant`")
        );
    }
}
