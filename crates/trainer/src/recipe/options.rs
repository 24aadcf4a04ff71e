//! How the optimiser walks, where, and what it leaves.

use espalier_model::DeviceKind;
use serde::{Deserialize, Serialize};

use crate::error::{Result, count, in_range};

/// Most threads, and so most parts that a batch is computed in.
pub const THREADS_MAX: usize = 1024;

/// How the optimiser walks, when it looks up, and what it leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The seed of everything random.
    pub seed: u64,
    /// The optimiser.
    pub optimiser: OptimiserOptions,
    /// Steps between evaluations on the validation texts.
    pub evaluate_every: usize,
    /// Evaluations without a better loss before the training stops; it never stops early when absent.
    pub patience: Option<usize>,
    /// Steps between checkpoints.
    pub checkpoint_every: usize,
    /// The element type of the result; training itself is in f32.
    pub precision: Precision,
    /// Threads; each computes a part of every batch, so the last bits of the result depend on their number. On another
    /// device than the processor there is one.
    pub threads: usize,
    /// Where training computes.
    #[serde(default)]
    pub device: DeviceKind,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            optimiser: OptimiserOptions::default(),
            evaluate_every: 100,
            patience: None,
            checkpoint_every: 100,
            precision: Precision::Bf16,
            threads: 1,
            device: DeviceKind::Cpu,
        }
    }
}

/// AdamW with decoupled weight decay, a warm-up and a cosine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimiserOptions {
    /// The rate at the end of the warm-up.
    pub learning_rate: f64,
    /// The rate at the last step, as a share of the highest.
    pub final_share: f64,
    /// The share of all steps over which the rate rises from 0.
    pub warmup_share: f64,
    /// The decay of matrices; norms and biases do not decay.
    pub weight_decay: f64,
    /// The decay of the mean of gradients.
    pub beta1: f64,
    /// The decay of the mean of squared gradients.
    pub beta2: f64,
    /// The longest gradient, all tensors together; longer ones are scaled down to it.
    pub clip_norm: f64,
}

impl Default for OptimiserOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            final_share: 0.1,
            warmup_share: 0.03,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.95,
            clip_norm: 1.0,
        }
    }
}

/// The element type of saved weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits, as trained.
    F32,
    /// 16 bits: half the size, rounded to nearest.
    Bf16,
}

impl Options {
    /// Threads at work, and parts that a batch is computed in.
    pub(crate) fn workers(&self) -> usize {
        if self.device == DeviceKind::Cpu { self.threads } else { 1 }
    }

    pub(super) fn check(&self) -> Result<()> {
        let OptimiserOptions { learning_rate, final_share, warmup_share, weight_decay, beta1, beta2, clip_norm } =
            self.optimiser;
        in_range("the learning rate", learning_rate, f64::MIN_POSITIVE, 10.0)?;
        in_range("the final share of the learning rate", final_share, 0.0, 1.0)?;
        in_range("the warm-up's share of the steps", warmup_share, 0.0, 1.0)?;
        in_range("the weight decay", weight_decay, 0.0, 10.0)?;
        in_range("beta 1", beta1, 0.0, 0.999_999)?;
        in_range("beta 2", beta2, 0.0, 0.999_999)?;
        in_range("the clipping norm", clip_norm, f64::MIN_POSITIVE, f64::MAX)?;
        count("steps between evaluations", self.evaluate_every, usize::MAX)?;
        count("steps between checkpoints", self.checkpoint_every, usize::MAX)?;
        count("patience", self.patience.unwrap_or(1), usize::MAX)?;
        count("threads", self.threads, THREADS_MAX)
    }
}
