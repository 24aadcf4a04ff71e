//! A policy as it is written: `name,key=value,...`.

use std::fmt::{self, Display, Formatter};

use super::chain::Chain;
use super::kind::{ChainKind, Kind, STOP, max_depth, max_nodes};
use super::param::{Param, Slot, Value, Values};
use super::registry::{CHAINS, TREES, policy_names};
use super::stopping::Stopping;
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
        key: String,
    },
    /// A value that is not allowed.
    #[error("{key} of policy {policy} is `{found}`, which is not {allowed}")]
    Value {
        /// The policy named.
        policy: &'static str,
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: String,
    },
}

/// A policy with its parameters; [`Display`] writes what [`parse_policy`] reads back.
#[derive(Debug, Clone)]
pub struct PolicySpec {
    form: Form,
    values: Values,
    /// Whether nothing is drafted where plain decoding makes more.
    gated: bool,
}

/// What turns the gate off, and what it may be.
const GATE: &str = "gate";
const ON: &str = "on";
const OFF: &str = "off";

/// What the policy grows.
#[derive(Debug, Clone)]
enum Form {
    Chain(&'static ChainKind),
    Tree(&'static Kind, Stopping),
}

impl PolicySpec {
    /// The policy's name.
    pub fn name(&self) -> &'static str {
        match &self.form {
            Form::Chain(kind) => kind.name,
            Form::Tree(kind, _) => kind.name,
        }
    }

    /// The bounds it sets itself.
    pub fn limits(&self) -> Limits {
        Limits { max_nodes: self.values.count(&max_nodes(1)), max_depth: self.values.count(&max_depth(1)) }
    }

    /// Whether a [`Gate`](crate::Gate) has it rest where plain decoding makes more; `gate=off` has it draft always.
    pub fn is_gated(&self) -> bool {
        self.gated
    }

    /// The policy of one sequence, knowing nothing of it yet.
    pub fn build(&self) -> Box<dyn Policy> {
        match &self.form {
            Form::Chain(kind) => Box::new(Chain((kind.build)(&self.values))),
            Form::Tree(kind, stopping) => stopping.on((kind.build)(&self.values), &self.values),
        }
    }

    /// The policy of this name, with all its parameters at their defaults.
    fn named(name: &str) -> Result<Self, PolicyError> {
        if let Some(kind) = CHAINS.iter().find(|kind| kind.name == name) {
            let (form, values) = (Form::Chain(kind), Values::defaults(kind.params));
            return Ok(Self { form, values, gated: true });
        }
        if let Some(kind) = TREES.iter().find(|kind| kind.name == name) {
            let form = Form::Tree(kind, Stopping::default());
            return Ok(Self { form, values: Values::defaults(kind.params), gated: true });
        }
        Err(PolicyError::Unknown { found: name.to_owned(), known: join(policy_names()) })
    }

    /// Splits `key=value`.
    fn split<'a>(&self, part: &'a str) -> Result<(&'a str, &'a str), PolicyError> {
        let split = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        split.ok_or_else(|| PolicyError::Form { policy: self.name(), found: part.trim().to_owned() })
    }

    /// Sets what `key` names to what `text` says.
    fn set(&mut self, key: &str, text: &str) -> Result<(), PolicyError> {
        let policy = self.name();
        let refused = |allowed| PolicyError::Value { policy, key: key.to_owned(), found: text.to_owned(), allowed };
        if key == GATE {
            self.gated = match text {
                ON => true,
                OFF => false,
                _ => return Err(refused(format!("{ON} or {OFF}"))),
            };
            return Ok(());
        }
        if let (STOP, Form::Tree(_, stopping)) = (key, &mut self.form) {
            return stopping.put(text).ok_or_else(|| refused(Stopping::allowed()));
        }
        let (param, value) = self.slot(key)?;
        *value = param.parse(text).ok_or_else(|| refused(param.to_string()))?;
        Ok(())
    }

