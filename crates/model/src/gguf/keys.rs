//! The entries of the metadata that describe a model.

use std::fmt::Display;

use espalier_gguf::{FromValue, Metadata};

use super::architecture::Architecture;
use super::fault::GgufFault;

/// The metadata of a model of one architecture; keys are given without its name in front.
pub(super) struct Keys<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) architecture: Architecture,
}

impl<'a> Keys<'a> {
    /// The whole key.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name())
    }

    pub(super) fn required<T: FromValue<'a>>(&self, key: &str) -> Result<T, GgufFault> {
        Ok(self.metadata.required(&self.name(key))?)
    }

    pub(super) fn optional<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufFault> {
        Ok(self.metadata.optional(&self.name(key))?)
    }

    /// A float that must be there; see [`Self::optional_float`].
    pub(super) fn float(&self, key: &str) -> Result<f64, GgufFault> {
        decimal(&self.name(key), self.required(key)?)
    }

    /// A float that may be there: the shortest decimal that rounds to the `f32` in the file, which is what the
    /// model's makers wrote.
    pub(super) fn optional_float(&self, key: &str) -> Result<Option<f64>, GgufFault> {
        self.optional(key)?.map(|found| decimal(&self.name(key), found)).transpose()
    }

    /// A refusal of an entry.
    pub(super) fn unsupported(&self, key: &str, found: &dyn Display, supported: &'static str) -> GgufFault {
        GgufFault::Unsupported { key: self.name(key), found: found.to_string(), supported }
    }
}

/// The shortest decimal that rounds to an `f32`.
pub(super) fn decimal(key: &str, found: f32) -> Result<f64, GgufFault> {
    let fault = || GgufFault::NotFinite { key: key.to_owned(), found };
    found.to_string().parse().ok().filter(|decimal: &f64| decimal.is_finite()).ok_or_else(fault)
}
