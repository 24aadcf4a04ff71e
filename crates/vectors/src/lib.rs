//! The shared test vectors of the algorithms, run against this build.
//!
//! A vector file is `{"schema": 1, "what": text, "cases": [...]}`; its name says which part of
//! `espalier_speculation` it is about, and `models.json` holds the toy models that cases name. [`check`] runs every
//! file of a folder. Floats must agree within [`TOLERANCE`], everything else exactly.

mod acceptance;
mod beliefs;
mod case;
mod figures;
mod files;
mod gain;
mod policies;
mod rejection;
mod report;
mod suite;
mod toy;

pub use case::TOLERANCE;
pub use files::{SCHEMA, VectorsError};
pub use report::{Failure, FileReport, Report};
pub use suite::check;
