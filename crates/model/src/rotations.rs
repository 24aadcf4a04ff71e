//! How far the heads of each position are rotated.

use std::sync::OnceLock;

use crate::config::ModelConfig;
use crate::kernels::Kernels;
use crate::rope::RotaryTable;

/// Positions whose rotations are computed together, when the first of them is needed.
const AT_ONCE: usize = 64;

/// The rotations of all positions of a model, which are the same for all its texts.
pub(crate) struct Rotations {
    table: RotaryTable,
    /// Of each [`AT_ONCE`] positions the cosines of each, and then their sines.
    known: Box<[OnceLock<Box<[f32]>>]>,
}

/// The rotation of a position: one cosine and one sine for each pair of dimensions (rotary_dim / 2).
pub(crate) struct Rotation<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Rotations {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let known = (0..config.context.div_ceil(AT_ONCE)).map(|_| OnceLock::new()).collect();
        Self { table: RotaryTable::new(config), known }
    }

    /// What they are computed from.
    pub(crate) fn table(&self) -> &RotaryTable {
        &self.table
    }

    /// The rotation of a position of the context.
    pub(crate) fn at(&self, position: usize) -> Rotation<'_> {
        let half = self.table.rotary_dim / 2;
        let known = self.known[position / AT_ONCE].get_or_init(|| self.computed(position / AT_ONCE * AT_ONCE));
        let (cos, sin) = known.split_at(AT_ONCE * half);
        let pairs = position % AT_ONCE * half..(position % AT_ONCE + 1) * half;
        Rotation { cos: &cos[pairs.clone()], sin: &sin[pairs] }
    }

    /// Those of [`AT_ONCE`] positions.
    fn computed(&self, first: usize) -> Box<[f32]> {
        let half = self.table.rotary_dim / 2;
        let mut computed = vec![0.0; 2 * AT_ONCE * half].into_boxed_slice();
        let (cos, sin) = computed.split_at_mut(AT_ONCE * half);
        let rows = cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half));
        (first..).zip(rows).for_each(|(position, (cos, sin))| self.table.write(position, cos, sin));
        computed
    }
}

impl Rotation<'_> {
    /// Rotates the first dimensions of a head, their first half against their second (the layout of all supported
    /// families).
    pub(crate) fn apply(&self, kernels: &Kernels, head: &mut [f32]) {
        kernels.rotate(&mut head[..2 * self.cos.len()], self.cos, self.sin);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn every_position_has_its_own() {
        let config = json!({
            "model_type": "llama", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10, "max_position_embeddings": 130,
            "rms_norm_eps": 1e-5,
        });
        let config = ModelConfig::parse(&config.to_string(), None).unwrap();
        let rotations = Rotations::new(&config);
        for position in [0, 1, 63, 64, 129] {
            let (mut cos, mut sin) = ([0.0; 4], [0.0; 4]);
            rotations.table().write(position, &mut cos, &mut sin);
            let found = rotations.at(position);
            assert_eq!((found.cos, found.sin), (&cos[..], &sin[..]), "{position}");
        }
    }
}
