//! A model's tensors by role, as the file has them: what both the fast decoder and the reference are built
//! from. Nothing above this module knows a tensor's name, or that GPT-NeoX fuses its projections.

use candle_core::Tensor;

use crate::config::{ModelConfig, NormKind};
use crate::error::{ModelError, Result};
use crate::names::{AttentionNames, Names};
use crate::raw_matrix::RawMatrix;
use crate::row_lists::{exchanged, ordered};
use crate::weights::Weights;

/// All tensors of a model, or of its first layers.
#[derive(Debug)]
pub struct RawModel {
    /// (vocab, hidden)
    pub embedding: RawMatrix,
    /// From the first layer on.
    pub layers: Vec<RawLayer>,
    /// The norm before the head.
    pub final_norm: RawNorm,
    /// (vocab, hidden), without a bias; `None` where the head is the embedding.
    pub head: Option<RawLinear>,
}

/// One transformer layer.
#[derive(Debug)]
pub struct RawLayer {
    /// Before attention.
    pub input_norm: RawNorm,
    /// Before the feed-forward.
    pub post_norm: RawNorm,
    /// (heads * head_dim, hidden)
    pub q: RawLinear,
    /// (kv_heads * head_dim, hidden)
    pub k: RawLinear,
    /// (kv_heads * head_dim, hidden)
    pub v: RawLinear,
    /// (hidden, heads * head_dim)
    pub o: RawLinear,
    /// (head_dim,): the RMS norm's weight for every query head.
    pub q_norm: Option<Tensor>,
    /// (head_dim,): the RMS norm's weight for every key head.
    pub k_norm: Option<Tensor>,
    /// The feed-forward.
    pub mlp: RawMlp,
    /// What another model's hidden states go through, where that is not what inputs go through.
    pub states: Option<RawStates>,
}

/// How another model's hidden states become keys and values.
#[derive(Debug)]
pub struct RawStates {
    /// Before both.
    pub norm: RawNorm,
    /// (kv_heads * head_dim, hidden)
    pub k: RawLinear,
    /// (kv_heads * head_dim, hidden)
    pub v: RawLinear,
}

/// A linear map, `y = x · weightᵀ + bias`.
#[derive(Debug)]
pub struct RawLinear {
    /// (out, in)
    pub weight: RawMatrix,
    /// (out,)
    pub bias: Option<Tensor>,
}

/// A normalisation.
#[derive(Debug)]
pub struct RawNorm {
    /// (hidden,)
    pub weight: Tensor,
    /// (hidden,); only LayerNorm has one.
    pub bias: Option<Tensor>,
}

/// A feed-forward.
#[derive(Debug)]
pub enum RawMlp {
    /// `down(act(gate(x)) * up(x))`.
    Gated {
        /// (ffn, hidden)
        gate: RawLinear,
        /// (ffn, hidden)
        up: RawLinear,
        /// (hidden, ffn)
        down: RawLinear,
    },
    /// `down(act(up(x)))`.
    Plain {
        /// (ffn, hidden)
        up: RawLinear,
        /// (hidden, ffn)
        down: RawLinear,
    },
}

impl RawModel {
    /// Loads a model; `layers` cuts it to its first so many, its norm and head staying.
    pub fn load(config: &ModelConfig, weights: &Weights, layers: Option<usize>) -> Result<Self> {
        let layers = layers_asked(config, layers)?;
        let reader = Reader { config, weights };
        Ok(Self {
            embedding: reader.embedding()?,
            layers: (0..layers).map(|layer| RawLayer::load(config, weights, layer)).collect::<Result<_>>()?,
            final_norm: reader.final_norm()?,
            head: if config.tied { None } else { Some(reader.head()?) },
        })
    }
}

/// The number of layers to load: all, unless fewer are asked for.
pub(crate) fn layers_asked(config: &ModelConfig, asked: Option<usize>) -> Result<usize> {
    let (available, asked) = (config.layers, asked.unwrap_or(config.layers));
    if (1..=available).contains(&asked) { Ok(asked) } else { Err(ModelError::Layers { asked, available }) }
}

impl RawLayer {
    /// Loads layer `layer`, counted from 0.
    pub fn load(config: &ModelConfig, weights: &Weights, layer: usize) -> Result<Self> {
        let names = Names::of(config.family);
        let reader = Reader { config, weights };
        let name = |relative: &str| names.in_layer(layer, relative);
        let head_norm = |relative: &str| {
            let load = || reader.vector(&name(relative), config.head_dim);
            config.qk_norm.then(load).transpose()
        };
        let [q, k, v] = reader.projections(names, layer)?;
        Ok(Self {
            input_norm: reader.norm(&name(names.input_norm))?,
            post_norm: reader.norm(&name(names.post_norm))?,
            q,
            k,
            v,
            o: reader.linear(&name(names.o), config.hidden, config.q_width(), config.o_bias)?,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm)?,
            mlp: reader.mlp(names, layer)?,
            states: None,
        })
    }
}

impl RawStates {
    /// Loads what the states of layer `layer`, counted from 0, go through.
    pub(crate) fn load(config: &ModelConfig, weights: &Weights, layer: usize) -> Result<Self> {
        let names = Names::of(config.family);
        let reader = Reader { config, weights };
        let [norm, k, v] = names.states.map(|name| names.in_layer(layer, name));
        let map = |name: &str| reader.linear(name, config.kv_width(), config.hidden, config.qkv_bias);
        Ok(Self { norm: reader.norm(&norm)?, k: map(&k)?, v: map(&v)? })
    }
}

/// Reads tensors of the shapes that a configuration implies.
pub(crate) struct Reader<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) weights: &'a Weights,
}

