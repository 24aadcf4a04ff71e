//! What a training is: everything its result depends on, in a form that a checkpoint carries.

mod options;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::Pace;
use crate::error::{Result, TrainError, count, in_range};

pub use options::{OptimiserOptions, Options, Precision, THREADS_MAX};

/// Longest training sequence: what the frozen target runs in one pass.
pub const ROW_LENGTH_MAX: usize = espalier_model::ROWS_MAX;
/// Most rows of a batch, and most batches of a step.
pub const BATCH_MAX: usize = 4096;
/// Most epochs.
pub const EPOCHS_MAX: usize = 1000;
/// Most layers of a drafter or a model made from nothing.
pub const LAYERS_MAX: usize = 1024;
/// Longest block of the dual-block mask.
pub const BLOCK_MAX: usize = 1024;
/// Most teachers of a drafter.
pub const TEACHERS_MAX: usize = 16;

/// A whole training. Two runs of one recipe on one machine give the same bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// What is trained, and towards what.
    pub method: Method,
    /// The text.
    pub data: DataOptions,
    /// How the optimiser walks.
    pub options: Options,
}

/// What is trained, and towards what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Method {
    /// A language model on the next token.
    Base(BaseMethod),
    /// S2D's sorted drafter: several exits that share one norm and one head.
    Sorted(SortedMethod),
    /// The effective draft decoder: one layer over the target's hidden states.
    Edd(EddMethod),
    /// EESD's early exit: one layer on top of the target's first ones.
    EarlyExit(EarlyExitMethod),
    /// EESD's predictor of acceptance, for a drafter and a target that are there.
    CaliTs(CaliTsMethod),
}

/// `base`: cross-entropy on the next token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseMethod {
    /// Go on from a checkpoint.
    Checkpoint(PathBuf),
    /// Begin with random weights.
    Scratch {
        /// A checkpoint folder whose tokenizer and special tokens the model will have.
        tokenizer: PathBuf,
        /// Its sizes.
        shape: ModelShape,
    },
}

/// The sizes of a Llama model with tied embeddings and heads of `hidden / heads`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Transformer layers.
    pub layers: usize,
    /// The width of the residual stream, a multiple of twice the heads.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// The inner width of the feed-forward.
    pub ffn: usize,
    /// Positions.
    pub context: usize,
}

/// `sorted` (S2D, §3): the mean, over exits, of the cross-entropy there. Ours is that it may be mixed with the divergence
/// from targets that the drafter will serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortedMethod {
    /// The checkpoint whose first layers, norm and head the drafter begins with.
    pub init: PathBuf,
    /// Layers of the drafter; the last is the last exit.
    pub layers: usize,
    /// The layers after which a drafter may answer, rising.
    pub exits: Vec<usize>,
    /// The checkpoints of targets that run frozen beside it: with `w` the weight, the loss at an exit is
    /// `(1 - w) * cross-entropy + w * KL(teacher || exit)`, the latter averaged over them. None: cross-entropy alone.
    pub teachers: Vec<PathBuf>,
    /// The teachers' weight, 0 to 1.
    pub teacher_weight: f64,
}

impl SortedMethod {
    /// The paper's way of training the first layers of a checkpoint: no teachers.
    pub fn new(init: PathBuf, exits: Vec<usize>) -> Self {
        let layers = exits.last().copied().unwrap_or(0);
        Self { init, layers, exits, teachers: Vec::new(), teacher_weight: 0.5 }
    }

    fn check(&self) -> Result<()> {
        let Self { layers, exits, teachers, teacher_weight, .. } = self;
        count("layers", *layers, LAYERS_MAX)?;
        let rises = exits.is_sorted_by(|a, b| a < b) && exits.first().is_some_and(|first| *first > 0);
        if !rises || exits.last() != Some(layers) {
            return Err(TrainError::Exits { exits: exits.clone(), layers: *layers });
        }
        in_range("teachers", teachers.len() as f64, 0.0, TEACHERS_MAX as f64)?;
        in_range("the teachers' weight", *teacher_weight, 0.0, 1.0)
    }
}

