//! Products with keys and values in f32.

use super::products::{Products, Summed, Weights};
use crate::kernels::{Kernels, LANES, Product};
use crate::kv_cache::{BLOCK, Floats, Head};

/// Products in f32.
pub(super) struct FloatProducts<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) buffers: &'a mut FloatBuffers,
}

/// The queries at hand.
#[derive(Default)]
pub(super) struct FloatBuffers {
    queries: Vec<f32>,
    head_dim: usize,
}

impl Products for FloatProducts<'_> {
    const QUERIES: usize = 12;
    const POSITIONS: usize = 1;

    fn sum_stride(head_dim: usize) -> usize {
        Floats::value_stride(head_dim)
    }

    fn take(&mut self, queries: &[f32], head_dim: usize) {
        self.buffers.queries.clear();
        self.buffers.queries.extend_from_slice(queries);
        self.buffers.head_dim = head_dim;
    }

    unsafe fn score(&self, head: Head, filled: usize, scores: *mut f32, stride: usize) {
        // SAFETY: (head_dim, BLOCK) keys and queries of head_dim; whole vectors of a partly filled block stay inside it.
        unsafe {
            self.kernels.product_f32(Product {
                x: self.buffers.queries.as_ptr(),
                x_stride: self.buffers.head_dim,
                rows: self.buffers.queries.len() / self.buffers.head_dim,
                w: head.keys.cast::<f32>(),
                w_stride: BLOCK,
                pair_stride: 2 * LANES,
                depth: self.buffers.head_dim,
                vectors: filled.div_ceil(LANES),
                acc: scores,
                acc_stride: stride,
            });
        }
    }

    fn add(&mut self, summed: &Summed<'_>, weights: Weights<'_>, sums: &mut [f32]) {
        let stride = Self::sum_stride(summed.head_dim);
        let located = summed.located.iter().filter_map(|located| located.among(&summed.positions));
        for part in located.flat_map(|located| located.cut(BLOCK)) {
            let from = &weights.elements[part.position..];
            assert!(from.len() >= (weights.queries - 1) * weights.stride + part.run.len, "weights of all queries");
            assert!(sums.len() >= weights.queries * stride, "sums of all queries");
            let head = summed.head(part.run.slot / BLOCK);
            // SAFETY: the run lies inside one block; lengths are checked above.
            unsafe {
                self.kernels.product_f32(Product {
                    x: from.as_ptr(),
                    x_stride: weights.stride,
                    rows: weights.queries,
                    w: head.values.cast::<f32>().add(part.run.slot % BLOCK * stride),
                    w_stride: stride,
                    pair_stride: 2 * LANES,
                    depth: part.run.len,
                    vectors: stride / LANES,
                    acc: sums.as_mut_ptr(),
                    acc_stride: stride,
                });
            }
        }
    }
}
