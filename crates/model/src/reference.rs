//! The oracle: the whole model in plain 32-bit tensor operations, without a cache, for reading and for comparing with.
//!
//! Every forward pass recomputes everything from the tokens, so a row's context is what its row of the visibility
//! matrix says and nothing else.

use candle_core::{D, DType, Device, Tensor};
use espalier_speculation::{Token, arg_max};

use crate::checkpoint::Checkpoint;
use crate::config::{Activation, ModelConfig, Norm, NormKind};
use crate::error::{ModelError, Result};
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawModel, RawNorm};
use crate::rope::RotaryTable;

/// A model that is slow, simple and right.
#[derive(Debug)]
pub struct Reference {
    config: ModelConfig,
    raw: RawModel,
    rotary: RotaryTable,
}

/// What a forward pass computed.
#[derive(Debug)]
pub struct ReferenceOutput {
    /// (rows, vocab)
    pub logits: Tensor,
    /// Per layer (rows, hidden): the residual stream after it.
    pub hidden_after: Vec<Tensor>,
}

/// What all layers of one forward pass share.
struct PassInputs<'a> {
    positions: &'a [usize],
    visible: &'a [Vec<bool>],
    /// (rows, 1, rotary_dim / 2)
    cos: Tensor,
    /// (rows, 1, rotary_dim / 2)
    sin: Tensor,
}

