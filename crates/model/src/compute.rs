//! What a command line asks matrices to be multiplied in, and what that means for a checkpoint.

use std::fmt;
use std::str::FromStr;

use espalier_gguf::TensorType;

use crate::arithmetic::{Arithmetic, UnknownArithmetic};
use crate::device_kind::DeviceKind;
use crate::kernels::Kernels;
use crate::weights::Weights;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// What the checkpoint holds, which is the same on every processor: [`Arithmetic::Int8Q4`] if most weights of its
    /// matrices are in 4 bits, [`Arithmetic::Int8`] for other quantized weights, [`Arithmetic::F32`] for floats. On a GPU
    /// [`Arithmetic::Bf16`] for all that is not in f32.
    #[default]
    Stored,
    /// The same, but for floats of 16 bits what this processor has instructions for: [`Arithmetic::Bf16`] with tiles,
    /// [`Arithmetic::Bf16Dot`] with dot products that are faster than floats.
    Auto,
    /// What suits drafters, whose arithmetic changes no text: [`Arithmetic::Int8Q4`] if most weights are in 4 bits,
    /// [`Arithmetic::Int8`] for all else, floats too; on a GPU [`Arithmetic::Bf16`].
    Draft,
    /// This one.
    In(Arithmetic),
}

/// How many bits weights are rounded to at load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantize {
    /// 8, as in [`Arithmetic::Int8`].
    Q8,
    /// 4, as in [`Arithmetic::Int8Q4`].
    Q4,
}

/// Two wishes that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("weights rounded to {quantize} are multiplied in int8, not in {arithmetic}")]
pub struct ComputeConflict {
    quantize: Quantize,
    arithmetic: Arithmetic,
}

impl Compute {
    /// The same with weights rounded, if that is asked for.
    ///
    /// # Errors
    /// An arithmetic for weights of another kind.
    pub fn quantized(self, quantize: Option<Quantize>) -> Result<Self, ComputeConflict> {
        let Some(quantize) = quantize else { return Ok(self) };
        let arithmetic = match quantize {
            Quantize::Q8 => Arithmetic::Int8,
            Quantize::Q4 => Arithmetic::Int8Q4,
        };
        match self {
            Self::Stored | Self::Auto | Self::Draft | Self::In(Arithmetic::Int8) => Ok(Self::In(arithmetic)),
            Self::In(asked) if asked == arithmetic => Ok(self),
            Self::In(arithmetic) => Err(ComputeConflict { quantize, arithmetic }),
        }
    }

    /// What this means for a checkpoint on this processor, or on another device.
    pub fn of(self, weights: &Weights, device: DeviceKind) -> Arithmetic {
        match (self, device) {
            (Self::In(arithmetic), _) => arithmetic,
            (_, DeviceKind::Cuda(_)) => self.on_gpu(&weights.kinds()),
            (_, DeviceKind::Emulated) => Arithmetic::Bf16,
            (_, DeviceKind::Candle) => Arithmetic::F32,
            _ if weights.in_four_bits() => Arithmetic::Int8Q4,
            (Self::Draft, _) => Arithmetic::Int8,
            (Self::Stored, _) => suitable(&weights.kinds(), None),
            (Self::Auto, _) => suitable(&weights.kinds(), Kernels::detect().arithmetic_of_16_bits()),
        }
    }

    /// The same for tensors of such types on a GPU: bf16, which our kernels there compute in, for drafters and for whatever
    /// is not in f32.
    fn on_gpu(self, kinds: &[TensorType]) -> Arithmetic {
        match self {
            Self::In(arithmetic) => arithmetic,
            Self::Draft => Arithmetic::Bf16,
            _ if kinds.iter().any(|kind| *kind != TensorType::F32) => Arithmetic::Bf16,
            Self::Auto | Self::Stored => Arithmetic::F32,
        }
    }
}

/// What suits tensors of such types that are not in 4 bits, on a processor that has instructions for `of_16_bits`.
fn suitable(kinds: &[TensorType], of_16_bits: Option<Arithmetic>) -> Arithmetic {
    let quantized = |kind: &TensorType| !matches!(kind, TensorType::F32 | TensorType::F16 | TensorType::BF16);
    let in_16_bits = |kind: &TensorType| matches!(kind, TensorType::F16 | TensorType::BF16);
    match of_16_bits {
        _ if kinds.iter().any(quantized) => Arithmetic::Int8,
        Some(arithmetic) if kinds.iter().any(in_16_bits) => arithmetic,
        _ => Arithmetic::F32,
    }
}