/// `edd` (EDD and PCT, §3.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EddMethod {
    /// The checkpoint of the target, which runs frozen.
    pub target: PathBuf,
    /// The layer, from 1, after which the target's hidden states are read; the fourth-to-last when absent.
    pub tapped_layer: Option<usize>,
    /// The shortest block of the dual-block mask.
    pub block_min: usize,
    /// The longest block of the dual-block mask.
    pub block_max: usize,
    /// What a position sees of the text before it.
    pub sight: Sight,
    /// Leaves embedding, final norm and head as the target has them, so that only the layer is trained.
    pub freeze_head: bool,
    /// Learns the target's distribution, by its divergence; otherwise (the paper's ablation) the text's next token, by
    /// cross-entropy.
    pub divergence: bool,
}

/// What an `edd` drafter sees at position `i` of a text, the block that it is in beginning at `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// The tokens up to `i` and no hidden states (the paper's ablation): a plain model of one layer.
    Tokens,
    /// The hidden states before `s` and the tokens from `s` to `i`, through the same maps: the paper's form.
    States,
    /// The tokens up to `i` and, through maps of their own, the hidden states before `s`. Ours.
    TokensAndStates,
}

impl EddMethod {
    /// The paper's way of training for a target, but for what a position sees.
    pub fn new(target: PathBuf) -> Self {
        Self {
            target,
            tapped_layer: None,
            block_min: 5,
            block_max: 10,
            sight: Sight::TokensAndStates,
            freeze_head: false,
            divergence: true,
        }
    }
}

/// `early-exit` (EESD, §3.1): the cross-entropy of one layer on top of the target's first ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyExitMethod {
    /// The checkpoint of the target, whose first layers run frozen.
    pub target: PathBuf,
    /// How many layers are shared with the target: 5 to 10 % of them in the paper.
    pub shared_layers: usize,
}

/// `cali-ts` (EESD): the cross-entropy of whether the target agrees with what the drafter says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaliTsMethod {
    /// The checkpoint of the target, which runs frozen.
    pub target: PathBuf,
    /// The folder of the drafter, of any kind, which runs frozen.
    pub drafter: PathBuf,
}

impl Method {
    /// The method's name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Base(_) => "base",
            Self::Sorted(_) => "sorted",
            Self::Edd(_) => "edd",
            Self::EarlyExit(_) => "early-exit",
            Self::CaliTs(_) => "cali-ts",
        }
    }

    /// The checkpoint folder that it begins with: its tokenizer is the result's too.
    pub fn origin(&self) -> &Path {
        match self {
            Self::Base(BaseMethod::Checkpoint(folder) | BaseMethod::Scratch { tokenizer: folder, .. }) => folder,
            Self::Sorted(method) => &method.init,
            Self::Edd(method) => &method.target,
            Self::EarlyExit(method) => &method.target,
            Self::CaliTs(method) => &method.target,
        }
    }

    /// The highest learning rate unless told otherwise: the papers' for `edd` and `early-exit`, where a paper names one.
    pub fn learning_rate(&self) -> f64 {
        match self {
            Self::Base(_) | Self::EarlyExit(_) | Self::CaliTs(_) => 1e-3,
            Self::Sorted(_) => 3e-4,
            Self::Edd(_) => 1e-4,
        }
    }
}

/// The text, and how it becomes batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataOptions {
    /// JSONL files of `question` and `answer`, or `text`, or `token_ids`.
    pub files: Vec<PathBuf>,
    /// Texts to validate with; a share of `files` when absent.
    pub validation_file: Option<PathBuf>,
    /// The share of `files` set apart for validation, 0 to 0.5.
    pub validation_share: f64,
    /// Tokens of a row.
    pub length: usize,
    /// Rows of a batch.
    pub batch: usize,
    /// Batches whose gradients make one step.
    pub accumulate: usize,
    /// Times that every text is met.
    pub epochs: usize,
    /// Most steps, however many epochs that is.
    pub steps_max: Option<usize>,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            validation_file: None,
            validation_share: 0.02,
            length: 256,
            batch: 8,
            accumulate: 1,
            epochs: 1,
            steps_max: None,
        }
    }
}

impl DataOptions {
    pub(crate) fn pace(&self) -> Pace {
        Pace { length: self.length, batch: self.batch, accumulate: self.accumulate }
    }
}

impl Recipe {
    /// Checks every number against its range.
    ///
    /// # Errors
    /// [`TrainError::Range`] for the first outside it, [`TrainError::Exits`], and a recipe without files.
    pub(crate) fn check(&self) -> Result<()> {
        self.method.check()?;
        self.data.check()?;
        self.options.check()
    }
}

