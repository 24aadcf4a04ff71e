//! What is read of a model is packed part by part.

use candle_core::{DType, Tensor};

use super::{Biased, Embedding, Head, Layer, Mlp, NormLayer, Packed, Projection};
use crate::attention::AttentionShape;
use crate::config::{ModelConfig, Norm};
use crate::error::Result;
use crate::linear::Packer;
use crate::load_options::LoadOptions;
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawNorm, RawStates};
use crate::raw_parts::RawParts;

impl Packed {
    /// Packs tensors of the shapes that `config` implies, one part after the other.
    pub(crate) fn load(
        config: &ModelConfig,
        raw: &RawParts,
        options: &LoadOptions,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let mut packer = Packer::new(options.arithmetic, options.format);
        let (embedding, head) = ends(&mut packer, raw)?;
        let mut layers = Vec::with_capacity(raw.layers());
        for i in 0..raw.layers() {
            layers.push(Layer::load(&mut packer, &raw.layer(i)?, config, i)?);
            progress(i + 1, raw.layers());
        }
        let final_norm = NormLayer::load(&raw.final_norm()?, config.norm)?;
        Ok(Self { embedding, layers, final_norm, head })
    }
}

/// Packs what is before the layers and after them.
fn ends(packer: &mut Packer, raw: &RawParts) -> Result<(Embedding, Head)> {
    let Some(RawLinear { weight, bias }) = raw.head()? else {
        return Ok((Embedding::Tied, Head { weight: packer.pack(&raw.embedding()?.for_head())?, bias: None }));
    };
    let head = Head { weight: packer.pack(&weight.for_head())?, bias: bias.as_ref().map(floats).transpose()? };
    Ok((Embedding::Table(raw.embedding()?.in_memory()), head))
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
}

impl Projection {
    /// `parts` are queries, if there are any, keys and values.
    fn load(packer: &mut Packer, norm: &RawNorm, parts: &[&RawLinear], config: &ModelConfig) -> Result<Self> {
        let weights: Vec<&RawMatrix> = parts.iter().map(|part| &part.weight).collect();
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
            None => stacked.resize(stacked.len() + part.weight.outputs(), 0.0),
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
}

impl NormLayer {
    fn load(raw: &RawNorm, kind: Norm) -> Result<Self> {
        Ok(Self { kind, weight: floats(&raw.weight)?, bias: raw.bias.as_ref().map(floats).transpose()? })
    }
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::arithmetic::{Arithmetic, WeightFormat};
    use crate::config::ModelConfig;
    use crate::decoder::Decoder;
    use crate::load_options::LoadOptions;
    use crate::rows::{Asked, Logits, Row, Segment};
    use crate::workspace::Workspace;

    /// Models so small that they are made in no time.
    const TINY: [&str; 2] = [
        r#"{"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 96, "intermediate_size": 160, "vocab_size": 300,
            "num_attention_heads": 6, "num_key_value_heads": 2, "tie_word_embeddings": true}"#,
        r#"{"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128,
            "num_attention_heads": 4, "vocab_size": 300}"#,
    ];

    /// The logits of a chain of three tokens, and how often progress was told.
    fn logits(config: &ModelConfig, seed: u64, options: &LoadOptions) -> (Vec<f32>, usize) {
        let mut told = Vec::new();
        let decoder = Decoder::random(config, seed, options, |packed, all| told.push((packed, all))).unwrap();
        assert_eq!(told.last(), Some(&(decoder.layers(), decoder.layers())));
        let (mut work, mut cache) = (Workspace::new(2), decoder.new_cache());
        let rows = Row::chain(&[7, 299, 0], 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
        let output = decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
        ((0..3).flat_map(|row| output.logits(0, row).to_vec()).collect(), told.len())
    }

    #[test]
    fn a_model_of_random_weights_decodes_alike_from_the_same_seed() {
        for config in TINY.map(|config| ModelConfig::parse(config, None).unwrap()) {
            for arithmetic in Arithmetic::ALL {
                let options = LoadOptions { arithmetic, ..LoadOptions::default() };
                let found = logits(&config, 1, &options);
                assert!(found.0.iter().all(|logit| logit.is_finite() && logit.abs() < 20.0), "{arithmetic}");
                assert!(found.0[0] != found.0[300] && found == logits(&config, 1, &options));
                assert!(found != logits(&config, 2, &options));
            }
            let wide = LoadOptions { format: WeightFormat::F32, ..LoadOptions::default() };
            assert_eq!(logits(&config, 1, &wide), logits(&config, 1, &LoadOptions::default()));
            let cut = LoadOptions { layers: Some(1), ..LoadOptions::default() };
            assert_eq!(logits(&config, 1, &cut).1, 1);
        }
    }
}
