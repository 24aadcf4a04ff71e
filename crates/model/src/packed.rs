//! A model on the CPU: packed weights, run by kernels.

mod heads;
mod layer_pass;
mod loading;
mod pass;
mod sharing;

use crate::attention::AttentionShape;
use crate::config::{Norm, NormKind};
use crate::kernels::Kernels;
use crate::linear::Linear;
use crate::raw_matrix::RawMatrix;

pub(crate) use pass::PackedPass;

/// Packed weights.
pub(crate) struct Packed {
    embedding: Embedding,
    layers: Vec<Layer>,
    final_norm: NormLayer,
    head: Head,
}

/// Token embeddings.
enum Embedding {
    /// The head's matrix serves both.
    Tied,
    /// A table (vocab, hidden) of its own, as it is stored.
    Table(RawMatrix),
}

/// The language-model head.
struct Head {
    weight: Linear,
    bias: Option<Vec<f32>>,
}

/// One block.
struct Layer {
    input: Projection,
    /// Of another model's hidden states, where they are keys and values beside those of tokens.
    states: Option<Projection>,
    qk_norm: Option<(NormLayer, NormLayer)>,
    output: Biased,
    post_norm: NormLayer,
    mlp: Mlp,
    attention: AttentionShape,
}

/// What rows go through before attention.
struct Projection {
    norm: NormLayer,
    /// Queries, if there are any, keys and values.
    map: Linear,
    bias: Option<Vec<f32>>,
    /// The first output that is a key's.
    keys_at: usize,
}

/// A linear layer with its bias.
struct Biased {
    weight: Linear,
    bias: Option<Vec<f32>>,
}

/// The feed-forward part.
enum Mlp {
    /// `down(act(gate(x)) * up(x))`; gate and up share panels.
    Gated { gate_up: Linear, gate_bias: Option<Vec<f32>>, up_bias: Option<Vec<f32>>, down: Biased },
    /// `down(act(up(x)))`.
    Plain { up: Biased, down: Biased },
}

/// A norm with its weights.
struct NormLayer {
    kind: Norm,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl NormLayer {
    /// Normalises one row.
    fn apply(&self, kernels: &Kernels, x: &[f32], out: &mut [f32]) {
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
    fn down(&self) -> &Biased {
        match self {
            Self::Gated { down, .. } | Self::Plain { down, .. } => down,
        }
    }

    /// What is before the down projection.
    fn inner(&self) -> &Linear {
        match self {
            Self::Gated { gate_up, .. } => gate_up,
            Self::Plain { up, .. } => &up.weight,
        }
    }

    fn bytes(&self) -> usize {
        self.down().weight.bytes() + self.inner().bytes()
    }

    fn multiply_adds(&self) -> usize {
        self.down().weight.multiply_adds() + self.inner().multiply_adds()
    }
}

impl Layer {
    fn bytes(&self) -> usize {
        self.input.map.bytes() + self.output.weight.bytes() + self.mlp.bytes()
    }

    fn multiply_adds(&self) -> usize {
        self.input.map.multiply_adds() + self.output.weight.multiply_adds() + self.mlp.multiply_adds()
    }
}

impl Packed {
    /// Bytes of weights that one pass reads, whatever its number of rows.
    pub(crate) fn bytes(&self) -> usize {
        self.layers.iter().map(Layer::bytes).sum::<usize>() + self.head.weight.bytes()
    }

    /// Multiply-adds of one row with weights.
    pub(crate) fn multiply_adds(&self) -> usize {
        self.layers.iter().map(Layer::multiply_adds).sum::<usize>() + self.head.weight.multiply_adds()
    }

    /// The embedding of `token`, which there is.
    fn embed(&self, token: u32, out: &mut [f32]) {
        match &self.embedding {
            Embedding::Tied => self.head.weight.row(token as usize, out),
            Embedding::Table(table) => table.row(token as usize, out),
        }
    }
}