impl Method {
    fn check(&self) -> Result<()> {
        match self {
            Self::Base(BaseMethod::Checkpoint(_)) | Self::CaliTs(_) => Ok(()),
            Self::Base(BaseMethod::Scratch { shape, .. }) => count("layers", shape.layers, LAYERS_MAX),
            Self::Sorted(method) => method.check(),
            Self::Edd(EddMethod { block_min, block_max, .. }) => {
                count("the longest block", *block_max, BLOCK_MAX)?;
                count("the shortest block", *block_min, *block_max)
            }
            Self::EarlyExit(EarlyExitMethod { shared_layers, .. }) => {
                count("shared layers", *shared_layers, LAYERS_MAX)
            }
        }
    }
}

impl DataOptions {
    fn check(&self) -> Result<()> {
        if self.files.is_empty() {
            return Err(TrainError::NoText { what: "an empty list of files".to_owned() });
        }
        in_range("the validation share", self.validation_share, 0.0, 0.5)?;
        in_range("the length of a row", self.length as f64, 2.0, ROW_LENGTH_MAX as f64)?;
        count("rows of a batch", self.batch, BATCH_MAX)?;
        count("batches of a step", self.accumulate, BATCH_MAX)?;
        count("epochs", self.epochs, EPOCHS_MAX)?;
        count("most steps", self.steps_max.unwrap_or(1), usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn recipe() -> Recipe {
        let method = Method::Sorted(SortedMethod::new(PathBuf::from("t"), vec![3, 6, 9]));
        let data = DataOptions { files: vec![PathBuf::from("d.jsonl")], ..DataOptions::default() };
        Recipe { method, data, options: Options::default() }
    }

    #[test]
    fn a_recipe_survives_its_own_json() {
        let text = serde_json::to_string(&recipe()).unwrap();
        assert!(text.contains(r#""kind":"sorted""#));
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe());
        // Checkpoints of before there were devices are of the processor.
        let before = text.replace(r#","device":"cpu""#, "");
        assert_ne!(before, text);
        assert_eq!(serde_json::from_str::<Recipe>(&before).unwrap(), recipe());
    }

    #[test]
    fn the_first_number_outside_its_range_is_named() {
        assert!(recipe().check().is_ok());
        let refusal = |change: fn(&mut Recipe)| {
            let mut recipe = recipe();
            change(&mut recipe);
            recipe.check().unwrap_err().to_string()
        };
        assert_eq!(refusal(|r| r.data.length = 1), "the length of a row is 1, expected 2 to 4096");
        assert_eq!(refusal(|r| r.data.batch = 0), "rows of a batch is 0, expected 1 to 4096");
        assert_eq!(refusal(|r| r.data.validation_share = f64::NAN), "the validation share is NaN, expected 0 to 0.5");
        assert_eq!(refusal(|r| r.options.optimiser.beta2 = 1.0), "beta 2 is 1, expected 0 to 0.999999");
        assert_eq!(refusal(|r| r.data.files.clear()), "an empty list of files holds no text");
        let weigh = |weight: f64| {
            let mut sorted = SortedMethod::new(PathBuf::from("t"), vec![3, 9]);
            sorted.teacher_weight = weight;
            Method::Sorted(sorted).check()
        };
        assert!(weigh(0.0).is_ok() && weigh(1.0).is_ok());
        assert_eq!(weigh(1.5).unwrap_err().to_string(), "the teachers' weight is 1.5, expected 0 to 1");
        for exits in [vec![], vec![3, 3, 9], vec![0, 9], vec![3, 6], vec![9, 3]] {
            let expected = format!("exits {exits:?} must rise and end at the last layer, 9");
            let mut recipe = recipe();
            let Method::Sorted(sorted) = &mut recipe.method else { unreachable!() };
            sorted.exits = exits;
            assert_eq!(recipe.check().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_block_is_never_shorter_than_the_shortest() {
        let mut method = EddMethod::new(PathBuf::new());
        assert!(Method::Edd(method.clone()).check().is_ok());
        method.block_min = 10;
        assert!(Method::Edd(method.clone()).check().is_ok(), "all blocks alike");
        method.block_min = 11;
        let fault = Method::Edd(method).check().unwrap_err().to_string();
        assert_eq!(fault, "the shortest block is 11, expected 1 to 10");
    }
}
