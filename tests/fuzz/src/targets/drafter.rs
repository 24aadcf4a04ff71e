//! Folders of drafters, which may be of use to one target only, and of predictors.

use std::sync::LazyLock;

use espalier_model::{DraftModel, LoadOptions, Predictor, fingerprint};
use serde_json::{Value, json};

use crate::folder::{File, Folder};
use crate::parts::{joined, split};
use crate::target::{Target, refused};
use crate::targets::model;
use crate::tiny::{self, Listed, WIDTH};

pub(crate) const DRAFTER: Target = Target {
    name: "drafter",
    about: "A drafter's folder is refused, or runs, beside the target that it may be made for.",
    run: |bytes| {
        let [config, tensors] = split(bytes);
        let own = Folder::of(&[
            File { name: "config.json", bytes: config },
            File { name: "model.safetensors", bytes: tensors },
        ]);
        let target = target();
        let open = |target| match DraftModel::open(own.path(), target, &LoadOptions::default()) {
            Err(refusal) => refused(&refusal),
            Ok(drafter) => {
                assert_eq!(drafter.exits().last(), Some(&drafter.decoder().layers()));
                model::run(drafter.decoder()).is_ok()
            }
        };
        open(None) | open(Some(target.path()))
    },
    seeds: || {
        let layer = || tiny::split_layer(0, &[]);
        let states = [
            ("states_norm", vec![WIDTH]),
            ("self_attn.k_states_proj", vec![WIDTH / 2, WIDTH]),
            ("self_attn.v_states_proj", vec![WIDTH / 2, WIDTH]),
        ];
        let named = |(name, shape)| Listed { name: format!("model.layers.0.{name}.weight"), shape };
        let ends = || {
            let square = |name: &str| Listed { name: name.to_owned(), shape: vec![WIDTH, WIDTH] };
            let norm = Listed { name: "model.norm.weight".to_owned(), shape: vec![WIDTH] };
            [square("model.embed_tokens.weight"), square("lm_head.weight"), norm]
        };
        let edd = json!({
            "model_type": "espalier_edd", "target": card(), "tapped_layer": 2, "block_lengths": [5, 10],
            "tokens_beside_states": true, "decoder": decoder(),
        });
        let early = json!({
            "model_type": "espalier_early_exit", "target": card(), "shared_layers": 1, "decoder": decoder(),
        });
        let with_states = tiny::file("F32", layer().into_iter().chain(states.map(named)).chain(ends()));
        let alone = tiny::file("BF16", layer().into_iter().chain(ends()));
        let whole = tiny::llama();
        vec![
            joined(&[edd.to_string().as_bytes(), &with_states]),
            joined(&[early.to_string().as_bytes(), &alone]),
            joined(&[whole.config.as_bytes(), &whole.tensors]),
        ]
    },
    tries: 300,
    memory_max: model::MEMORY_MAX,
};

pub(crate) const PREDICTOR: Target = Target {
    name: "predictor",
    about: "A predictor's folder is refused, or predicts.",
    run: |bytes| {
        let [config, tensors] = split(bytes);
        let folder = Folder::of(&[
            File { name: "config.json", bytes: config },
            File { name: "model.safetensors", bytes: tensors },
        ]);
        match Predictor::open(folder.path()) {
            Err(refusal) => refused(&refusal),
            Ok(predictor) => {
                let states = [predictor.config().target.hidden_size, predictor.config().draft_hidden_size];
                let [of_target, of_draft] = states.map(|width| vec![0.5; width]);
                if let Ok(theta) = predictor.theta(11, &of_target, &of_draft) {
                    assert!((0.0..=1.0).contains(&theta), "{theta} is no probability");
                }
                true
            }
        }
    },
    seeds: || {
        let config = json!({
            "model_type": "espalier_cali_ts", "target": card(), "tapped_layer": 1, "drafter": "d",
            "draft_hidden_size": 3,
        });
        let tensors = [("target.weight", vec![10, WIDTH, WIDTH]), ("output.weight", vec![1, WIDTH + 3])];
        let tensors = tensors.map(|(name, shape)| Listed { name: name.to_owned(), shape });
        vec![joined(&[config.to_string().as_bytes(), &tiny::file("BF16", tensors.into_iter())])]
    },
    tries: 600,
    memory_max: 1 << 20,
};

/// The folder of the target that drafters are made for.
fn target() -> Folder {
    let tiny::Tiny { config, tensors, .. } = tiny::llama();
    Folder::of(&[
        File { name: "config.json", bytes: config.as_bytes() },
        File { name: "model.safetensors", bytes: &tensors },
    ])
}

/// What drafters say of it.
fn card() -> Value {
    static FINGERPRINT: LazyLock<String> =
        LazyLock::new(|| fingerprint(target().path()).expect("the checkpoint is whole"));
    json!({ "name": "t", "fingerprint": *FINGERPRINT, "tokenizer": "v", "layers": 2, "hidden_size": WIDTH })
}

/// The one layer of a drafter, of the target's shape.
fn decoder() -> Value {
    let mut config: Value = serde_json::from_str(&tiny::llama().config).expect("it is JSON");
    config["num_hidden_layers"] = json!(1);
    config["tie_word_embeddings"] = json!(false);
    config
}