impl Reader<'_> {
    fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<RawMatrix> {
        self.weights.matrix(&format!("{name}.weight"), shape)
    }

    fn vector(&self, name: &str, width: usize) -> Result<Tensor> {
        self.weights.tensor(&format!("{name}.weight"), &[width])
    }

    fn bias(&self, name: &str, width: usize, present: bool) -> Result<Option<Tensor>> {
        let load = || self.weights.tensor(&format!("{name}.bias"), &[width]);
        present.then(load).transpose()
    }

    pub(crate) fn embedding(&self) -> Result<RawMatrix> {
        self.matrix(Names::of(self.config.family).embedding, [self.config.vocab, self.config.hidden])
    }

    pub(crate) fn final_norm(&self) -> Result<RawNorm> {
        self.norm(Names::of(self.config.family).final_norm)
    }

    pub(crate) fn head(&self) -> Result<RawLinear> {
        self.linear(Names::of(self.config.family).head, self.config.vocab, self.config.hidden, false)
    }

    fn norm(&self, name: &str) -> Result<RawNorm> {
        let width = self.config.hidden;
        Ok(RawNorm {
            weight: self.vector(name, width)?,
            bias: self.bias(name, width, self.config.norm.kind == NormKind::Layer)?,
        })
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize, bias: bool) -> Result<RawLinear> {
        Ok(RawLinear { weight: self.matrix(name, [outputs, inputs])?, bias: self.bias(name, outputs, bias)? })
    }

    fn projections(&self, names: &Names, layer: usize) -> Result<[RawLinear; 3]> {
        let config = self.config;
        let project = |name: &str, outputs| {
            let name = names.in_layer(layer, name);
            self.linear(&name, outputs, config.hidden, config.qkv_bias)
        };
        match names.attention {
            AttentionNames::Split { q, k, v } => {
                let (q_width, kv_width) = (config.q_width(), config.kv_width());
                Ok([project(q, q_width)?, project(k, kv_width)?, project(v, kv_width)?])
            }
            AttentionNames::Fused(name) => split_heads(&project(name, 3 * config.q_width())?, config.heads),
        }
    }

    fn mlp(&self, names: &Names, layer: usize) -> Result<RawMlp> {
        let ModelConfig { hidden, ffn, mlp_bias, .. } = *self.config;
        let map = |name: &str, outputs, inputs| self.linear(&names.in_layer(layer, name), outputs, inputs, mlp_bias);
        let up = map(names.up, ffn, hidden)?;
        let down = map(names.down, hidden, ffn)?;
        if self.config.gated_mlp {
            let gate = map(names.gate, ffn, hidden)?;
            Ok(RawMlp::Gated { gate, up, down })
        } else {
            Ok(RawMlp::Plain { up, down })
        }
    }
}

/// Splits a projection whose rows run (head, query | key | value, head_dim) into those of query, key and value.
fn split_heads(fused: &RawLinear, heads: usize) -> Result<[RawLinear; 3]> {
    let outputs = fused.weight.outputs();
    let part_by_part = exchanged([heads, 3, outputs / (3 * heads)], [0, 1]);
    let part = |index: usize| -> Result<RawLinear> {
        let rows = &part_by_part[index * outputs / 3..][..outputs / 3];
        let bias = fused.bias.as_ref().map(|bias| ordered(bias, rows)).transpose()?;
        Ok(RawLinear { weight: fused.weight.ordered(rows), bias })
    };
    Ok([part(0)?, part(1)?, part(2)?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use candle_core::Device;

    use super::*;
    use crate::checkpoint::Checkpoint;

    #[test]
    fn a_fused_projection_is_split_head_by_head() {
        // Two heads of two dimensions; row r of the fused matrix is filled with r.
        let rows: Vec<f32> = (0..12).map(|row| row as f32).collect();
        let weight = RawMatrix::of_f32(&rows.iter().flat_map(|row| [*row; 3]).collect::<Vec<_>>(), [12, 3]);
        let bias = Tensor::new(rows, &Device::Cpu).unwrap();
        let parts = split_heads(&RawLinear { weight, bias: Some(bias) }, 2).unwrap();
        let expected: [[f32; 4]; 3] = [[0., 1., 6., 7.], [2., 3., 8., 9.], [4., 5., 10., 11.]];
        for (part, expected) in parts.iter().zip(expected) {
            assert_eq!(part.bias.as_ref().unwrap().to_vec1::<f32>().unwrap(), expected);
            assert_eq!(part.weight.to_tensor().unwrap().to_vec2::<f32>().unwrap(), expected.map(|row| vec![row; 3]));
        }
    }

    fn checkpoint(name: &str) -> Checkpoint {
        Checkpoint::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
    }

    #[test]
    fn a_model_can_be_cut_to_its_first_layers() {
        let checkpoint = checkpoint("qwen3");
        let weights = checkpoint.weights().unwrap();
        let load = |layers| RawModel::load(&checkpoint.config, &weights, layers);
        assert_eq!(load(Some(2)).unwrap().layers.len(), 2);
        assert_eq!(load(None).unwrap().layers.len(), 4);
        for asked in [0, 5] {
            let message = format!("{asked} layers were asked for, but the model has 4 and at least 1 is needed");
            assert_eq!(load(Some(asked)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_configuration_that_does_not_fit_the_tensors_is_refused() {
        let Checkpoint { path, mut config } = checkpoint("gpt-neox");
        let weights = Weights::open(&path).unwrap();
        config.ffn = 128;
        let fault = RawModel::load(&config, &weights, None).unwrap_err().to_string();
        assert_eq!(fault, "gpt_neox.layers.0.mlp.dense_h_to_4h.weight has shape [256, 64], expected [128, 64]");
    }
}
