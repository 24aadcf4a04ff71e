//! Rotary position embeddings: the frequencies of every variant, computed in 32-bit floats as transformers does, by
//! functions that have the same bits on every machine.
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
        Self { rotary_dim: rope.rotary_dim, inv_freq: frequencies(rope), attention_scale }
    }

    /// Cosine and sine, attention scale included, of every pair at a position: two slices of `rotary_dim / 2` are
    /// written.
    pub fn write(&self, position: usize, cos: &mut [f32], sin: &mut [f32]) {
        for ((inv_freq, cos), sin) in self.inv_freq.iter().zip(cos).zip(sin) {
            let angle = position as f32 * inv_freq;
            *cos = libm::cosf(angle) * self.attention_scale;
            *sin = libm::sinf(angle) * self.attention_scale;
        }
    }
}

fn frequencies(rope: &RopeConfig) -> Vec<f32> {
    let plain = wavelengths(rope).map(|turn| 1.0 / turn);
    match &rope.scaling {
        RopeScaling::Default => plain.collect(),
        RopeScaling::Linear { factor } => plain.map(|freq| freq / *factor as f32).collect(),
        RopeScaling::Divided { divisors } => plain.zip(divisors).map(|(freq, divisor)| freq / divisor).collect(),
        RopeScaling::Llama3(scaling) => plain.map(|freq| llama3(freq, scaling)).collect(),
        RopeScaling::Yarn(scaling) => yarn(rope, scaling),
    }
}

/// `theta^(2i / rotary_dim)` for each pair `i`: the positions in which it turns by one radian.
fn wavelengths(rope: &RopeConfig) -> impl Iterator<Item = f32> {
    let (theta, dim) = (rope.theta as f32, rope.rotary_dim as f32);
    (0..rope.rotary_dim / 2).map(move |pair| libm::powf(theta, (2 * pair) as f32 / dim))
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

/// What Llama 3's scaling divides the frequency of each pair by.
pub(crate) fn llama3_divisors(rope: &RopeConfig, scaling: &Llama3) -> Vec<f32> {
    wavelengths(rope).map(|turn| 1.0 / turn).map(|freq| freq / llama3(freq, scaling)).collect()
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
    let pair = |turns: f64| {
        dim * libm::log(scaling.original_context / (turns * f64::consts::TAU)) / (2.0 * libm::log(rope.theta))
    };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn table(rope: &str) -> RotaryTable {
        let config = format!(
            r#"{{"model_type": "llama", "vocab_size": 8, "hidden_size": 16, "intermediate_size": 16,
                "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 512, {rope}}}"#
        );
        RotaryTable::new(&ModelConfig::parse(&config, None).unwrap())
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 2e-6 * expected.abs(), "{found} is not {expected}");
        }
    }

    // The expected frequencies are those of transformers 4.57 for a head of 16.

    #[test]
    fn plain_frequencies_are_a_geometric_series() {
        let plain = table(r#""rope_theta": 10000.0"#);
        let expected = [1.0, 0.316_227_76, 0.1, 0.031_622_78, 0.01, 0.003_162_277_6, 0.001, 0.000_316_227_76];
        assert_close(&plain.inv_freq, &expected);
        assert_eq!((plain.rotary_dim, plain.attention_scale), (16, 1.0));
    }

    #[test]
    fn linear_scaling_divides_all() {
        let scaled = table(r#""rope_scaling": {"type": "linear", "factor": 4.0}"#);
        let plain = table(r#""rope_theta": 10000.0"#);
        let expected: Vec<f32> = plain.inv_freq.iter().map(|freq| freq / 4.0).collect();
        assert_eq!(scaled.inv_freq, expected);
    }

    #[test]
    fn llama3_keeps_fast_pairs_and_divides_slow_ones() {
        let scaled = table(
            r#""rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64}"#,
        );
        let expected =
            [1.0, 0.244_384_59, 0.013_042_256, 0.003_952_847, 0.001_25, 3.952_847_3e-4, 1.25e-4, 3.952_847_3e-5];
        assert_close(&scaled.inv_freq, &expected);
        assert_eq!(scaled.attention_scale, 1.0);
    }

    #[test]
    fn yarn_blends_between_its_bounds() {
        let yarn = |truncate: bool| {
            table(&format!(
                r#""rope_scaling": {{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                    "truncate": {truncate}}}"#
            ))
        };
        let slow = [0.007_905_695, 0.002_5, 7.905_695e-4, 2.5e-4, 7.905_695e-5];
        assert_close(&yarn(true).inv_freq, &[[1.0, 0.237_170_82, 0.05].as_slice(), &slow].concat());
        assert_close(&yarn(false).inv_freq, &[[1.0, 0.198_583_53, 0.025_595_25].as_slice(), &slow].concat());
        assert_eq!(yarn(true).attention_scale, 1.138_629_4);
    }

    #[test]
    fn cosine_and_sine_carry_the_attention_scale() {
        let yarn = table(r#""rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 1.5}"#);
        let (mut cos, mut sin) = ([0.0; 8], [0.0; 8]);
        yarn.write(0, &mut cos, &mut sin);
        assert_eq!((cos, sin), ([1.5; 8], [0.0; 8]));
        yarn.write(3, &mut cos, &mut sin);
        assert_eq!((cos[0], sin[0]), (3f32.cos() * 1.5, 3f32.sin() * 1.5));
    }
}
