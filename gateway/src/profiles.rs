//! Thresholds of exits by target and drafter, as `espalier tune thresholds` writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use espalier_speculation::{ExitError, ExitThresholds};
use thiserror::Error;

/// The longest file of profiles, in bytes.
pub const PROFILES_BYTES_MAX: u64 = 1 << 20;

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
}

/// Thresholds by the names of target and drafter.
///
/// # Examples
/// ```
/// use espalier_gateway::Profiles;
/// let profiles = Profiles::parse(r#"{"medium": {"sorted": [0.75, 0.7]}}"#)?;
/// assert_eq!(profiles.thresholds("medium", "sorted").map(ToString::to_string).as_deref(), Some("0.75,0.7"));
/// assert!(profiles.thresholds("small", "sorted").is_none());
/// # Ok::<_, espalier_gateway::ParseError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles(BTreeMap<String, BTreeMap<String, ExitThresholds>>);

impl Profiles {
    /// Reads a JSON object of targets, each with an object of drafters, each with a list of thresholds.
    ///
    /// # Errors
    /// A text of another shape; thresholds that are none.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let given: BTreeMap<String, BTreeMap<String, Vec<f64>>> = serde_json::from_str(text)?;
        let mut profiles = Self::default();
        for (target, drafters) in given {
            for (drafter, thresholds) in drafters {
                let exits = thresholds.len() + 1;
                match ExitThresholds::new(thresholds, exits) {
                    Ok(thresholds) => profiles.set(&target, &drafter, thresholds),
                    Err(source) => return Err(ParseError::Thresholds { target, drafter, source }),
                }
            }
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
        let of_target = |(target, drafters): (&String, &BTreeMap<String, ExitThresholds>)| {
            let of_drafter =
                |(drafter, exits): (&String, &ExitThresholds)| (drafter.clone(), exits.thresholds().to_vec());
            (target.clone(), drafters.iter().map(of_drafter).collect())
        };
        let lists: BTreeMap<String, BTreeMap<String, Vec<f64>>> = self.0.iter().map(of_target).collect();
        format!("{:#}\n", serde_json::json!(lists))
    }

    /// What is known of a target with a drafter.
    pub fn thresholds(&self, target: &str, drafter: &str) -> Option<&ExitThresholds> {
        self.0.get(target)?.get(drafter)
    }

    /// Has a drafter use these thresholds for a target, whatever was known before.
    pub fn set(&mut self, target: &str, drafter: &str, thresholds: ExitThresholds) {
        self.0.entry(target.to_owned()).or_default().insert(drafter.to_owned(), thresholds);
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
        assert_eq!(Profiles::parse(&written).unwrap(), profiles, "{written}");
        assert_eq!(profiles.thresholds("small", "sorted").unwrap().to_string(), "0.3,0.5");
        assert_eq!(profiles.thresholds("small", "other"), None);
    }

    #[test]
    fn what_is_no_profile_is_refused_by_its_names() {
        let error = |text| Profiles::parse(text).unwrap_err();
        let wrong = error(r#"{"small": {"sorted": [0.5, 1.5]}}"#);
        assert_eq!(wrong.to_string(), "the thresholds of drafter `sorted` for target `small`");
        let why = wrong.source().unwrap().to_string();
        assert_eq!(why, "the threshold of exit 1 is 1.5, which is not between 0 and 1");
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
        assert_eq!(Profiles::read(&path).unwrap(), Profiles::default());
    }
}
