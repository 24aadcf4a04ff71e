//! What suits a target and a drafter: thresholds of exits, as `espalier tune thresholds` writes them, and policies.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use espalier_speculation::{ExitError, ExitThresholds, PolicyError, PolicySpec, parse_policy};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// The longest file of profiles, in bytes.
pub const PROFILES_BYTES_MAX: u64 = 1 << 20;

/// Stands for every drafter whose own profile says nothing.
const ANY_DRAFTER: &str = "*";

/// Why a file of profiles cannot be used.
#[derive(Debug, Error)]
pub enum ProfilesError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too long.
    #[error("{} is longer than {PROFILES_BYTES_MAX} bytes", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
    /// The file does not hold what it should.
    #[error("{} holds no profiles", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParseError,
    },
}

/// Why a text is none of profiles.
#[derive(Debug, Error)]
pub enum ParseError {
    /// It is no JSON, or of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The profile of a pair is of another shape.
    #[error(
        "the profile of drafter `{drafter}` for target `{target}` is `{found}`, which is neither a list of thresholds nor an object of `thresholds` and `policy`"
    )]
    Shape {
        /// The target.
        target: String,
        /// The drafter.
        drafter: String,
        /// What stands there.
        found: String,
    },
    /// The thresholds of a pair are none.
    #[error("the thresholds of drafter `{drafter}` for target `{target}`")]
    Thresholds {
        /// The target.
        target: String,
        /// The drafter.
        drafter: String,
        /// Why.
        source: ExitError,
    },
    /// The policy of a pair is none.
    #[error("the policy of drafter `{drafter}` for target `{target}`")]
    Policy {
        /// The target.
        target: String,
        /// The drafter.
        drafter: String,
        /// Why.
        source: Box<PolicyError>,
    },
}

/// What suits one target with one drafter.
#[derive(Debug, Clone, Default)]
struct Profile {
    thresholds: Option<ExitThresholds>,
    policy: Option<PolicySpec>,
}

/// Thresholds and policies by the names of target and drafter.
///
/// # Examples
/// ```
/// use espalier_gateway::Profiles;
/// let profiles = Profiles::parse(
///     r#"{"medium": {"sorted": [0.75, 0.7], "edd": {"policy": "svip"}, "*": {"policy": "constant,k=3"}}}"#,
/// )?;
/// assert_eq!(profiles.thresholds("medium", "sorted").map(ToString::to_string).as_deref(), Some("0.75,0.7"));
/// assert_eq!(profiles.policy("medium", "edd").map(ToString::to_string).as_deref(), Some("svip"));
/// assert_eq!(profiles.policy("medium", "sorted").map(ToString::to_string).as_deref(), Some("constant,k=3"));
/// assert!(profiles.thresholds("small", "sorted").is_none());
/// # Ok::<_, espalier_gateway::ParseError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Profiles(BTreeMap<String, BTreeMap<String, Profile>>);

impl Profiles {
    /// Reads a JSON object of targets, each with an object of drafters, each with a list of thresholds or an object of
    /// `thresholds` and `policy`. The drafter `*` has the policy of all that have none of their own.
    ///
    /// # Errors
    /// A text of another shape; thresholds or a policy that are none.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let given: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_str(text)?;
        let mut profiles = Self::default();
        for (target, drafters) in given {
            let mut known = BTreeMap::new();
            for (drafter, value) in drafters {
                let profile = Profile::read(&target, &drafter, &value)?;
                known.insert(drafter, profile);
            }
            profiles.0.insert(target, known);
        }
        Ok(profiles)
    }

    /// Reads a file of at most [`PROFILES_BYTES_MAX`].
    ///
    /// # Errors
    /// A file that cannot be read, is longer, or holds something else.
    pub fn read(path: &Path) -> Result<Self, ProfilesError> {
        let unreadable = |source| ProfilesError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(PROFILES_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > PROFILES_BYTES_MAX {
            return Err(ProfilesError::Long { path: path.to_owned() });
        }
        Self::parse(&text).map_err(|source| ProfilesError::Parse { path: path.to_owned(), source })
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_json(&self) -> String {
        let of_target = |drafters: &BTreeMap<String, Profile>| {
            let of_drafter = |(drafter, profile): (&String, &Profile)| (drafter.clone(), profile.to_value());
            Value::Object(drafters.iter().map(of_drafter).collect())
        };
        let targets: Map<String, Value> =
            self.0.iter().map(|(target, drafters)| (target.clone(), of_target(drafters))).collect();
        format!("{:#}\n", Value::Object(targets))
    }

    /// When rows leave a drafter for a target, where that is known.
    pub fn thresholds(&self, target: &str, drafter: &str) -> Option<&ExitThresholds> {
        self.0.get(target)?.get(drafter)?.thresholds.as_ref()
    }

    /// How trees are grown for a target by a drafter, where that is known.
    pub fn policy(&self, target: &str, drafter: &str) -> Option<&PolicySpec> {
        let drafters = self.0.get(target)?;
        [drafter, ANY_DRAFTER].iter().find_map(|&name| drafters.get(name)?.policy.as_ref())
    }

    /// Has a drafter use these thresholds for a target, whatever was known before.
    pub fn set(&mut self, target: &str, drafter: &str, thresholds: ExitThresholds) {
        let profile = self.0.entry(target.to_owned()).or_default().entry(drafter.to_owned()).or_default();
        profile.thresholds = Some(thresholds);
    }
}

/// What may be written of a pair.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    thresholds: Option<Vec<f64>>,
    policy: Option<String>,
}

