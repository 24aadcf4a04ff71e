//! The decoder on the CPU: packed weights, tree attention, one forward pass over rows of many sequences.

use crate::arithmetic::Arithmetic;
use crate::attention::AttentionShape;
use crate::checkpoint::Checkpoint;
use crate::config::{Activation, ModelConfig, Norm, NormKind};
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::kv_cache::{BlockPool, CacheShape, KvCache};
use crate::linear::{Linear, Packer};
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawModel, RawNorm, RawStates};
use crate::rope::RotaryTable;
use candle_core::{DType, Tensor};

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

/// How packed matrices are held in memory. Arithmetic is in f32 whatever the format, so the results of a bf16
/// checkpoint are the same bits in both; a step reads half the bytes in the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightFormat {
    /// As the checkpoint stores them: bf16 stays bf16, anything else becomes f32.
    #[default]
    Stored,
    /// f32.
    F32,
}

/// A model ready to run: immutable, shared by any number of [`Workspace`](crate::Workspace)s.
pub struct Decoder {
    pub(crate) config: ModelConfig,
    pub(crate) embedding: Embedding,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: NormLayer,
    pub(crate) head: Head,
    pub(crate) rotary: RotaryTable,
    arithmetic: Arithmetic,
}

/// Token embeddings.
pub(crate) enum Embedding {
    /// The head's matrix serves both.
    Tied,
    /// A table (vocab, hidden) of its own.
    Table(Table),
}

