//! Random numbers that are a function of (seed, purpose, index) alone.
//!
//! No generator lives from one step to the next: what step 700 draws can be drawn without steps 1 to 699. A checkpoint
//! therefore holds no generator's state, and a resumed run draws what an uninterrupted one would have drawn. Only integer
//! arithmetic and [`libm`] are used, so the numbers are the same on every machine.

use std::f64::consts::TAU;
use std::hash::Hasher;

use espalier_speculation::SplitMix64;
use fnv::FnvHasher;

/// What random numbers are drawn for; each purpose has streams of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Which texts validate.
    Split = 1,
    /// The order of an epoch; the index is the epoch.
    Order,
    /// The first values of a tensor; the index is a hash of its name.
    Weights,
    /// What an objective draws for a training step; the index counts batches.
    Training,
    /// What an objective draws for a validation batch; the index counts batches from 0 in every evaluation.
    Validation,
    /// How a prompt is answered; the index is the prompt's.
    Answer,
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Draws(SplitMix64);

impl Draws {
    /// The stream of a purpose and an index.
    pub(crate) fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        const GOLDEN: u64 = SplitMix64::GOLDEN;
        let key = SplitMix64::mix(seed.wrapping_add(GOLDEN)) ^ (purpose as u64).wrapping_mul(GOLDEN);
        Self(SplitMix64::new(SplitMix64::mix(SplitMix64::mix(key) ^ index.wrapping_mul(GOLDEN))))
    }

    /// 64 fair bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `0..limit`, or 0 where the limit is 0. The bias is below `limit / 2^64`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.bits()) * limit as u128;
        (product >> 64) as usize
    }

    /// A standard normal number (Box and Muller's transform).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.open_unit()));
        radius * libm::cos(TAU * self.open_unit())
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A number in (0, 1).
    pub(crate) fn open_unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

/// FNV-1a: a stream's index from a name.
pub(crate) fn hash(name: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_seed_purpose_and_index() {
        let first = |seed, purpose, index| Draws::new(seed, purpose, index).bits();
        let base = first(7, Purpose::Order, 3);
        assert_eq!(base, first(7, Purpose::Order, 3));
        for other in [first(8, Purpose::Order, 3), first(7, Purpose::Split, 3), first(7, Purpose::Order, 4)] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn streams_are_what_they_always_were() {
        // Checkpoints resume to the same bits only as long as these stay.
        let mut draws = Draws::new(7, Purpose::Order, 3);
        assert_eq!([draws.bits(), draws.bits()], [0x2fef_f827_352d_1c96, 0x6c89_aa99_e1e8_f5f7]);
        assert_eq!(hash("lm_head.weight"), 0xab67_eb51_5e1b_6f0d);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut draws = Draws::new(0, Purpose::Weights, 0);
        let sample: Vec<f64> = (0..20_000).map(|_| draws.normal()).collect();
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance = sample.iter().map(|x| x * x).sum::<f64>() / sample.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "mean {mean}, variance {variance}");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..100).collect();
        Draws::new(1, Purpose::Order, 0).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
    }

    #[test]
    fn small_limits_are_drawn_evenly() {
        let mut draws = Draws::new(2, Purpose::Training, 9);
        let mut counts = [0; 6];
        (0..6000).for_each(|_| counts[draws.below(6)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(draws.below(0), 0);
    }
}
