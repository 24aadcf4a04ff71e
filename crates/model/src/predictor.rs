//! The acceptance predictor of `cali-ts` (EESD, "Speculative Decoding via Early-exiting", Thompson sampling with
//! calibration).
//!
//! `theta_M = sigmoid(w · [W_i h_target ; h_draft])`, `i` being the step in the round: how likely the target is to take the
//! token that is drafted there. Both states are divided by their root mean square first, which the paper leaves open:
//! residual streams grow with depth, and no two models' alike.

use std::path::Path;

use candle_core::DType;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{CONFIG, Checkpoint};
use crate::draft::{DraftFault, TargetCard};
use crate::error::{ModelError, Result};
use crate::weights::Weights;

/// Steps with a matrix of their own; later ones share the last.
pub const PREDICTOR_STEPS: usize = 10;

/// Added to mean squares, to keep a state of zeros finite.
const EPS: f32 = 1e-6;

/// `config.json` of a predictor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorConfig {
    /// Tells its folder from that of a model.
    pub model_type: PredictorKind,
    /// The target.
    pub target: TargetCard,
    /// The layer of the target, counted from 1, after which its hidden states are read.
    pub tapped_layer: usize,
    /// [`fingerprint`](crate::fingerprint()) of the drafter's folder.
    pub drafter: String,
    /// The width of the drafter's residual stream.
    pub draft_hidden_size: usize,
}

/// The only kind of predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PredictorKind {
    /// Of `cali-ts`.
    #[serde(rename = "espalier_cali_ts")]
    CaliTs,
}

impl PredictorConfig {
    /// Reads what the predictor in a folder says of itself.
    ///
    /// # Errors
    /// A file that cannot be read, is no predictor's, or names a layer that the target does not have.
    pub fn read(dir: &Path) -> Result<Self> {
        let malformed = |fault| ModelError::Json { path: dir.join(CONFIG), fault };
        let config: Self = serde_json::from_str(&Checkpoint::describe(dir)?).map_err(malformed)?;
        let (field, found, max) = ("tapped_layer", config.tapped_layer, config.target.layers);
        if (1..=max).contains(&found) {
            return Ok(config);
        }
        Err(ModelError::Draft { folder: dir.to_owned(), fault: DraftFault::Layer { field, found, max } })
    }

    /// The tensors that a folder holds and their shapes: the steps' matrices, `target.weight`, and `output.weight`, whose
    /// first part weighs the target's state.
    pub fn shapes(&self) -> [(&'static str, Vec<usize>); 2] {
        let hidden = self.target.hidden_size;
        [
            ("target.weight", vec![PREDICTOR_STEPS, hidden, hidden]),
            ("output.weight", vec![1, hidden.saturating_add(self.draft_hidden_size)]),
        ]
    }
}

/// A predictor for one drafter and one target.
#[derive(Debug, Clone)]
pub struct Predictor {
    config: PredictorConfig,
    /// (steps, target's hidden): what a step's matrix and the output's first part come to together.
    of_target: Vec<f32>,
    /// (drafter's hidden)
    of_draft: Vec<f32>,
}

impl Predictor {
    /// Loads the predictor in a folder.
    ///
    /// # Errors
    /// Whatever is wrong with the folder: files, tensors, shapes.
    pub fn open(dir: &Path) -> Result<Self> {
        let config = PredictorConfig::read(dir)?;
        let (weights, hidden) = (Weights::open(dir)?, config.target.hidden_size);
        let [matrices, output] = config.shapes().map(|(name, shape)| weights.tensor(name, &shape));
        let output = output?.to_dtype(DType::F32)?;
        let of_target = output.narrow(1, 0, hidden)?.broadcast_matmul(&matrices?.to_dtype(DType::F32)?)?;
        let of_draft = output.narrow(1, hidden, config.draft_hidden_size)?;
        let (of_target, of_draft) = (of_target.flatten_all()?.to_vec1()?, of_draft.flatten_all()?.to_vec1()?);
        Ok(Self { config, of_target, of_draft })
    }

    /// Which target and drafter it is for.
    pub fn config(&self) -> &PredictorConfig {
        &self.config
    }

