//! What tests share.

use std::path::{Path, PathBuf};

use espalier_model::Checkpoint;

use crate::data::Voice;

/// A shipped checkpoint.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

/// A golden checkpoint of the model crate.
pub(crate) fn golden(name: &str) -> Checkpoint {
    Checkpoint::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden").join(name)).unwrap()
}

/// How the shipped targets write.
pub(crate) fn voice() -> Voice {
    Voice::of(&shipped("small")).unwrap()
}
