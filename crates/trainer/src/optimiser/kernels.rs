//! The optimiser's arithmetic on the processor: in place and once through memory.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp2, InplaceOp3, Layout, Tensor, Var};
use rayon::prelude::*;

use super::update::{EPSILON, Moments, Update};
use crate::error::Result;
use crate::real::{self, Real, with_real};

/// Elements that one thread takes at a time.
const CHUNK: usize = 1 << 14;

/// The sum of squares, added up in one order whatever the number of threads: a scalar of f64.
pub(super) fn square_sum(tensor: &Tensor) -> Result<Tensor> {
    let sum = with_real!("square-sum", tensor.dtype(), T => real::read(tensor, square_sum_of::<T>))?;
    Ok(Tensor::new(sum, tensor.device())?)
}

fn square_sum_of<T: Real>(values: &[T]) -> f64 {
    let part = |chunk: &[T]| chunk.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>();
    values.par_chunks(CHUNK).map(part).collect::<Vec<f64>>().into_iter().sum()
}

/// Moves a tensor against its gradient.
pub(super) fn update(var: &Var, moments: &mut Moments, gradient: &Tensor, update: &Update) -> Result<()> {
    let &Update { keep_mean, add_gradient, keep_square, add_square, keep_weight, rate, square_scale } = update;
    let Moments { mean, square } = moments;
    mean.inplace_op2(gradient, &Blend { keep: keep_mean, add: add_gradient, squared: false })?;
    square.inplace_op2(gradient, &Blend { keep: keep_square, add: add_square, squared: true })?;
    Ok(var.inplace_op3(mean, square, &Descent { rate, square_scale, keep: keep_weight })?)
}

/// `state = keep * state + add * gradient`, or `gradient²`.
struct Blend {
    keep: f64,
    add: f64,
    squared: bool,
}

impl Blend {
    fn run<T: Real>(&self, state: &mut [T], gradient: &[T]) {
        let (keep, add) = (T::from_f64(self.keep), T::from_f64(self.add));
        let squared = self.squared;
        pairs(state, gradient).for_each(|(state, gradient)| {
            for (s, g) in state.iter_mut().zip(gradient) {
                let g = if squared { *g * *g } else { *g };
                *s = keep * *s + add * g;
            }
        });
    }
}

fn pairs<'a, T: Real>(
    state: &'a mut [T],
    other: &'a [T],
) -> impl IndexedParallelIterator<Item = (&'a mut [T], &'a [T])> {
    state.par_chunks_mut(CHUNK).zip(other.par_chunks(CHUNK))
}

impl InplaceOp2 for Blend {
    fn name(&self) -> &'static str {
        "blend"
    }

    fn cpu_fwd(&self, s1: &mut CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> candle_core::Result<()> {
        with_real!("blend", s1.dtype(), T => {
            self.run::<T>(real::slice_mut(s1, l1)?, real::slice(s2, l2)?);
            Ok(())
        })
    }
}

/// `var = keep * var - rate * mean / (sqrt(square_scale * square) + epsilon)`.
struct Descent {
    rate: f64,
    square_scale: f64,
    keep: f64,
}

impl Descent {
    fn run<T: Real>(&self, var: &mut [T], mean: &[T], square: &[T]) {
        let [rate, scale, keep] = [self.rate, self.square_scale, self.keep].map(T::from_f64);
        let epsilon = T::from_f64(EPSILON);
        pairs(var, mean).zip(square.par_chunks(CHUNK)).for_each(|((var, mean), square)| {
            for ((p, m), v) in var.iter_mut().zip(mean).zip(square) {
                *p = keep * *p - rate * *m / ((scale * *v).sqrt() + epsilon);
            }
        });
    }
}

impl InplaceOp3 for Descent {
    fn name(&self) -> &'static str {
        "descent"
    }

    fn cpu_fwd(
        &self,
        s1: &mut CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> candle_core::Result<()> {
        with_real!("descent", s1.dtype(), T => {
            self.run::<T>(real::slice_mut(s1, l1)?, real::slice(s2, l2)?, real::slice(s3, l3)?);
            Ok(())
        })
    }
}