    /// `theta_M`, between 0 and 1, of the token drafted in step `step` of a round, counted from 1. `target_state` is the
    /// target's residual stream after the tapped layer at the last position that it has processed; `draft_state` the
    /// drafter's at the node that the token is drafted from, where it left the drafter.
    ///
    /// # Errors
    /// Step 0, states of another width, or states that are not finite.
    pub fn theta(&self, step: usize, target_state: &[f32], draft_state: &[f32]) -> Result<f64> {
        let hidden = self.config.target.hidden_size;
        let step = step.min(PREDICTOR_STEPS).checked_sub(1).ok_or(ModelError::NoStep)?;
        check_width("the target's state", target_state, hidden)?;
        check_width("the drafter's state", draft_state, self.of_draft.len())?;
        let of_target = normalised_product(target_state, &self.of_target[step * hidden..][..hidden]);
        let theta = 1.0 / (1.0 + (-of_target - normalised_product(draft_state, &self.of_draft)).exp());
        if theta.is_finite() { Ok(theta) } else { Err(ModelError::NotFinite { what: "a predicted acceptance" }) }
    }
}

/// Divides a state by its root mean square, as predictors read it.
pub fn normalise_state(state: &mut [f32]) {
    let scale = scale(state);
    state.iter_mut().for_each(|value| *value *= scale);
}

fn scale(state: &[f32]) -> f32 {
    let mean_square = state.iter().map(|value| value * value).sum::<f32>() / state.len().max(1) as f32;
    1.0 / (mean_square + EPS).sqrt()
}

fn normalised_product(state: &[f32], weights: &[f32]) -> f64 {
    let product: f64 = state.iter().zip(weights).map(|(value, weight)| f64::from(*value) * f64::from(*weight)).sum();
    product * f64::from(scale(state))
}

fn check_width(name: &str, state: &[f32], expected: usize) -> Result<()> {
    if state.len() == expected {
        return Ok(());
    }
    Err(ModelError::Shape { name: name.to_owned(), expected: vec![expected], found: vec![state.len()] })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashMap;

    use candle_core::{Device, Tensor};

    use super::*;

    fn config() -> PredictorConfig {
        let target = TargetCard {
            name: "t".to_owned(),
            fingerprint: "f".to_owned(),
            tokenizer: "v".to_owned(),
            layers: 1,
            hidden_size: 2,
        };
        let model_type = PredictorKind::CaliTs;
        PredictorConfig { model_type, target, tapped_layer: 1, drafter: "d".to_owned(), draft_hidden_size: 1 }
    }

    /// Matrix `i` is `i` times a turn of the plane by a right angle; the output is [1, 2 ; 3].
    fn open(config: &PredictorConfig) -> Result<Predictor> {
        let folder = tempfile::tempdir().unwrap();
        let turn = (0..PREDICTOR_STEPS).flat_map(|i| [0.0, -(i as f32), i as f32, 0.0]).collect::<Vec<_>>();
        let tensors = HashMap::from([
            ("target.weight", Tensor::from_vec(turn, (PREDICTOR_STEPS, 2, 2), &Device::Cpu).unwrap()),
            ("output.weight", Tensor::new(&[[1.0_f32, 2.0, 3.0]], &Device::Cpu).unwrap()),
        ]);
        candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
        std::fs::write(folder.path().join(CONFIG), serde_json::to_string(config).unwrap()).unwrap();
        Predictor::open(folder.path())
    }

    fn predictor() -> Predictor {
        open(&config()).unwrap()
    }

    #[test]
    fn a_prediction_is_the_formula() {
        let predictor = predictor();
        let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
        for (step, matrix) in [(1, 0.0), (2, 1.0), (10, 9.0), (300, 9.0)] {
            // (0.6, 0.8) has a mean square of 1/2; turned it is (-0.8, 0.6).
            let of_target = matrix * (-0.8 + 2.0 * 0.6) * 2.0_f64.sqrt();
            let theta = predictor.theta(step, &[0.6, 0.8], &[-5.0]).unwrap();
            assert!((theta - sigmoid(of_target - 3.0)).abs() < 1e-5, "step {step}: {theta}");
        }
        // A state of zeros is no opinion.
        assert_eq!(predictor.theta(3, &[0.0, 0.0], &[0.0]).unwrap(), 0.5);
    }

    #[test]
    fn an_impossible_question_is_an_error() {
        let predictor = predictor();
        let refusal =
            |step, target: &[f32], draft: &[f32]| predictor.theta(step, target, draft).unwrap_err().to_string();
        assert_eq!(refusal(0, &[1.0; 2], &[1.0]), "the steps of a round are counted from 1, not from 0");
        assert_eq!(refusal(1, &[1.0; 3], &[1.0]), "the target's state has shape [3], expected [2]");
        assert_eq!(refusal(1, &[1.0; 2], &[]), "the drafter's state has shape [0], expected [1]");
        assert_eq!(refusal(1, &[1.0; 2], &[f32::NAN]), "a predicted acceptance is not finite");
    }

    #[test]
    fn what_is_no_predictor_is_refused() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen3");
        let fault = Predictor::open(&model).unwrap_err().to_string();
        assert!(fault.contains("config.json: unknown variant `qwen3`, expected `espalier_cali_ts`"), "{fault}");
        let fault = open(&PredictorConfig { tapped_layer: 2, ..config() }).unwrap_err().to_string();
        assert!(fault.ends_with("`tapped_layer` is 2, outside 1..=1"), "{fault}");
    }
}
