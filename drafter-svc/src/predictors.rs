//! The acceptance predictors that a drafter has, one for each target at most.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use espalier_model::{DraftModel, Predictor, PredictorConfig, fingerprint};

use crate::config::Config;
use crate::error::{DrafterError, PredictorError, PredictorFault};

/// The predictors by the fingerprints of their targets.
#[derive(Debug, Default)]
pub(crate) struct Predictors(HashMap<String, Arc<Predictor>>);

impl Predictors {
    /// Loads those that `config` names for its drafter, `model`.
    pub(crate) fn open(config: &Config, model: &DraftModel) -> Result<Self, DrafterError> {
        let mut predictors = Self::default();
        if config.predictors.is_empty() {
            return Ok(predictors);
        }
        let drafter = Host { model, fingerprint: fingerprint(&config.model)?, layers: config.layers };
        for folder in &config.predictors {
            let added = drafter.open(folder).and_then(|predictor| predictors.add(predictor));
            let target = added.map_err(|source| PredictorError { folder: folder.clone(), source })?;
            tracing::info!(folder = %folder.display(), target, "acceptance will be predicted");
        }
        Ok(predictors)
    }

    /// Adds one; returns its target's name.
    fn add(&mut self, predictor: Predictor) -> Result<String, PredictorFault> {
        let target = predictor.config().target.clone();
        match self.0.insert(target.fingerprint, Arc::new(predictor)) {
            None => Ok(target.name),
            Some(_) => Err(PredictorFault::Twice { target: target.name }),
        }
    }

    /// The one for the target of this fingerprint, if there is one.
    pub(crate) fn of_target(&self, fingerprint: &str) -> Option<&Arc<Predictor>> {
        self.0.get(fingerprint)
    }
}

/// The drafter whose acceptance is to be predicted.
struct Host<'a> {
    model: &'a DraftModel,
    fingerprint: String,
    /// Layers that it is cut to, if it is.
    layers: Option<usize>,
}

impl Host<'_> {
    fn open(&self, folder: &Path) -> Result<Predictor, PredictorFault> {
        let predictor = Predictor::open(folder).map_err(|fault| PredictorFault::Model(Box::new(fault)))?;
        self.check_training(predictor.config())?;
        self.check_states(predictor.config())?;
        Ok(predictor)
    }

    /// Refuses what was trained with another drafter, or with more of this one than there is.
    fn check_training(&self, config: &PredictorConfig) -> Result<(), PredictorFault> {
        let (expected, found) = (&self.fingerprint, &config.drafter);
        if found != expected {
            return Err(PredictorFault::OtherDrafter { expected: expected.clone(), found: found.clone() });
        }
        self.layers.map_or(Ok(()), |layers| Err(PredictorFault::Cut { layers }))
    }

    /// Refuses what reads other states than there are.
    fn check_states(&self, config: &PredictorConfig) -> Result<(), PredictorFault> {
        let (expected, found) = (self.model.decoder().config().hidden, config.draft_hidden_size);
        if found != expected {
            return Err(PredictorFault::Width { expected, found });
        }
        let found = config.tapped_layer;
        let needed = self.model.kind().tapped_layer();
        needed.filter(|expected| found != *expected).map_or(Ok(()), |expected| {
            Err(PredictorFault::OtherLayer { target: config.target.name.clone(), expected, found })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::num::NonZeroUsize;

    use espalier_service_kit::chain;
    use tempfile::TempDir;

    use super::*;
    use crate::engine::testing::{WIDTH, edd, independent, predictor, predictor_config, target};

    fn folder(config: &PredictorConfig) -> TempDir {
        predictor(config, vec![0.0; WIDTH + config.draft_hidden_size])
    }

    fn open(model: &DraftModel, layers: Option<usize>, folders: &[&TempDir]) -> Result<Predictors, String> {
        let config = Config::new(target(), layers, NonZeroUsize::MIN);
        let predictors = folders.iter().map(|folder| folder.path().to_owned()).collect();
        Predictors::open(&Config { predictors, ..config }, model).map_err(|error| chain(&error))
    }

    #[test]
    fn a_predictor_is_found_by_its_target_s_fingerprint() {
        let mut config = predictor_config();
        let first = folder(&config);
        config.target.fingerprint = "another".to_owned();
        let second = folder(&PredictorConfig { tapped_layer: 4, ..config });
        let predictors = open(&independent(), None, &[&first, &second]).unwrap();
        let layer = |target: &str| Some(predictors.of_target(target)?.config().tapped_layer);
        assert_eq!(layer(&predictor_config().target.fingerprint), Some(2));
        assert_eq!((layer("another"), layer("a third")), (Some(4), None));
        assert!(open(&independent(), None, &[]).unwrap().0.is_empty());
    }

    #[test]
    fn a_predictor_that_does_not_suit_is_refused_with_what_is_wrong() {
        let model = independent();
        let refusal = |config| open(&model, None, &[&folder(&config)]).unwrap_err();
        let other = refusal(PredictorConfig { drafter: "another".to_owned(), ..predictor_config() });
        let expected = fingerprint(&target()).unwrap();
        let told = format!("cannot be used: it was trained with a drafter of fingerprint another, not {expected}");
        assert!(other.ends_with(&told), "{other}");
        let wide = refusal(PredictorConfig { draft_hidden_size: 32, ..predictor_config() });
        assert!(wide.ends_with("it reads drafter states of width 32, not 64"), "{wide}");

        let good = folder(&predictor_config());
        let cut = open(&model, Some(2), &[&good]).unwrap_err();
        assert!(cut.ends_with("it was trained with the whole drafter, which is cut to 2 layers"), "{cut}");
        let twice = open(&model, None, &[&good, &good]).unwrap_err();
        assert!(twice.ends_with("it is the second one for the target `qwen3`"), "{twice}");
        let none = open(&model, None, &[&tempfile::tempdir().unwrap()]).unwrap_err();
        assert!(none.starts_with("the predictor in ") && none.ends_with(" has no config.json"), "{none}");
    }

    #[test]
    fn a_drafter_that_reads_states_takes_predictors_of_the_same_layer_only() {
        let deeper = PredictorConfig { tapped_layer: 3, ..predictor_config() };
        assert!(open(&edd(), None, &[&folder(&predictor_config())]).is_ok());
        assert!(open(&independent(), None, &[&folder(&deeper)]).is_ok());
        let refusal = open(&edd(), None, &[&folder(&deeper)]).unwrap_err();
        let told = "reads the states after layer 3 of `qwen3`, the drafter those after layer 2";
        assert!(refusal.ends_with(told), "{refusal}");
    }
}
