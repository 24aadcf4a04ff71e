//! How much memory a model takes, before any of it is made.

use std::sync::Arc;

use espalier_gguf::TensorType;

use crate::arithmetic::Arithmetic;
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::error::Result;
use crate::inventory::inventory;
use crate::kv_cache::{CacheShape, KvFormat};
use crate::linear::{PANEL, Packer};
use crate::load_options::LoadOptions;
use crate::names::Names;
use crate::raw_matrix::RawMatrix;

/// Bytes of a weight as it is stored: of bf16.
const STORED_BYTES: usize = 2;

impl ModelConfig {
    /// Weights of a model, biases and norms included; an embedding that is the head too counts once.
    pub fn parameters(&self) -> usize {
        inventory(self, Names::of(self.family)).iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum()
    }

    /// Weights of one layer.
    pub(crate) fn layer_parameters(&self) -> usize {
        let ends = Self { layers: 0, ..self.clone() };
        (self.parameters() - ends.parameters()) / self.layers
    }

    /// Bytes of the keys and values of one sequence that fills the context, on the processor.
    pub fn context_memory(&self, arithmetic: Arithmetic) -> usize {
        let Self { layers, kv_heads, head_dim, context, .. } = *self;
        let shape = CacheShape { layers, kv_heads, head_dim, context, format: KvFormat::of(arithmetic) };
        shape.context_blocks().saturating_mul(shape.block_bytes())
    }
}

impl Decoder {
    /// Bytes that loading a model of random weights takes at most: all that is packed, and the largest part that is made,
    /// in bf16. A checkpoint of bf16 takes less, as its matrices are read from the file on the way into their panels.
    ///
    /// # Errors
    /// No memory for a panel of weights.
    pub fn memory(config: &ModelConfig, options: &LoadOptions) -> Result<usize> {
        let config = ModelConfig { layers: options.layers.unwrap_or(config.layers), ..config.clone() };
        let embedding = config.vocab * config.hidden;
        let mut packer = Packer::new(options.arithmetic, options.format);
        let names = Names::of(config.family);
        let head = if config.tied { names.embedding } else { names.head };
        let mut packed = 0;
        for tensor in inventory(&config, names) {
            packed += match tensor.shape[..] {
                [_, _] if !config.tied && tensor.name.starts_with(names.embedding) => embedding * STORED_BYTES,
                [outputs, inputs] => {
                    let panel = panel(inputs);
                    let panel = if tensor.name.starts_with(head) { panel.for_head() } else { panel };
                    packer.pack(&panel)?.bytes() * outputs.div_ceil(PANEL)
                }
                _ => tensor.shape.iter().product::<usize>() * size_of::<f32>(),
            };
        }
        Ok(packed + embedding.max(config.layer_parameters()) * STORED_BYTES)
    }
}

/// As many outputs of a matrix as are packed together: a packed matrix takes as many bytes as its panels do.
fn panel(inputs: usize) -> RawMatrix {
    let zeros = vec![0_u8; PANEL * inputs * STORED_BYTES];
    RawMatrix::new(Arc::new(zeros), 0, TensorType::BF16, [PANEL, inputs])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A Llama so small that it is made in no time.
    const TINY: &str = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 192,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 500, "rms_norm_eps": 1e-5}"#;

    #[test]
    fn a_model_takes_what_is_reckoned() {
        for tied in [false, true] {
            let config = ModelConfig { tied, ..ModelConfig::parse(TINY, None).unwrap() };
            let parameters = 2 * 64 * (4 * 64 + 3 * 192 + 2) + 64;
            assert_eq!(config.parameters(), parameters + 500 * 64 * if tied { 1 } else { 2 });
            for arithmetic in Arithmetic::ALL {
                let options = LoadOptions { arithmetic, ..LoadOptions::default() };
                let decoder = Decoder::random(&config, 1, &options, |_, _| {}).unwrap();
                let table = if tied { 0 } else { 500 * 64 * 2 };
                let (norms, largest_read) = (5 * 64 * 4, 64 * (4 * 64 + 3 * 192 + 2) * 2);
                let needed = Decoder::memory(&config, &options).unwrap();
                assert_eq!(needed, decoder.weight_bytes() + table + norms + largest_read, "{arithmetic}");
                assert_eq!(config.context_memory(arithmetic), decoder.context_bytes(), "{arithmetic}");
            }
        }
    }
}