/// A row-major table in its stored type.
pub(crate) enum Table {
    F32(Vec<f32>),
    Bf16(Vec<half::bf16>),
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
    kind: Norm,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl NormLayer {
    fn load(raw: &RawNorm, kind: Norm) -> Result<Self> {
        Ok(Self { kind, weight: floats(&raw.weight)?, bias: raw.bias.as_ref().map(floats).transpose()? })
    }

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

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

impl Projection {
    /// `parts` are queries, if there are any, keys and values.
    fn load(packer: &mut Packer, norm: &RawNorm, parts: &[&RawLinear], config: &ModelConfig) -> Result<Self> {
        let weights: Vec<&Tensor> = parts.iter().map(|part| &part.weight).collect();
        let map = packer.stack(&weights)?;
        let keys_at = map.outputs() - 2 * config.kv_width();
        Ok(Self { norm: NormLayer::load(norm, config.norm)?, bias: stacked_bias(parts)?, map, keys_at })
    }
}

impl Biased {
    fn load(packer: &mut Packer, raw: &RawLinear) -> Result<Self> {
        Ok(Self { weight: packer.pack(&raw.weight)?, bias: raw.bias.as_ref().map(floats).transpose()? })
    }
}

/// The biases of stacked layers, zeros where one has none; none if none has.
fn stacked_bias(parts: &[&RawLinear]) -> Result<Option<Vec<f32>>> {
    if parts.iter().all(|part| part.bias.is_none()) {
        return Ok(None);
    }
    let mut stacked = Vec::new();
    for part in parts {
        match &part.bias {
            Some(bias) => stacked.extend(floats(bias)?),
            None => stacked.resize(stacked.len() + part.weight.dims2()?.0, 0.0),
        }
    }
    Ok(Some(stacked))
}

impl Mlp {
    fn load(packer: &mut Packer, raw: &RawMlp) -> Result<Self> {
        Ok(match raw {
            RawMlp::Gated { gate, up, down } => Self::Gated {
                gate_up: packer.pair(&gate.weight, &up.weight)?,
                gate_bias: gate.bias.as_ref().map(floats).transpose()?,
                up_bias: up.bias.as_ref().map(floats).transpose()?,
                down: Biased::load(packer, down)?,
            },
            RawMlp::Plain { up, down } => {
                Self::Plain { up: Biased::load(packer, up)?, down: Biased::load(packer, down)? }
            }
        })
    }

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
    fn load(packer: &mut Packer, raw: &RawLayer, config: &ModelConfig, layer: usize) -> Result<Self> {
        let head_norm = |norm: &Option<Tensor>| -> Result<Option<NormLayer>> {
            let Some(weight) = norm else { return Ok(None) };
            Ok(Some(NormLayer { kind: config.norm, weight: floats(weight)?, bias: None }))
        };
        let qk_norm = head_norm(&raw.q_norm)?.zip(head_norm(&raw.k_norm)?);
        let of_states =
            |RawStates { norm, k, v }: &RawStates, packer: &mut _| Projection::load(packer, norm, &[k, v], config);
        Ok(Self {
            input: Projection::load(packer, &raw.input_norm, &[&raw.q, &raw.k, &raw.v], config)?,
            states: raw.states.as_ref().map(|states| of_states(states, packer)).transpose()?,
            qk_norm,
            output: Biased::load(packer, &raw.o)?,
            post_norm: NormLayer::load(&raw.post_norm, config.norm)?,
            mlp: Mlp::load(packer, &raw.mlp)?,
            attention: AttentionShape {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                window: config.windows.get(layer).copied().flatten(),
            },
        })
    }

    fn bytes(&self) -> usize {
        self.input.map.bytes() + self.output.weight.bytes() + self.mlp.bytes()
    }
}

impl Table {
    fn load(weight: &Tensor) -> Result<Self> {
        let flat = weight.flatten_all()?;
        Ok(match weight.dtype() {
            DType::BF16 => Self::Bf16(flat.to_vec1()?),
            _ => Self::F32(flat.to_dtype(DType::F32)?.to_vec1()?),
        })
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        let range = row * out.len()..(row + 1) * out.len();
        match self {
            Self::F32(table) => out.copy_from_slice(&table[range]),
            Self::Bf16(table) => out.iter_mut().zip(&table[range]).for_each(|(o, v)| *o = v.to_f32()),
        }
    }
}

impl Decoder {
    /// Loads and packs a checkpoint.
    ///
    /// # Errors
    /// Whatever is wrong with the folder: files, tensors, shapes; or more layers asked for than there are.
    pub fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self> {
        Self::load_with_progress(checkpoint, options, |_, _| {})
    }

    /// [`Self::load`], reporting `(layers packed, layers in all)` as it goes.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with_progress(
        checkpoint: &Checkpoint,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let config = checkpoint.config.clone();
        let raw = RawModel::load(&config, &checkpoint.weights()?, options.layers)?;
        Self::pack(config, raw, options, progress)
    }

    /// Packs tensors of the shapes that `config` implies.
    pub(crate) fn pack(
        config: ModelConfig,
        mut raw: RawModel,
        options: &LoadOptions,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        if options.format == WeightFormat::F32 {
            raw.widen()?;
        }
        let mut packer = Packer::new(options.arithmetic);
        let mut layers = Vec::with_capacity(raw.layers.len());
        for (i, layer) in raw.layers.iter().enumerate() {
            layers.push(Layer::load(&mut packer, layer, &config, i)?);
            progress(i + 1, raw.layers.len());
        }
        let (embedding, head) = match &raw.head {
            Some(head) => {
                let bias = head.bias.as_ref().map(floats).transpose()?;
                (Embedding::Table(Table::load(&raw.embedding)?), Head { weight: packer.pack(&head.weight)?, bias })
            }
            None => (Embedding::Tied, Head { weight: packer.pack(&raw.embedding)?, bias: None }),
        };
        let final_norm = NormLayer::load(&raw.final_norm, config.norm)?;
        let rotary = RotaryTable::new(&config);
        let arithmetic = options.arithmetic;
        Ok(Self { config, embedding, layers, final_norm, head, rotary, arithmetic })
    }

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
        }
    }

    /// Bytes of weights that one forward pass reads, whatever its number of rows.
    pub fn weight_bytes(&self) -> usize {
        self.layers.iter().map(Layer::bytes).sum::<usize>() + self.head.weight.bytes()
    }

    /// Bytes of keys and values that a row with `context` visible positions reads.
    pub fn cache_bytes(&self, context: usize) -> usize {
        2 * self.cache_layers() * self.config.kv_width() * context * size_of::<f32>()
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
