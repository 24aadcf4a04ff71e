//! The targets there are: one line each.

use crate::target::Target;
use crate::targets::{
    checkpoint, config, deadline, drafter, generation, gguf, gguf_model, gguf_tokenizer, golden, http, keys, pem,
    pieces, policy, profiles, speculate, status, template, tokenizer, verify,
};

/// All targets, those of files first.
pub const TARGETS: &[Target] = &[
    gguf::TARGET,
    gguf_model::TARGET,
    gguf_tokenizer::TARGET,
    config::TARGET,
    checkpoint::TARGET,
    drafter::DRAFTER,
    drafter::PREDICTOR,
    golden::TARGET,
    tokenizer::TOKENIZER,
    tokenizer::SETTINGS,
    template::TARGET,
    pem::TARGET,
    keys::FILE,
    keys::HEADER,
    profiles::TARGET,
    policy::POLICY,
    policy::THRESHOLDS,
    generation::REQUEST,
    generation::EVENT,
    generation::TARGET_CARD,
    speculate::START,
    speculate::GRANT,
    speculate::EVENT,
    speculate::CARD,
    verify::OPEN,
    verify::RANKED,
    verify::DRAWN,
    verify::EVENT,
    verify::CARD,
    pieces::TARGET,
    status::VERIFIER,
    status::DRAFTER,
    status::SYSTEM,
    status::FAULT,
    deadline::TARGET,
    http::CHAT,
    http::COMPLETION,
    http::TOKENS,
];

impl Target {
    /// The target of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