impl Profile {
    fn read(target: &str, drafter: &str, value: &Value) -> Result<Self, ParseError> {
        let (target, drafter) = (target.to_owned(), drafter.to_owned());
        let Some(written) =
            Written::read(value).filter(|written| drafter != ANY_DRAFTER || written.thresholds.is_none())
        else {
            return Err(ParseError::Shape { target, drafter, found: value.to_string() });
        };
        let read = |thresholds: Vec<f64>| {
            let exits = thresholds.len() + 1;
            ExitThresholds::new(thresholds, exits)
        };
        let policy = written.policy.as_deref().map(parse_policy).transpose();
        match (written.thresholds.map(read).transpose(), policy) {
            (Err(source), _) => Err(ParseError::Thresholds { target, drafter, source }),
            (_, Err(source)) => Err(ParseError::Policy { target, drafter, source: Box::new(source) }),
            (Ok(thresholds), Ok(policy)) => Ok(Self { thresholds, policy }),
        }
    }

    /// A list where there are thresholds alone, as there was before there were policies.
    fn to_value(&self) -> Value {
        let thresholds = self.thresholds.as_ref().map(|exits| json!(exits.thresholds()));
        let policy = self.policy.as_ref().map(|policy| json!(policy.to_string()));
        match (thresholds, policy) {
            (Some(thresholds), None) => thresholds,
            (thresholds, policy) => {
                let fields = [("thresholds", thresholds), ("policy", policy)];
                let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
                Value::Object(given.collect())
            }
        }
    }
}

impl Written {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Array(_) => {
                Some(Self { thresholds: Some(serde_json::from_value(value.clone()).ok()?), policy: None })
            }
            _ => serde_json::from_value(value.clone()).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::error::Error;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut profiles = Profiles::parse(r#"{"small": {"sorted": [0.5, 0.5]}, "medium": {}}"#).unwrap();
        profiles.set("medium", "sorted", ExitThresholds::parse("0.8,0.7", 3).unwrap());
        profiles.set("small", "sorted", ExitThresholds::parse("0.3,0.5", 3).unwrap());
        let written = profiles.to_json();
        assert_eq!(Profiles::parse(&written).unwrap().to_json(), written);
        assert_eq!(profiles.thresholds("small", "sorted").unwrap().to_string(), "0.3,0.5");
        assert_eq!(profiles.thresholds("small", "other"), None);
    }

    #[test]
    fn a_policy_is_that_of_the_pair_or_else_of_the_target() {
        let text =
            r#"{"small": {"sorted": {"thresholds": [0.5], "policy": "cape"}, "edd": [0.5], "*": {"policy": "svip"}}}"#;
        let mut profiles = Profiles::parse(text).unwrap();
        profiles.set("small", "sorted", ExitThresholds::parse("0.3", 2).unwrap());
        let profiles = Profiles::parse(&profiles.to_json()).unwrap();
        let policy = |target, drafter| profiles.policy(target, drafter).map(PolicySpec::name);
        assert_eq!([policy("small", "sorted"), policy("small", "edd")], [Some("cape"), Some("svip")]);
        assert_eq!([policy("small", "other"), policy("medium", "sorted")], [Some("svip"), None]);
        let thresholds = |drafter| profiles.thresholds("small", drafter).map(ToString::to_string);
        assert_eq!([thresholds("sorted"), thresholds("other")], [Some("0.3".to_owned()), None]);
    }

    #[test]
    fn what_is_no_profile_is_refused_by_its_names() {
        let error = |text: &str| Profiles::parse(text).unwrap_err();
        let wrong = error(r#"{"small": {"sorted": [0.5, 1.5]}}"#);
        assert_eq!(wrong.to_string(), "the thresholds of drafter `sorted` for target `small`");
        let why = wrong.source().unwrap().to_string();
        assert_eq!(why, "the threshold of exit 1 is 1.5, which is not between 0 and 1");
        let wrong = error(r#"{"small": {"sorted": {"policy": "guess"}}}"#);
        assert_eq!(wrong.to_string(), "the policy of drafter `sorted` for target `small`");
        assert!(wrong.source().unwrap().to_string().contains("`guess`"));
        for (drafter, found) in
            [("sorted", r#"{"polcy":"cape"}"#), ("sorted", "0.5"), ("*", "[0.5]"), ("a", r#"["x"]"#)]
        {
            let wrong = error(&format!(r#"{{"small": {{"{drafter}": {found}}}}}"#)).to_string();
            assert!(wrong.contains(&format!("of drafter `{drafter}` for target `small` is `{found}`")), "{wrong}");
        }
        assert!(matches!(error(r#"{"small": [0.5]}"#), ParseError::Json(_)));
        assert!(matches!(Profiles::read(Path::new("/nowhere.json")), Err(ProfilesError::Read { .. })));
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles.json");
        std::fs::write(&path, " ".repeat(PROFILES_BYTES_MAX as usize + 1)).unwrap();
        assert!(matches!(Profiles::read(&path), Err(ProfilesError::Long { .. })));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(Profiles::read(&path).unwrap().to_json(), Profiles::default().to_json());
    }
}
