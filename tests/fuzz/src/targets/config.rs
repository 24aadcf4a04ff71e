//! `config.json` and `generation_config.json`, as texts.

use espalier_model::ModelConfig;

use crate::parts::{joined, split};
use crate::target::{Target, refused};
use crate::tiny;

pub(crate) const TARGET: Target = Target {
    name: "config",
    about: "A model's configuration is refused, or its sizes fit together.",
    run: |bytes| {
        let [config, generation] = split(bytes).map(std::str::from_utf8);
        let (Ok(config), Ok(generation)) = (config, generation) else { return false };
        let generation = Some(generation).filter(|text| !text.is_empty());
        match ModelConfig::parse(config, generation) {
            Err(refusal) => refused(&refusal),
            Ok(config) => {
                assert_eq!(config.group() * config.kv_heads, config.heads, "keys are shared by whole groups of heads");
                assert_eq!(config.windows.len(), config.layers, "each layer has a window or none");
                assert!(config.rope.rotary_dim <= config.head_dim, "a head turns within itself");
                assert!(config.q_width().min(config.kv_width()).min(config.context) > 0, "nothing is empty");
                assert!(config.attention_scale().is_finite());
                true
            }
        }
    },
    seeds: || tiny::all().map(|tiny| joined(&[tiny.config.as_bytes(), tiny.generation.as_bytes()])).into(),
    tries: 3000,
    memory_max: 1 << 18,
};