impl Reference {
    /// Loads all layers of a checkpoint.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self> {
        let config = checkpoint.config.clone();
        let raw = RawModel::load(&config, &checkpoint.weights()?, None)?;
        let rotary = RotaryTable::new(&config);
        Ok(Self { config, raw, rotary })
    }

    /// Runs `tokens` at `positions`; row `i` attends to row `j` where `visible[i][j]`, unless a sliding window hides it.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, a row that does not see itself, or slices that
    /// are not all of one length.
    pub fn forward(&self, tokens: &[Token], positions: &[usize], visible: &[Vec<bool>]) -> Result<ReferenceOutput> {
        self.check(tokens, positions, visible)?;
        let pass = self.pass(positions, visible)?;
        let tokens = Tensor::new(tokens, &Device::Cpu)?;
        let mut x = self.raw.embedding.to_tensor()?.index_select(&tokens, 0)?; // (rows, hidden)
        let mut hidden_after = Vec::with_capacity(self.config.layers);
        for (layer, window) in self.raw.layers.iter().zip(&self.config.windows) {
            x = self.layer(layer, &x, &pass, *window)?;
            hidden_after.push(x.clone());
        }
        let normed = self.norm(&self.raw.final_norm, &x)?;
        let head = self.raw.head.as_ref().map_or(&self.raw.embedding, |head| &head.weight);
        let logits = normed.matmul(&head.to_tensor()?.t()?)?; // (rows, vocab)
        Ok(ReferenceOutput { logits, hidden_after })
    }

    /// Runs `tokens` as one text from position 0: every row sees itself and all before it.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn forward_causal(&self, tokens: &[Token]) -> Result<ReferenceOutput> {
        let rows = tokens.len();
        let positions: Vec<usize> = (0..rows).collect();
        let visible: Vec<Vec<bool>> = (0..rows).map(|i| (0..rows).map(|j| j <= i).collect()).collect();
        self.forward(tokens, &positions, &visible)
    }

    /// Continues `prompt` by its most likely tokens: at most `max_tokens`, or up to and including an end of text.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn greedy(&self, prompt: &[Token], max_tokens: usize) -> Result<Vec<Token>> {
        let mut tokens = prompt.to_vec();
        while tokens.len() < prompt.len() + max_tokens {
            let logits = self.forward_causal(&tokens)?.logits;
            let last = logits.get(tokens.len() - 1)?.to_vec1::<f32>()?;
            let next = arg_max(&last)?;
            tokens.push(next);
            if self.config.eos.contains(&next) {
                break;
            }
        }
        Ok(tokens.split_off(prompt.len()))
    }

    fn check(&self, tokens: &[Token], positions: &[usize], visible: &[Vec<bool>]) -> Result<()> {
        let (rows, vocab, context) = (tokens.len(), self.config.vocab, self.config.context);
        if rows == 0 {
            return Err(ModelError::NoTokens);
        }
        same_length("positions", positions.len(), rows)?;
        same_length("visible", visible.len(), rows)?;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(ModelError::Token { token, vocab });
        }
        if let Some(&position) = positions.iter().find(|&&position| position >= context) {
            return Err(ModelError::Position { position, context });
        }
        for (row, sees) in visible.iter().enumerate() {
            same_length("visible", sees.len(), rows)?;
            if !sees[row] {
                return Err(ModelError::Blind { row });
            }
        }
        Ok(())
    }

    fn pass<'a>(&self, positions: &'a [usize], visible: &'a [Vec<bool>]) -> Result<PassInputs<'a>> {
        let (rows, half) = (positions.len(), self.rotary.rotary_dim / 2);
        let (mut cos, mut sin) = (vec![0.0; rows * half], vec![0.0; rows * half]);
        for (row, &position) in positions.iter().enumerate() {
            let range = row * half..(row + 1) * half;
            self.rotary.write(position, &mut cos[range.clone()], &mut sin[range]);
        }
        let shape = (rows, 1, half);
        Ok(PassInputs {
            positions,
            visible,
            cos: Tensor::from_vec(cos, shape, &Device::Cpu)?,
            sin: Tensor::from_vec(sin, shape, &Device::Cpu)?,
        })
    }

    /// (rows, hidden) -> (rows, hidden)
    fn layer(&self, layer: &RawLayer, x: &Tensor, pass: &PassInputs, window: Option<usize>) -> Result<Tensor> {
        let attended = self.attention(layer, &self.norm(&layer.input_norm, x)?, pass, window)?;
        let between = (x + attended)?;
        let mlp_input = if self.config.parallel_residual { x } else { &between };
        let mlp = self.mlp(&layer.mlp, &self.norm(&layer.post_norm, mlp_input)?)?;
        Ok((between + mlp)?)
    }

    /// (rows, hidden) -> (rows, hidden)
    fn attention(&self, layer: &RawLayer, x: &Tensor, pass: &PassInputs, window: Option<usize>) -> Result<Tensor> {
        let ModelConfig { heads, kv_heads, .. } = self.config;
        let q = self.rotated(&self.heads(&layer.q, heads, layer.q_norm.as_ref(), x)?, pass)?;
        let k = self.rotated(&self.heads(&layer.k, kv_heads, layer.k_norm.as_ref(), x)?, pass)?;
        let v = self.heads(&layer.v, kv_heads, None, x)?;
        let q = q.transpose(0, 1)?.contiguous()?; // (heads, rows, head_dim)
        let (k, v) = (self.shared(&k)?, self.shared(&v)?); // (heads, rows, head_dim)
        let scores = (q.matmul(&k.transpose(1, 2)?)? * self.config.attention_scale())?; // (heads, rows, rows)
        let weights = softmax(&scores.broadcast_add(&pass.mask(window)?)?)?; // (heads, rows, rows)
        let mixed = weights.matmul(&v)?.transpose(0, 1)?.flatten_from(1)?; // (rows, heads * head_dim)
        linear(&layer.o, &mixed)
    }

    /// (rows, hidden) -> (rows, heads, head_dim), each head normalised where the model does so.
    fn heads(&self, map: &RawLinear, heads: usize, norm: Option<&Tensor>, x: &Tensor) -> Result<Tensor> {
        let split = linear(map, x)?.reshape((x.dim(0)?, heads, self.config.head_dim))?;
        match norm {
            Some(weight) => rms_norm(weight, self.config.norm.eps, &split),
            None => Ok(split),
        }
    }

    /// Rotates the two halves of the first `rotary_dim` dimensions of every head against each other.
    fn rotated(&self, x: &Tensor, pass: &PassInputs) -> Result<Tensor> {
        let (dim, half) = (self.rotary.rotary_dim, self.rotary.rotary_dim / 2);
        let (first, second) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
        let turned_first = (first.broadcast_mul(&pass.cos)? - second.broadcast_mul(&pass.sin)?)?;
        let turned_second = (second.broadcast_mul(&pass.cos)? + first.broadcast_mul(&pass.sin)?)?;
        let still = x.narrow(D::Minus1, dim, self.config.head_dim - dim)?;
        Ok(Tensor::cat(&[turned_first, turned_second, still], D::Minus1)?)
    }

    /// (rows, kv_heads, head_dim) -> (heads, rows, head_dim): every head repeated for the query heads that share it.
    fn shared(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, kv_heads, head_dim) = x.dims3()?;
        let repeated = x.unsqueeze(2)?.broadcast_as((rows, kv_heads, self.config.group(), head_dim))?;
        let heads = repeated.reshape((rows, self.config.heads, head_dim))?;
        Ok(heads.transpose(0, 1)?.contiguous()?)
    }

    /// (rows, hidden) -> (rows, hidden)
    fn mlp(&self, mlp: &RawMlp, x: &Tensor) -> Result<Tensor> {
        match mlp {
            RawMlp::Gated { gate, up, down } => {
                let gate = activate(self.config.activation, &linear(gate, x)?)?; // (rows, ffn)
                linear(down, &(gate * linear(up, x)?)?)
            }
            RawMlp::Plain { up, down } => linear(down, &activate(self.config.activation, &linear(up, x)?)?),
        }
    }

    /// (rows, hidden) -> (rows, hidden)
    fn norm(&self, norm: &RawNorm, x: &Tensor) -> Result<Tensor> {
        let Norm { kind, eps } = self.config.norm;
        let scaled = match kind {
            NormKind::Rms => rms_norm(&norm.weight, eps, x)?,
            NormKind::Layer => rms_norm(&norm.weight, eps, &x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?)?,
        };
        add_bias(scaled, norm.bias.as_ref())
    }
}

