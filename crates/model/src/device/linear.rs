//! Linear maps and norms over rows.

use candle_core::{D, Result, Tensor};

use super::product::Operand;
use crate::config::{Norm, NormKind};

/// Rows of every product: what is missing is zeros. A library picks its algorithm by the sizes of a product, so all have
/// the same.
pub(super) const BUCKET: usize = 16;

/// A linear map with its bias.
pub(super) struct Map {
    /// (out, in), in what inputs are rounded to.
    pub(super) weight: Tensor,
    /// (out,) in f32.
    pub(super) bias: Option<Tensor>,
}

/// A norm with its weights.
pub(super) struct NormLayer {
    pub(super) kind: Norm,
    /// (width,) in f32.
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
}

impl Map {
    pub(super) fn multiply_adds(&self) -> usize {
        self.weight.elem_count()
    }

    /// `x` (rows, in), rows being a multiple of [`BUCKET`], to (rows, out), both in f32.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, x) = (Operand::new(&self.weight)?, x.to_dtype(self.weight.dtype())?);
        let buckets = (0..x.dim(0)?).step_by(BUCKET);
        let products: Vec<Tensor> =
            buckets.map(|row| weight.product(&x.narrow(0, row, BUCKET)?)).collect::<Result<_>>()?;
        let product = if let [product] = &products[..] { product.clone() } else { Tensor::cat(&products, 0)? };
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

impl NormLayer {
    /// Normalises the last dimension of `x`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let centred = match self.kind.kind {
            NormKind::Rms => x.clone(),
            NormKind::Layer => x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?,
        };
        let size = (centred.sqr()?.mean_keepdim(D::Minus1)? + self.kind.eps)?.sqrt()?;
        let scaled = centred.broadcast_div(&size)?.broadcast_mul(&self.weight)?;
        match &self.bias {
            Some(bias) => scaled.broadcast_add(bias),
            None => Ok(scaled),
        }
    }
}

/// The number of rows that so many become: a multiple of [`BUCKET`], at least one.
pub(super) fn bucketed(rows: usize) -> usize {
    rows.max(1).next_multiple_of(BUCKET)
}

/// `rows` with zeros after them, so that their number is [`bucketed`].
pub(super) fn padded(rows: &Tensor) -> Result<Tensor> {
    let count = rows.dim(0)?;
    let whole = bucketed(count);
    if whole == count { Ok(rows.clone()) } else { rows.pad_with_zeros(0, 0, whole - count) }
}
