//! The profiles that a system uses.

use std::path::{Path, PathBuf};

use espalier_gateway::Profiles;

use crate::args::SystemArgs;
use crate::error::LocalError;
use crate::models::{DrafterChoice, models_folder};

/// The file of profiles in a folder of models.
const PROFILES: &str = "profiles.json";

/// The profiles that were asked for; or else those of the folder of models, if `targets` and `drafters` are all from there.
///
/// # Errors
/// A file that holds no profiles.
pub(crate) fn of(targets: &[PathBuf], drafters: &[DrafterChoice], system: &SystemArgs) -> Result<Profiles, LocalError> {
    let file = system.profiles.clone().or_else(|| beside(targets, drafters, system));
    Ok(file.as_deref().map(Profiles::read).transpose()?.unwrap_or_default())
}

/// The file beside the models. Profiles go by names, and a checkpoint from elsewhere may have the name of one that its
/// thresholds do not suit.
fn beside(targets: &[PathBuf], drafters: &[DrafterChoice], system: &SystemArgs) -> Option<PathBuf> {
    let models = models_folder(system).ok()?.path.canonicalize().ok()?;
    let is_inside = |folder: &Path| folder.canonicalize().is_ok_and(|folder| folder.parent() == Some(&models));
    let of_drafters = drafters.iter().filter_map(|choice| match choice {
        DrafterChoice::Model { folder, .. } => Some(folder),
        DrafterChoice::Ngram | DrafterChoice::None => None,
    });
    let file = models.join(PROFILES);
    (targets.iter().chain(of_drafters).all(|folder| is_inside(folder)) && file.is_file()).then_some(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::models::checkpoint;
    use crate::testing::shipped;

    fn thresholds(targets: &[PathBuf], drafter: &str, system: &SystemArgs) -> Option<String> {
        let drafters = [DrafterChoice::parse(drafter, system).unwrap()];
        of(targets, &drafters, system).unwrap().thresholds("medium", "sorted").map(ToString::to_string)
    }

    #[test]
    fn shipped_models_have_the_shipped_profile_unless_another_is_asked_for() {
        let medium = [checkpoint("medium", &shipped()).unwrap()];
        assert_eq!(thresholds(&medium, "sorted", &shipped()).as_deref(), Some("0,0.9"));
        let mut asked = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut asked, br#"{"medium": {"sorted": [0.5, 0.5]}}"#).unwrap();
        let system = SystemArgs { profiles: Some(asked.path().to_owned()), ..shipped() };
        assert_eq!(thresholds(&medium, "sorted", &system).as_deref(), Some("0.5,0.5"));
    }

    #[test]
    fn a_checkpoint_from_elsewhere_has_none() {
        let elsewhere = tempfile::tempdir().unwrap();
        let medium = elsewhere.path().join("medium");
        std::fs::create_dir(&medium).unwrap();
        assert_eq!(thresholds(&[medium], "sorted", &shipped()), None);
        let small = [checkpoint("small", &shipped()).unwrap()];
        let drafter = elsewhere.path().join("sorted");
        std::fs::create_dir(&drafter).unwrap();
        std::fs::write(drafter.join("config.json"), "{}").unwrap();
        assert_eq!(thresholds(&small, drafter.to_str().unwrap(), &shipped()), None);
    }
}