impl PassInputs<'_> {
    /// (rows, rows): what is added to the scores, 0 where row `i` sees row `j` and minus infinity where it does not.
    /// Every row sees itself, so no row is minus infinity throughout.
    fn mask(&self, window: Option<usize>) -> Result<Tensor> {
        let rows = self.positions.len();
        let near = |i: usize, j: usize| window.is_none_or(|window| self.positions[j] + window > self.positions[i]);
        let score = |i: usize, j: usize| if self.visible[i][j] && near(i, j) { 0.0 } else { f32::NEG_INFINITY };
        let mask: Vec<f32> = (0..rows * rows).map(|at| score(at / rows, at % rows)).collect();
        Ok(Tensor::from_vec(mask, (rows, rows), &Device::Cpu)?)
    }
}

fn same_length(name: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(ModelError::Shape { name: name.to_owned(), expected: vec![expected], found: vec![found] })
}

fn float(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.to_dtype(DType::F32)?)
}

fn linear(map: &RawLinear, x: &Tensor) -> Result<Tensor> {
    add_bias(x.matmul(&map.weight.to_tensor()?.t()?)?, map.bias.as_ref())
}

fn add_bias(x: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match bias {
        Some(bias) => Ok(x.broadcast_add(&float(bias)?)?),
        None => Ok(x),
    }
}

fn rms_norm(weight: &Tensor, eps: f64, x: &Tensor) -> Result<Tensor> {
    let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
    let normed = x.broadcast_div(&(mean_square + eps)?.sqrt()?)?;
    Ok(normed.broadcast_mul(&float(weight)?)?)
}

fn softmax(x: &Tensor) -> Result<Tensor> {
    let exp = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    Ok(exp.broadcast_div(&exp.sum_keepdim(D::Minus1)?)?)
}

fn activate(activation: Activation, x: &Tensor) -> Result<Tensor> {
    Ok(match activation {
        Activation::Silu => x.silu()?,
        Activation::Gelu => x.gelu_erf()?,
        Activation::GeluTanh => x.gelu()?,
        Activation::Relu => x.relu()?,
    })
}
