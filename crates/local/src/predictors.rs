//! Predictors of acceptance, and the drafters that they were trained with.

use espalier_drafter::Config as DrafterConfig;
use espalier_model::{PredictorConfig, fingerprint};

use crate::args::SystemArgs;
use crate::error::LocalError;
use crate::models::checkpoint;

/// Gives every predictor that is asked for to the drafter that it was trained with. A drafter that is cut to some of its
/// layers is another.
///
/// # Errors
/// A predictor that cannot be read, or whose drafter is none of these.
pub(crate) fn give(drafters: &mut [DrafterConfig], system: &SystemArgs) -> Result<(), LocalError> {
    for name in &system.predictors {
        let folder = checkpoint(name, system)?;
        let wanted = PredictorConfig::read(&folder)?.drafter;
        let mut given = false;
        for drafter in drafters.iter_mut().filter(|drafter| drafter.layers.is_none()) {
            if fingerprint(&drafter.model)? == wanted {
                drafter.predictors.push(folder.clone());
                given = true;
            }
        }
        if !given {
            return Err(LocalError::NoDrafterOf { predictor: name.clone(), fingerprint: wanted });
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::json;

    use super::*;
    use crate::testing::shipped;

    /// The folder of a predictor that says it was trained with the drafter of this fingerprint.
    fn trained_with(drafter: &str) -> tempfile::TempDir {
        let target = json!({ "name": "t", "fingerprint": "f", "tokenizer": "v", "layers": 8, "hidden_size": 256 });
        let config = json!({
            "model_type": "espalier_cali_ts", "target": target, "tapped_layer": 8, "drafter": drafter,
            "draft_hidden_size": 256,
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        folder
    }

    #[test]
    fn a_predictor_goes_to_the_whole_drafter_that_it_was_trained_with() {
        let small = checkpoint("small", &shipped()).unwrap();
        let drafter =
            |name: &str, layers| DrafterConfig::new(checkpoint(name, &shipped()).unwrap(), layers, NonZeroUsize::MIN);
        let fitting = trained_with(&fingerprint(&small).unwrap());
        let system = |folder: &tempfile::TempDir| {
            let predictors = vec![folder.path().to_str().unwrap().to_owned()];
            SystemArgs { predictors, ..shipped() }
        };
        let mut drafters = [drafter("small", Some(3)), drafter("medium-edd", None), drafter("small", None)];
        give(&mut drafters, &system(&fitting)).unwrap();
        assert_eq!(drafters.each_ref().map(|drafter| drafter.predictors.len()), [0, 0, 1]);

        let stray = give(&mut drafters, &system(&trained_with("gone"))).unwrap_err().to_string();
        assert!(stray.ends_with("of fingerprint gone, which is none of those here"), "{stray}");
        let cut = give(&mut drafters[..2], &system(&fitting));
        assert!(matches!(cut, Err(LocalError::NoDrafterOf { .. })), "{cut:?}");
    }
}
