//! Rotary position embeddings: the frequencies of every variant, computed in 32-bit floats as transformers does.
//!
//! Rotated pairs are (`i`, `i + rotary_dim / 2`) of the first `rotary_dim` dimensions of a head, for all families.

use std::f32::consts::TAU;
use std::f64;

use crate::config::{Llama3, ModelConfig, RopeConfig, RopeScaling, Yarn};

/// The rotation speeds of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct RotaryTable {
    /// The leading dimensions of every head that are rotated; even.
    pub rotary_dim: usize,
    /// (rotary_dim / 2,): radians per position of each pair.
    pub inv_freq: Vec<f32>,
    /// The factor on cosine and sine: 1 but for YaRN.
    pub attention_scale: f32,
}

impl RotaryTable {
    /// The table of a model.
    pub fn new(config: &ModelConfig) -> Self {
        let rope = &config.rope;
        let attention_scale = match &rope.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor as f32,
            _ => 1.0,
        };
        Self {
            rotary_dim: rope.rotary_dim,
            inv_freq: frequencies(rope),
            attention_scale,
        }
    }

    /// Cosine and sine, attention scale included, of every pair at a position: two slices of `rotary_dim / 2` are
    /// written.
    pub fn write(&self, position: usize, cos: &mut [f32], sin: &mut [f32]) {
        for ((inv_freq, cos), sin) in self.inv_freq.iter().zip(cos).zip(sin) {
            let angle = position as f32 * inv_freq;
            *cos = angle.cos() * self.attention_scale;
            *sin = angle.sin() * self.attention_scale;
        }
    }
}

fn frequencies(rope: &RopeConfig) -> Vec<f32> {
    let plain = wavelengths(rope).map(|turn| 1.0 / turn);
    match &rope.scaling {
        RopeScaling::Default => plain.collect(),
        RopeScaling::Linear { factor } => plain.map(|freq| freq / *factor as f32).collect(),
        RopeScaling::Llama3(scaling) => plain.map(|freq| llama3(freq, scaling)).collect(),
        RopeScaling::Yarn(scaling) => yarn(rope, scaling),
    }
}

/// `theta^(2i / rotary_dim)` for each pair `i`: the positions in which it turns by one radian.
fn wavelengths(rope: &RopeConfig) -> impl Iterator<Item = f32> {
    let (theta, dim) = (rope.theta as f32, rope.rotary_dim as f32);
    (0..rope.rotary_dim / 2).map(move |pair| theta.powf((2 * pair) as f32 / dim))
}

fn llama3(freq: f32, scaling: &Llama3) -> f32 {
    let (factor, context) = (scaling.factor as f32, scaling.original_context as f32);
    let (low, high) = (scaling.low_freq_factor as f32, scaling.high_freq_factor as f32);
    let wavelength = TAU / freq;
    if wavelength < context / high {
        freq
    } else if wavelength > context / low {
        freq / factor
    } else {
        let smooth = (context / wavelength - low) / (high - low);
        (1.0 - smooth) * freq / factor + smooth * freq
    }
}

fn yarn(rope: &RopeConfig, scaling: &Yarn) -> Vec<f32> {
    let (first, last) = blended_pairs(rope, scaling);
    let blend = |(pair, turn): (usize, f32)| {
        let ramp = ((pair as f32 - first) / (last - first)).clamp(0.0, 1.0);
        // As transformers rounds it: 1 - (1 - ramp) is not ramp in 32 bits.
        let kept = 1.0 - ramp;
        (1.0 - kept) / (scaling.factor as f32 * turn) + kept / turn
    };
    wavelengths(rope).enumerate().map(blend).collect()
}

/// The pairs between which YaRN passes from keeping a frequency to interpolating it.
fn blended_pairs(rope: &RopeConfig, scaling: &Yarn) -> (f32, f32) {
    let dim = rope.rotary_dim as f64;
    // The pair that turns so often over the original context.
    let pair = |turns: f64| dim * (scaling.original_context / (turns * f64::consts::TAU)).ln() / (2.0 * rope.theta.ln());
    let (mut first, mut last) = (pair(scaling.beta_fast), pair(scaling.beta_slow));
    if scaling.truncate {
        (first, last) = (first.floor(), last.ceil());
    }
    (first, last) = (first.max(0.0), last.min(dim - 1.0));
    if first == last {
        last += 0.001;
    }
    (first as f32, last as f32)
}
