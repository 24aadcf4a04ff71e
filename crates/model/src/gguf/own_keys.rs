//! Entries of the metadata that only this program's files have. They hold what GGUF has no entry for.

/// All tokens that end a text, an array of u32; GGUF has one of each of three kinds.
pub(super) const EOS: &str = "espalier.eos_token_ids";

/// The layers after which a drafter with several exits may answer, an array of u32.
pub(super) const EXITS: &str = "espalier.exits";

/// How the factors in `rope_freqs.weight` were made, an f64 each, and the field of `rope_scaling` in `config.json`.
pub(super) const LLAMA3: [(&str, &str); 4] = [
    ("espalier.rope_scaling.factor", "factor"),
    ("espalier.rope_scaling.low_freq_factor", "low_freq_factor"),
    ("espalier.rope_scaling.high_freq_factor", "high_freq_factor"),
    ("espalier.rope_scaling.original_context", "original_max_position_embeddings"),
];