    /// The parameter that `key` names, and its value.
    fn slot(&mut self, key: &str) -> Result<(&'static Param, &mut Value), PolicyError> {
        let policy = self.name();
        let stop = matches!(self.form, Form::Tree(..)).then(|| STOP.to_owned());
        let mut known = Vec::new();
        for slot in self.slots() {
            if slot.key == key {
                return Ok((slot.param, slot.value));
            }
            known.push(slot.key);
        }
        known.extend(stop);
        known.push(GATE.to_owned());
        Err(PolicyError::UnknownKey { policy, found: key.to_owned(), known: known.join(", ") })
    }

    /// Each parameter that may be set now, by its key; `stop` itself is none.
    fn slots(&mut self) -> impl Iterator<Item = Slot<'_>> {
        let stopping = match &mut self.form {
            Form::Chain(_) => None,
            Form::Tree(_, stopping) => Some(stopping),
        };
        let own = self.values.slots().map(|(param, value)| Slot { key: param.key.to_owned(), param, value });
        own.chain(stopping.into_iter().flat_map(Stopping::slots))
    }
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        let stopping = |spec: &Self| match &spec.form {
            Form::Chain(_) => None,
            Form::Tree(_, stopping) => Some(stopping.clone()),
        };
        let form = |spec: &Self| (spec.name(), stopping(spec), spec.gated);
        form(self) == form(other) && self.values == other.values
    }
}

impl Display for PolicySpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.values.changed().try_for_each(|(key, value)| write!(f, ",{key}={value}"))?;
        if let Form::Tree(_, stopping) = &self.form {
            write!(f, "{stopping}")?;
        }
        if self.gated { Ok(()) } else { write!(f, ",{GATE}={OFF}") }
    }
}

/// Reads `name` or `name,key=value,...`; what is not given is at its default.
///
/// A tree policy also takes `stop=NAME`, the test of a chain policy that may end its growth, with that policy's
/// parameters as `stop.KEY=VALUE`, and `every=N`, the levels from one test to the next. Any policy takes `gate=off`.
///
/// # Errors
/// An unknown name or key, a key given twice, a value that is no number or out of range.
///
/// # Examples
/// ```
/// use espalier_speculation::parse_policy;
/// assert_eq!(parse_policy("pct,width=4,max_depth=10")?.to_string(), "pct,width=4");
/// assert_eq!(parse_policy("eagle2,stop.h=0.4,stop=svip")?.to_string(), "eagle2,stop=svip,stop.h=0.4");
/// # Ok::<_, espalier_speculation::PolicyError>(())
/// ```
pub fn parse_policy(text: &str) -> Result<PolicySpec, PolicyError> {
    if text.len() > TEXT_MAX {
        return Err(PolicyError::TooLong { length: text.len(), limit: TEXT_MAX });
    }
    let mut parts = text.split(',');
    let mut spec = PolicySpec::named(parts.next().unwrap_or_default().trim())?;
    let mut pairs = parts.map(|part| spec.split(part)).collect::<Result<Vec<_>, _>>()?;
    check_distinct(spec.name(), &pairs)?;
    // Which of a test's parameters there are is known once the test is.
    pairs.sort_by_key(|&(key, _)| key != STOP);
    pairs.into_iter().try_for_each(|(key, text)| spec.set(key, text))?;
    Ok(spec)
}

fn check_distinct(policy: &'static str, pairs: &[(&str, &str)]) -> Result<(), PolicyError> {
    let mut rest = pairs;
    while let [(key, _), later @ ..] = rest {
        if later.iter().any(|(other, _)| other == key) {
            return Err(PolicyError::Repeated { policy, key: (*key).to_owned() });
        }
        rest = later;
    }
    Ok(())
}

