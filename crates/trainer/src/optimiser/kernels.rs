//! The optimiser's arithmetic: in place and once through memory on the CPU, by tensor operations elsewhere.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp2, InplaceOp3, Layout, Tensor, Var};
use rayon::prelude::*;

use crate::error::Result;
use crate::real::{self, Real, with_real};

/// Keeps the quotient finite where the mean of squares is 0.
pub(super) const EPSILON: f64 = 1e-8;

/// Elements that one thread takes at a time.
const CHUNK: usize = 1 << 14;

/// The sum of squares, added up in one order whatever the number of threads.
pub(super) fn square_sum(tensor: &Tensor) -> Result<f64> {
    if !tensor.device().is_cpu() {
        return Ok(tensor.sqr()?.sum_all()?.to_dtype(candle_core::DType::F64)?.to_scalar()?);
    }
    Ok(with_real!("square-sum", tensor.dtype(), T => real::read(tensor, square_sum_of::<T>))?)
}

fn square_sum_of<T: Real>(values: &[T]) -> f64 {
    let part = |chunk: &[T]| chunk.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>();
    values.par_chunks(CHUNK).map(part).collect::<Vec<f64>>().into_iter().sum()
}

/// `state = keep * state + add * gradient`.
pub(super) fn blend(state: &mut Tensor, gradient: &Tensor, keep: f64, add: f64) -> Result<()> {
    if state.device().is_cpu() {
        return Ok(state.inplace_op2(gradient, &Blend { keep, add, squared: false })?);
    }
    *state = ((&*state * keep)? + (gradient * add)?)?;
    Ok(())
}

/// `state = keep * state + add * gradient²`.
pub(super) fn blend_squares(state: &mut Tensor, gradient: &Tensor, keep: f64, add: f64) -> Result<()> {
    if state.device().is_cpu() {
        return Ok(state.inplace_op2(gradient, &Blend { keep, add, squared: true })?);
    }
    *state = ((&*state * keep)? + (gradient.sqr()? * add)?)?;
    Ok(())
}

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

/// One tensor's way down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descent {
    /// The rate, over the mean's bias.
    pub(super) mean_scale: f64,
    /// One over the square's bias.
    pub(super) square_scale: f64,
    /// What the decay leaves of a weight.
    pub(super) keep: f64,
}

/// `var = keep * var - mean_scale * mean / (sqrt(square_scale * square) + epsilon)`.
pub(super) fn descend(var: &Var, mean: &Tensor, square: &Tensor, descent: Descent) -> Result<()> {
    if var.device().is_cpu() {
        return Ok(var.inplace_op3(mean, square, &descent)?);
    }
    let Descent { mean_scale, square_scale, keep } = descent;
    let move_by = ((mean * mean_scale)? / ((square * square_scale)?.sqrt()? + EPSILON)?)?;
    Ok(var.set(&((var.as_detached_tensor() * keep)? - move_by)?)?)
}

impl Descent {
    fn run<T: Real>(&self, var: &mut [T], mean: &[T], square: &[T]) {
        let [rate, scale, keep] = [self.mean_scale, self.square_scale, self.keep].map(T::from_f64);
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