impl From<Arithmetic> for Compute {
    fn from(arithmetic: Arithmetic) -> Self {
        Self::In(arithmetic)
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => f.write_str("stored"),
            Self::Auto => f.write_str("auto"),
            Self::Draft => f.write_str("draft"),
            Self::In(arithmetic) => arithmetic.fmt(f),
        }
    }
}

impl FromStr for Compute {
    type Err = UnknownArithmetic;

    fn from_str(name: &str) -> Result<Self, UnknownArithmetic> {
        match name {
            "stored" => Ok(Self::Stored),
            "auto" => Ok(Self::Auto),
            "draft" => Ok(Self::Draft),
            _ => name.parse().map(Self::In),
        }
    }
}

impl fmt::Display for Quantize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Q8 => "q8",
            Self::Q4 => "q4",
        })
    }
}

/// Weights are rounded to nothing of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("weights can be rounded to q8 or q4, not to {found:?}")]
pub struct UnknownQuantize {
    found: String,
}

impl FromStr for Quantize {
    type Err = UnknownQuantize;

    fn from_str(name: &str) -> Result<Self, UnknownQuantize> {
        match name {
            "q8" => Ok(Self::Q8),
            "q4" => Ok(Self::Q4),
            _ => Err(UnknownQuantize { found: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_suits_depends_on_the_weights_and_for_16_bits_on_the_processor() {
        use TensorType::{BF16, F16, F32, Q6_K, Q8_0};
        for (kinds, without, with) in [
            (&[F32, F32][..], Arithmetic::F32, Arithmetic::F32),
            (&[F32, BF16], Arithmetic::F32, Arithmetic::Bf16),
            (&[F16], Arithmetic::F32, Arithmetic::Bf16),
            (&[F32, Q8_0], Arithmetic::Int8, Arithmetic::Int8),
            (&[F32, BF16, Q6_K], Arithmetic::Int8, Arithmetic::Int8),
        ] {
            assert_eq!([None, Some(Arithmetic::Bf16)].map(|own| suitable(kinds, own)), [without, with], "{kinds:?}");
        }
    }

    #[test]
    fn on_a_gpu_drafters_are_in_bf16_and_targets_where_they_are_not_stored_in_f32() {
        use TensorType::{BF16, F32, Q6_K};
        for (kinds, target) in
            [(&[F32][..], Arithmetic::F32), (&[F32, BF16], Arithmetic::Bf16), (&[F32, Q6_K], Arithmetic::Bf16)]
        {
            let found = [Compute::Stored, Compute::Auto, Compute::Draft].map(|compute| compute.on_gpu(kinds));
            assert_eq!(found, [target, target, Arithmetic::Bf16], "{kinds:?}");
        }
    }

    #[test]
    fn rounded_weights_are_multiplied_in_int8() {
        let asked = |compute: &str, quantize: &str| {
            compute.parse::<Compute>().unwrap().quantized(Some(quantize.parse().unwrap())).map(|c| c.to_string())
        };
        assert_eq!(asked("auto", "q8").unwrap(), "int8");
        assert_eq!(asked("auto", "q4").unwrap(), "int8-q4");
        assert_eq!(asked("int8", "q4").unwrap(), "int8-q4");
        assert_eq!(asked("int8-q4", "q4").unwrap(), "int8-q4");
        let refusal = asked("bf16", "q4").unwrap_err().to_string();
        assert_eq!(refusal, "weights rounded to q4 are multiplied in int8, not in bf16");
        assert!(asked("int8-q4", "q8").is_err());
        for (name, compute) in [("auto", Compute::Auto), ("draft", Compute::Draft), ("stored", Compute::Stored)] {
            assert_eq!(asked(name, "q8").unwrap(), "int8");
            assert_eq!(name.parse::<Compute>().unwrap().quantized(None).unwrap(), compute);
            assert_eq!(compute.to_string(), name);
        }
        let refusal = "q5".parse::<Quantize>().unwrap_err().to_string();
        assert_eq!(refusal, "weights can be rounded to q8 or q4, not to \"q5\"");
    }
}
