//! Activations of the feed-forward part: the same bits on every machine.

use crate::config::Activation;
use crate::kernels::Kernels;

impl Activation {
    /// The function at `x`.
    pub(crate) fn apply(self, x: f32) -> f32 {
        match self {
            Self::Silu => x / (1.0 + libm::expf(-x)),
            Self::Gelu => {
                let x = f64::from(x);
                (0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
            }
            Self::GeluTanh => {
                let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + libm::tanhf(inner))
            }
            Self::Relu => x.max(0.0),
        }
    }
}

/// `gate = act(gate) * up`, in rows of `width` gates followed by their `width` factors `up`.
pub(crate) fn gated(kernels: &Kernels, act: Activation, rows: &mut [f32], width: usize) {
    match act {
        Activation::Silu => kernels.silu_mul(rows, width),
        _ => rows.chunks_exact_mut(2 * width).for_each(|row| {
            let (gate, up) = row.split_at_mut(width);
            gate.iter_mut().zip(up).for_each(|(gate, up)| *gate = act.apply(*gate) * *up);
        }),
    }
}
