//! The metadata of a GGUF file, from a model's configuration: what `config` reads, the other way round.

use std::fmt::Display;

use espalier_gguf::{Array, Metadata, Value};

use super::architecture::Architecture;
use super::fault::GgufFault;
use super::keys::decimal;
use super::own_keys;
use crate::config::{Activation, Llama3, ModelConfig, NormKind, RopeScaling, Yarn};

/// The version of the block types, which has been the same since 2023.
const QUANTIZATION_VERSION: u32 = 2;

/// The metadata that describe a model.
pub(super) fn metadata(config: &ModelConfig) -> Result<Metadata, GgufFault> {
    let mut entries = Entries { architecture: Architecture::of(config.family), metadata: Metadata::default() };
    entries.whole("general.architecture", Value::String(entries.architecture.name().to_owned()));
    entries.whole("general.quantization_version", Value::U32(QUANTIZATION_VERSION));
    entries.sizes(config)?;
    entries.norm(config)?;
    entries.window(config)?;
    entries.rope(config)?;
    entries.special(config);
    Ok(entries.metadata)
}

struct Entries {
    architecture: Architecture,
    metadata: Metadata,
}

impl Entries {
    fn whole(&mut self, key: &str, value: Value) {
        self.metadata.extend([(key.to_owned(), value)]);
    }

    fn add(&mut self, key: &str, value: Value) {
        self.whole(&format!("{}.{key}", self.architecture.name()), value);
    }

    fn count(&mut self, key: &'static str, count: usize) -> Result<(), GgufFault> {
        let value = u32::try_from(count).map_err(|_| inexpressible(key, &count))?;
        self.add(key, Value::U32(value));
        Ok(())
    }

    /// A number that is read back as it was.
    fn float(&mut self, key: &'static str, number: f64) -> Result<(), GgufFault> {
        let stored = number as f32;
        if decimal(key, stored)? != number {
            return Err(inexpressible(key, &number));
        }
        self.add(key, Value::F32(stored));
        Ok(())
    }

    fn sizes(&mut self, config: &ModelConfig) -> Result<(), GgufFault> {
        self.count("vocab_size", config.vocab)?;
        self.count("context_length", config.context)?;
        self.count("block_count", config.layers)?;
        self.count("embedding_length", config.hidden)?;
        self.count("feed_forward_length", config.ffn)?;
        self.count("attention.head_count", config.heads)?;
        self.count("attention.head_count_kv", config.kv_heads)?;
        self.count("attention.key_length", config.head_dim)?;
        self.count("attention.value_length", config.head_dim)
    }

    /// Norms, and what else an architecture is taken to have: its usual activation.
    fn norm(&mut self, config: &ModelConfig) -> Result<(), GgufFault> {
        let usual = if config.gated_mlp { Activation::Silu } else { Activation::Gelu };
        if config.activation != usual {
            return Err(inexpressible("hidden_act", &format!("{:?}", config.activation)));
        }
        match config.norm.kind {
            NormKind::Rms => self.float("attention.layer_norm_rms_epsilon", config.norm.eps),
            NormKind::Layer => {
                self.add("use_parallel_residual", Value::Bool(config.parallel_residual));
                self.float("attention.layer_norm_epsilon", config.norm.eps)
            }
        }
    }

    fn window(&mut self, config: &ModelConfig) -> Result<(), GgufFault> {
        let first = config.windows.first().copied().flatten();
        let alike = config.windows.iter().all(|window| *window == first);
        match first {
            None if alike => Ok(()),
            Some(window) if alike && self.architecture == Architecture::Llama => {
                self.count("attention.sliding_window", window)
            }
            _ => Err(inexpressible("sliding_window", &"on some layers, or of an architecture without one")),
        }
    }

    fn rope(&mut self, config: &ModelConfig) -> Result<(), GgufFault> {
        let rope = &config.rope;
        if self.architecture == Architecture::Llama && rope.rotary_dim != config.head_dim {
            return Err(inexpressible("partial_rotary_factor", &(rope.rotary_dim as f64 / config.head_dim as f64)));
        }
        self.count("rope.dimension_count", rope.rotary_dim)?;
        self.float("rope.freq_base", rope.theta)?;
        match &rope.scaling {
            // Divisors are a tensor.
            RopeScaling::Default | RopeScaling::Divided { .. } => Ok(()),
            RopeScaling::Linear { factor } => {
                self.add("rope.scaling.type", Value::String("linear".to_owned()));
                self.float("rope.scaling.factor", *factor)
            }
            RopeScaling::Llama3(scaling) => {
                let Llama3 { factor, low_freq_factor, high_freq_factor, original_context } = *scaling;
                let values = [factor, low_freq_factor, high_freq_factor, original_context];
                let keys = own_keys::LLAMA3.map(|(key, _)| key).into_iter();
                keys.zip(values).for_each(|(key, value)| self.whole(key, Value::F64(value)));
                Ok(())
            }
            RopeScaling::Yarn(yarn) => self.yarn(yarn),
        }
    }

    fn yarn(&mut self, yarn: &Yarn) -> Result<(), GgufFault> {
        if yarn.attention_factor != Yarn::attention_factor_of(yarn.factor) {
            return Err(inexpressible("attention_factor", &yarn.attention_factor));
        }
        if !yarn.truncate || yarn.original_context.fract() != 0.0 {
            return Err(inexpressible("rope_scaling", &"YaRN with bounds that are not whole"));
        }
        self.add("rope.scaling.type", Value::String("yarn".to_owned()));
        self.count("rope.scaling.original_context_length", yarn.original_context as usize)?;
        self.float("rope.scaling.factor", yarn.factor)?;
        self.float("rope.scaling.yarn_beta_fast", yarn.beta_fast)?;
        self.float("rope.scaling.yarn_beta_slow", yarn.beta_slow)
    }

    fn special(&mut self, config: &ModelConfig) {
        if let Some(bos) = config.bos {
            self.whole("tokenizer.ggml.bos_token_id", Value::U32(bos));
        }
        if let Some(&eos) = config.eos.first() {
            self.whole("tokenizer.ggml.eos_token_id", Value::U32(eos));
        }
        self.whole(own_keys::EOS, Value::Array(Array::U32(config.eos.clone())));
    }
}

fn inexpressible(what: &'static str, found: &dyn Display) -> GgufFault {
    GgufFault::Inexpressible { what, found: found.to_string() }
}
