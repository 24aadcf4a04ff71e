//! The decoder on the CPU: packed weights, tree attention, one forward pass over rows of many sequences.

use crate::arithmetic::{Arithmetic, WeightFormat};
use crate::attention::AttentionShape;
use crate::config::{Activation, ModelConfig, Norm, NormKind};
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::kv_cache::{BlockPool, CacheShape, KvCache, KvFormat};
use crate::linear::Linear;
use crate::raw_matrix::RawMatrix;
use crate::rope::RotaryTable;

/// What to load of a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Only the first layers, under the checkpoint's own final norm and head; all when none.
    pub layers: Option<usize>,
    /// How matrices are held in f32 arithmetic.
    pub format: WeightFormat,
    /// What they are multiplied in.
    pub arithmetic: Arithmetic,
}

/// A model ready to run: immutable, shared by any number of [`Workspace`](crate::Workspace)s.
pub struct Decoder {
    pub(crate) config: ModelConfig,
    pub(crate) embedding: Embedding,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: NormLayer,
    pub(crate) head: Head,
    pub(crate) rotary: RotaryTable,
    pub(crate) arithmetic: Arithmetic,
}

/// Token embeddings.
pub(crate) enum Embedding {
    /// The head's matrix serves both.
    Tied,
    /// A table (vocab, hidden) of its own, as it is stored.
    Table(RawMatrix),
}

/// The language-model head.
pub(crate) struct Head {
    pub(crate) weight: Linear,
    pub(crate) bias: Option<Vec<f32>>,
}

/// One block.
pub(crate) struct Layer {
    pub(crate) input: Projection,
    /// Of another model's hidden states, where they are keys and values beside those of tokens.
    pub(crate) states: Option<Projection>,
    pub(crate) qk_norm: Option<(NormLayer, NormLayer)>,
    pub(crate) output: Biased,
    pub(crate) post_norm: NormLayer,
    pub(crate) mlp: Mlp,
    pub(crate) attention: AttentionShape,
}

/// What rows go through before attention.
pub(crate) struct Projection {
    pub(crate) norm: NormLayer,
    /// Queries, if there are any, keys and values.
    pub(crate) map: Linear,
    pub(crate) bias: Option<Vec<f32>>,
    /// The first output that is a key's.
    pub(crate) keys_at: usize,
}

/// A linear layer with its bias.
pub(crate) struct Biased {
    pub(crate) weight: Linear,
    pub(crate) bias: Option<Vec<f32>>,
}

/// The feed-forward part.
pub(crate) enum Mlp {
    /// `down(act(gate(x)) * up(x))`; gate and up share panels.
    Gated { gate_up: Linear, gate_bias: Option<Vec<f32>>, up_bias: Option<Vec<f32>>, down: Biased },
    /// `down(act(up(x)))`.
    Plain { up: Biased, down: Biased },
}

/// A norm with its weights.
pub(crate) struct NormLayer {
    pub(crate) kind: Norm,
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

impl NormLayer {
    /// Normalises one row onto the end of `rows`.
    pub(crate) fn append(&self, kernels: &Kernels, x: &[f32], rows: &mut Vec<f32>) {
        let from = rows.len();
        rows.resize(from + x.len(), 0.0);
        self.apply(kernels, x, &mut rows[from..]);
    }

    /// Normalises one row.
    pub(crate) fn apply(&self, kernels: &Kernels, x: &[f32], out: &mut [f32]) {
        let eps = self.kind.eps as f32;
        match self.kind.kind {
            NormKind::Rms => kernels.rms_norm(x, &self.weight, eps, out),
            NormKind::Layer => kernels.layer_norm(x, &self.weight, eps, out),
        }
        if let Some(bias) = &self.bias {
            out.iter_mut().zip(bias).for_each(|(v, b)| *v += b);
        }
    }
}

impl Mlp {
    /// The down projection, and the width of its input.
    pub(crate) fn down(&self) -> &Biased {
        match self {
            Self::Gated { down, .. } | Self::Plain { down, .. } => down,
        }
    }

    fn bytes(&self) -> usize {
        self.down().weight.bytes()
            + match self {
                Self::Gated { gate_up, .. } => gate_up.bytes(),
                Self::Plain { up, .. } => up.weight.bytes(),
            }
    }
}

impl Layer {
    fn bytes(&self) -> usize {
        self.input.map.bytes() + self.output.weight.bytes() + self.mlp.bytes()
    }
}

impl Decoder {
    /// The model's sizes and conventions.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// What its products are computed in.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Layers loaded.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// An empty cache with memory of its own, for one sequence of this model.
    pub fn new_cache(&self) -> KvCache {
        KvCache::alone(self.cache_shape())
    }

    /// A pool of at most `bytes` for the caches of this model.
    ///
    /// # Errors
    /// [`ModelError::KvBudget`] when that is less than one block.
    pub fn block_pool(&self, bytes: usize) -> Result<BlockPool> {
        BlockPool::new(self.cache_shape(), bytes)
    }

    /// Bytes of the blocks of one sequence that fills the context.
    pub fn context_bytes(&self) -> usize {
        let shape = self.cache_shape();
        shape.context_blocks().saturating_mul(shape.block_bytes())
    }

    /// Layers of a cache: after the model's own those of states that stand beside tokens.
    pub(crate) fn cache_layers(&self) -> usize {
        self.layers.len() + self.layers.iter().filter(|layer| layer.states.is_some()).count()
    }

    fn cache_shape(&self) -> CacheShape {
        CacheShape {
            layers: self.cache_layers(),
            kv_heads: self.config.kv_heads,
            head_dim: self.config.head_dim,
            context: self.config.context,
            format: self.kv_format(),
        }
    }

    /// What keys and values are kept as.
    pub(crate) fn kv_format(&self) -> KvFormat {
        KvFormat::of(self.arithmetic)
    }

    /// Bytes of weights that one forward pass reads, whatever its number of rows.
    pub fn weight_bytes(&self) -> usize {
        self.layers.iter().map(Layer::bytes).sum::<usize>() + self.head.weight.bytes()
    }

    /// Bytes of keys and values that a row with `context` visible positions reads.
    pub fn cache_bytes(&self, context: usize) -> usize {
        2 * self.cache_layers() * self.config.kv_width() * context * self.kv_format().element_bytes()
    }

    /// Multiply-adds of one row at `context` visible positions, as floating-point operations (two each).
    pub fn flops(&self, context: usize) -> usize {
        let linear = |l: &Linear| l.inputs() * l.outputs();
        let mlp = |m: &Mlp| {
            linear(&m.down().weight)
                + match m {
                    Mlp::Gated { gate_up, .. } => linear(gate_up),
                    Mlp::Plain { up, .. } => linear(&up.weight),
                }
        };
        let attention = 2 * self.config.heads * self.config.head_dim * context;
        let layer = |l: &Layer| linear(&l.input.map) + linear(&l.output.weight) + mlp(&l.mlp);
        let layers = self.layers.iter().map(layer).sum::<usize>() + self.cache_layers() * attention;
        2 * (layers + linear(&self.head.weight))
    }

    /// The embedding of `token`.
    pub(crate) fn embed(&self, token: u32, out: &mut [f32]) -> Result<()> {
        let (row, vocab) = (token as usize, self.config.vocab);
        if row >= vocab {
            return Err(ModelError::Token { token, vocab });
        }
        match &self.embedding {
            Embedding::Tied => self.head.weight.row(row, out),
            Embedding::Table(table) => table.row(row, out),
        }
        Ok(())
    }

    /// The activation of the feed-forward part.
    pub(crate) fn activation(&self) -> Activation {
        self.config.activation
    }
}
