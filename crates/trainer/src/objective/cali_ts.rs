//! `cali-ts`: how likely the target is to take what the drafter says (EESD, Thompson sampling with calibration).
//!
//! Target and drafter run frozen. Texts are cut into rounds of random length; with `s` the root of its round, position `p`
//! is where step `p - s + 1` drafts, from the text up to there. The label says whether the drafter's most likely token is
//! the target's. On text that the target wrote itself these are the steps of a chain whose tokens were taken so far.

use candle_core::Tensor;
use espalier_model::{
    Checkpoint, DraftModel, Logits, ModelError, PREDICTOR_STEPS, PredictorConfig, PredictorKind, fingerprint,
    normalise_state,
};
use espalier_speculation::{Token, arg_max};
use serde_json::json;

use super::dual_block::Blocks;
use super::{Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::Result;
use crate::files;
use crate::nn::{Params, Scope, Start, check_length};
use crate::random::Draws;
use crate::recipe::CaliTsMethod;
use crate::target::{self, Seen, Target, check_tokenizer};

/// Rounds last as long as steps have matrices of their own.
const ROUNDS: Blocks = Blocks { min: 1, max: PREDICTOR_STEPS };

/// The predictor, and the two models that it mediates between.
pub(super) struct CaliTs {
    params: Params,
    /// (steps, target's hidden, target's hidden)
    matrices: Tensor,
    /// (1, target's hidden + drafter's hidden)
    output: Tensor,
    target: Target,
    drafter: Target,
    config: PredictorConfig,
    /// Whether the drafter reads the target's states.
    reads_states: bool,
    /// The layer after which a row leaves the drafter.
    draft_layers: usize,
    product: Product,
}

impl CaliTs {
    pub(super) fn open(method: &CaliTsMethod, setting: &Setting) -> Result<Self> {
        let checkpoint = Checkpoint::open(&method.target)?;
        check_tokenizer(&method.drafter, &method.target)?;
        let options = setting.place.load_options(&checkpoint.weights()?);
        let drafter = DraftModel::open(&method.drafter, Some(&method.target), &options)?;
        check_length(&checkpoint.config, setting.length)?;
        check_length(drafter.decoder().config(), setting.length)?;
        let taps = drafter.kind().tapped_layer();
        let config = PredictorConfig {
            model_type: PredictorKind::CaliTs,
            target: target::card(&checkpoint)?,
            // The states that the drafter gets anyway, or the last ones.
            tapped_layer: taps.unwrap_or(checkpoint.config.layers),
            drafter: fingerprint(&method.drafter)?,
            draft_hidden_size: drafter.decoder().config().hidden,
        };
        let mut params = Params::new(setting.dtype, &setting.place);
        let mut scope = Scope::new(&mut params, "", Start::Random { seed: setting.seed });
        let [matrices, output] = config.shapes().map(|(name, shape)| scope.tensor(name, &shape));
        Ok(Self {
            matrices: matrices?,
            output: output?,
            params,
            target: Target::load(&checkpoint, None, &setting.place)?,
            reads_states: taps.is_some(),
            draft_layers: drafter.decoder().layers(),
            product: product(method, &config, drafter.kind().name()),
            drafter: Target::of(drafter.into_decoder()),
            config,
        })
    }

    /// What the drafter says at every position.
    fn draft(&self, batch: &Batch, starts: &[usize], target: &Seen) -> Result<Seen> {
        if self.reads_states {
            return self.drafter.see_in_blocks(batch, starts, &target.states);
        }
        self.drafter.see(batch, self.draft_layers, Logits::All)
    }

    /// Two logits for each position, that of disagreement being 0: (positions, 2).
    fn logits(&self, rounds: &Rounds) -> Result<Tensor> {
        let Params { dtype, ref place, .. } = self.params;
        let device = place.device();
        let (hidden, positions) = (self.config.target.hidden_size, rounds.steps.len());
        let tensor = |values: &[f32]| Tensor::from_slice(values, (positions, values.len() / positions), device);
        let of_target = tensor(&rounds.target_states)?.to_dtype(dtype)?; // (positions, hidden)
        let of_draft = tensor(&rounds.draft_states)?.to_dtype(dtype)?;
        let steps = Tensor::from_slice(&rounds.steps, positions, device)?;
        let weights = self.output.narrow(1, 0, hidden)?.broadcast_matmul(&self.matrices)?.squeeze(1)?; // (steps, hidden)
        let of_target = (weights.index_select(&steps, 0)? * of_target)?.sum_keepdim(1)?; // (positions, 1)
        let of_draft = of_draft.matmul(&self.output.narrow(1, hidden, self.config.draft_hidden_size)?.t()?)?;
        let agreement = (of_target + of_draft)?;
        Ok(Tensor::cat(&[&agreement.zeros_like()?, &agreement], 1)?)
    }
}

impl Objective for CaliTs {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, mut draws: Draws) -> Result<Prediction> {
        let starts = ROUNDS.cut(batch, &mut draws);
        let target = self.target.see(batch, self.config.tapped_layer, Logits::All)?;
        let drafter = self.draft(batch, &starts, &target)?;
        let rounds = Rounds::new(batch, &starts, &target, &drafter)?;
        let logits = self.logits(&rounds)?;
        Ok(Prediction::single("agreement", logits, Goal::of_tokens(rounds.agrees, &self.params.place)?))
    }

    fn product(&self) -> &Product {
        &self.product
    }
}

