//! What checkpoints say of themselves, as far as the doctor judges it.

use espalier_model::{Arithmetic, TargetCard};

/// What a checkpoint is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Target,
    Drafter,
    /// It is in the folder of models, or was asked for as a predictor.
    Beside,
}

/// A checkpoint that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) part: Part,
    pub(crate) found: Result<Facts, Unusable>,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) why: String,
    /// Whether there is nothing at all.
    pub(crate) is_missing: bool,
}

/// What was found of a checkpoint that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) size: Option<Size>,
    pub(crate) tokens: Tokens,
    /// The fingerprint of the model, where anything else names one.
    pub(crate) fingerprint: Option<String>,
}

/// What sort of checkpoint it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A model, or a drafter for any target of its vocabulary.
    Model,
    /// A drafter for one target.
    Only { kind: &'static str, target: TargetCard },
    /// What foretells acceptance of what a drafter of this fingerprint drafts.
    Predictor { drafter: String },
}

/// How large a model is, and what it takes.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    pub(crate) layers: usize,
    pub(crate) parameters: usize,
    /// Tokens of its context.
    pub(crate) context: usize,
    /// Tokens that it knows.
    pub(crate) vocab: usize,
    /// What it would be multiplied in.
    pub(crate) arithmetic: Arithmetic,
    /// Bytes that loading it takes, at most.
    pub(crate) weights: usize,
    /// Bytes of the keys and values of one full context.
    pub(crate) of_context: usize,
}

/// What is known of its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) fingerprint: String,
    pub(crate) count: usize,
    pub(crate) has_template: bool,
}

/// The checkpoints of a part that can be read.
pub(crate) fn readable(seen: &[Seen], part: Part) -> impl Iterator<Item = NamedFacts<'_>> {
    let of_part = seen.iter().filter(move |seen| seen.part == part);
    of_part.filter_map(|seen| Some(NamedFacts { name: &seen.name, facts: seen.found.as_ref().ok()? }))
}

/// A checkpoint that can be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) facts: &'a Facts,
}
