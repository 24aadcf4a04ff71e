//! Rows in another order, as lists of where they come from.

use candle_core::{Device, Tensor};

use crate::error::Result;

/// Where rows come from that run over three axes, once two of the axes are exchanged.
pub(crate) fn exchanged(mut axes: [usize; 3], [one, other]: [usize; 2]) -> Vec<usize> {
    let mut strides = [axes[1] * axes[2], axes[2], 1];
    axes.swap(one, other);
    strides.swap(one, other);
    let [outer, middle, inner] = axes;
    let place = |at: usize| [at / (middle * inner), at / inner % middle, at % inner];
    let source = |at: usize| place(at).iter().zip(strides).map(|(place, stride)| place * stride).sum();
    (0..outer * middle * inner).map(source).collect()
}

/// The rows of a tensor that are listed, in the order of the list.
pub(crate) fn ordered(tensor: &Tensor, rows: &[usize]) -> Result<Tensor> {
    let rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
    let rows = Tensor::from_slice(&rows, rows.len(), &Device::Cpu)?;
    Ok(tensor.index_select(&rows, 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_axes_are_exchanged() {
        assert_eq!(exchanged([2, 3, 1], [0, 1]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(exchanged([1, 2, 3], [1, 2]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(exchanged([2, 2, 2], [0, 2]), [0, 4, 2, 6, 1, 5, 3, 7]);
    }
}