fn join(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// Every policy's name and parameters.
    fn declared() -> impl Iterator<Item = (&'static str, &'static [Param])> {
        let chains = CHAINS.iter().map(|kind| (kind.name, kind.params));
        chains.chain(TREES.iter().map(|kind| (kind.name, kind.params)))
    }

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
    fn a_trees_test_is_read_wherever_it_stands() {
        let spec = parse_policy("eagle2,stop=cali-ts,stop.s_m=0.5,every=2").unwrap();
        assert_eq!(parse_policy("eagle2,every=2,stop.s_m=0.5,stop=cali-ts,stop.s_s=0.5").unwrap(), spec);
        assert_ne!(parse_policy("eagle2,stop=cali-ts,every=2").unwrap(), spec);
        assert_eq!(parse_policy("eagle2,stop=none").unwrap(), parse_policy("eagle2").unwrap());
        assert_eq!((spec.name(), spec.limits()), ("eagle2", parse_policy("eagle2").unwrap().limits()));
    }

    #[test]
    fn limits_are_read_like_any_parameter() {
        let limits = parse_policy("constant,max_nodes=7,max_depth=3").unwrap().limits();
        assert_eq!(limits, Limits { max_nodes: 7, max_depth: 3 });
    }

    #[test]
    fn only_what_differs_from_the_default_is_written() {
        for text in [
            "constant",
            "constant,k=8",
            "pct,leaf_threshold=0.001,ratio=0.25",
            "opt-tree,delta=auto",
            "eagle2,total=40,stop=svip,stop.h=0.4,every=2",
            "pct,every=3",
            "constant,k=8,gate=off",
            "eagle2,stop=svip,gate=off",
            "svip,h=0.00001,c=1e-300",
            "eagle2,stop=svip,stop.h=2.2250738585072014e-308",
        ] {
            assert_eq!(parse_policy(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_policy("constant,k=5").unwrap().to_string(), "constant");
    }

    #[test]
    fn faults_name_what_was_found_and_what_is_allowed() {
        assert_eq!(
            error("best"),
            "unknown policy `best`; there are \
             constant, heuristic, svip, beta-ts, cali-ts, vanilla-tree, cape, eagle2, opt-tree, pct, expected-gain"
        );
        assert_eq!(error("constant,5"), "`5` in policy constant is not of the form key=value");
        assert_eq!(
            error("constant,width=5"),
            "policy constant has no parameter `width`; it has k, max_nodes, max_depth, gate"
        );
        assert_eq!(
            error("cape,stop=svip,stop.k=5"),
            "policy cape has no parameter `stop.k`; it has depth, max_nodes, max_depth, every, stop.h, stop.c, stop, gate"
        );
        assert_eq!(
            error("cape,stop=pct"),
            "stop of policy cape is `pct`, which is not one of constant, heuristic, svip, beta-ts, cali-ts or none"
        );
        assert_eq!(
            error("cape,stop=svip,stop.h=x"),
            "stop.h of policy cape is `x`, which is not a number from 0 to 100"
        );
        assert_eq!(error("cape,every=0"), "every of policy cape is `0`, which is not a whole number from 1 to 64");
        assert_eq!(
            error("svip,stop=constant"),
            "policy svip has no parameter `stop`; it has h, c, max_nodes, max_depth, gate"
        );
        assert_eq!(error("constant,gate=0"), "gate of policy constant is `0`, which is not on or off");
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
        for (name, params) in declared() {
            let keys: Vec<&str> = params.iter().map(|param| param.key).collect();
            assert!(keys.contains(&"max_nodes") && keys.contains(&"max_depth"), "{name}");
            for param in params {
                let default = Value(param.default);
                assert_eq!(param.parse(&default.to_string()), Some(default), "{} of {name}", param.key);
            }
        }
    }

    #[test]
    fn the_help_names_every_policy_and_parameter() {
        let help = super::super::policy_help();
        for (name, params) in declared() {
            assert!(help.contains(name));
            assert!(params.iter().all(|param| help.contains(&format!("{}=", param.key))));
        }
        assert!(["stop=none", "every=1", "stop.KEY"].iter().all(|text| help.contains(text)), "{help}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(constant|pct|svip)?(,stop=svip)?[,=a-z0-9. -]{0,40}") {
            if let Ok(spec) = parse_policy(&text) {
                prop_assert_eq!(parse_policy(&spec.to_string()), Ok(spec));
            }
        }
    }
}
