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

/// `out = act(gate) * up`.
pub(crate) fn gated(kernels: &Kernels, act: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    match act {
        Activation::Silu => kernels.silu_mul(gate, up, out),
        _ => out.iter_mut().zip(gate).zip(up).for_each(|((o, &g), &u)| *o = act.apply(g) * u),
    }
}