/// What is known at every position of a batch.
struct Rounds {
    /// (positions, target's hidden): the normalised state at the last position that the target had processed.
    target_states: Vec<f32>,
    /// (positions, drafter's hidden): the normalised state of the drafter.
    draft_states: Vec<f32>,
    /// The step of each position's round, from 0.
    steps: Vec<u32>,
    /// 1 where both models say the same, 0 where they do not; none where there was no such moment: before its first round
    /// the target has processed nothing.
    agrees: Vec<Option<Token>>,
}

impl Rounds {
    fn new(batch: &Batch, starts: &[usize], target: &Seen, drafter: &Seen) -> Result<Self> {
        let positions = starts.len();
        let width = |values: &[f32]| values.len() / positions.max(1);
        let (hidden, vocab) = (width(&target.states), width(&target.logits).min(width(&drafter.logits)));
        // The most likely token of a position, among those that both models know.
        let best = |logits: &[f32], at| arg_max(&logits[at * width(logits)..][..vocab]).map_err(ModelError::from);
        let mut target_states = vec![0.0; target.states.len()];
        let (mut steps, mut agrees) = (vec![0; positions], vec![None; positions]);
        for span in batch.spans() {
            let first = batch.first_of(span);
            for at in (first..first + span.length).filter(|at| starts[*at] > 0) {
                let processed = first + starts[at] - 1;
                let state = &mut target_states[at * hidden..][..hidden];
                state.copy_from_slice(&target.states[processed * hidden..][..hidden]);
                normalise_state(state);
                steps[at] = (at - first - starts[at]) as u32;
                agrees[at] = Some(u32::from(best(&target.logits, at)? == best(&drafter.logits, at)?));
            }
        }
        let mut draft_states = drafter.states.clone();
        draft_states.chunks_exact_mut(width(&drafter.states).max(1)).for_each(normalise_state);
        Ok(Self { target_states, draft_states, steps, agrees })
    }
}

fn product(method: &CaliTsMethod, config: &PredictorConfig, kind: &str) -> Product {
    let mut about = target::about(&config.target);
    let name = files::name(&method.drafter);
    about.push(("drafter".to_owned(), format!("{name}, {kind}")));
    about.push(("drafter's fingerprint".to_owned(), config.drafter.clone()));
    about.push(("hidden states of the target after layer".to_owned(), config.tapped_layer.to_string()));
    Product { config: json!(config), about }
}
