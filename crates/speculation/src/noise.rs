//! Gumbel noise from a counter: the same everywhere, with nothing to carry along.
//!
//! Coupled verification (drafter and target deciding with the *same* noise) needs noise that is a
//! function of (request seed, absolute position, token) alone, so that it survives batching,
//! another tree, another replica. Only IEEE arithmetic and [`libm`] are used, never the system's
//! mathematics library, so its bits do not depend on the machine.

use crate::Token;
use crate::split_mix::SplitMix64;

/// Bits of a hash that become the uniform number.
const KEPT_BITS: usize = 52;

/// `CEILINGS[j]` is above the noise of every hash that starts with exactly `j` ones.
///
/// Such a hash gives `u <= 1 - 2^-(j+1)`, and `-ln u >= 1 - u`, so the noise is at most
/// `(j + 1) ln 2`. The slack is far above its rounding and far below what the test saves.
const CEILINGS: [f64; KEPT_BITS + 1] = {
    const SLACK: f64 = 1e-6;
    let mut ceilings = [0.0; KEPT_BITS + 1];
    let mut ones = 0;
    while ones <= KEPT_BITS {
        ceilings[ones] = (ones + 1) as f64 * std::f64::consts::LN_2 + SLACK;
        ones += 1;
    }
    ceilings
};

/// Standard Gumbel noise of `token` at absolute `position` under the request's `seed`.
///
/// # Examples
/// ```
/// use espalier_speculation::gumbel;
/// assert_eq!(gumbel(7, 12, 99), gumbel(7, 12, 99));
/// assert_ne!(gumbel(7, 12, 99), gumbel(7, 13, 99));
/// ```
pub fn gumbel(seed: u64, position: u64, token: Token) -> f64 {
    Gumbel::new(seed, position).at(token)
}

/// Noise over the vocabulary at one position.
pub trait Noise {
    /// The noise of `token`, or `None` if it is certainly not above `floor`.
    ///
    /// An implementation may always answer `Some`; `None` spares the exact value of a token that
    /// cannot win.
    fn above(&self, token: Token, floor: f64) -> Option<f64>;
}

/// Given noise, one value a token; tokens beyond the slice can never win.
impl Noise for [f64] {
    fn above(&self, token: Token, _floor: f64) -> Option<f64> {
        self.get(token as usize).copied()
    }
}

/// The Gumbel noise of one (seed, position), read by token.
#[derive(Debug, Clone, Copy)]
pub struct Gumbel {
    key: u64,
}

impl Gumbel {
    /// The noise at absolute `position` under the request's `seed`.
    pub fn new(seed: u64, position: u64) -> Self {
        let seed = SplitMix64::mix(seed.wrapping_add(SplitMix64::GOLDEN));
        Self { key: SplitMix64::mix(seed ^ position.wrapping_mul(SplitMix64::GOLDEN)) }
    }

    /// What the bits of all tokens are made of: those of `token` are `mix(key + (token + 1) GOLDEN)`, in the terms of
    /// [`SplitMix64`]; their 52 upper ones name the middle of a cell of (0, 1), of which `-ln(-ln u)` is the noise.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The noise of `token`: finite, between about -3.6 and 36.8.
    pub fn at(&self, token: Token) -> f64 {
        standard_gumbel(self.bits(token))
    }

    /// Divides each token's weight by its waiting time `exp(-noise)`, to a relative 1e-6: what is
    /// left is proportional to `exp(log weight + noise)`.
    pub(crate) fn divide_by_waits(&self, weights: &mut [f32]) {
        const BLOCK: usize = 64;
        let mut first = 0;
        for block in weights.chunks_mut(BLOCK) {
            // Hashing is integer work and the rest is not: apart, each vectorises.
            let (mut us, mut gaps) = ([0.5_f32; BLOCK], [0.5_f32; BLOCK]);
            for (token, (u, gap)) in (first..).zip(us.iter_mut().zip(&mut gaps)) {
                let exact = uniform(self.bits(token));
                (*u, *gap) = (exact as f32, (1.0 - exact) as f32);
            }
            for (weight, (&u, &gap)) in block.iter_mut().zip(us.iter().zip(&gaps)) {
                *weight /= wait(u, gap);
            }
            first += BLOCK as Token;
        }
    }

    /// 64 independent fair bits for `token`.
    #[inline]
    pub(crate) fn bits(&self, token: Token) -> u64 {
        SplitMix64::mix(self.key.wrapping_add((u64::from(token) + 1).wrapping_mul(SplitMix64::GOLDEN)))
    }
}

impl Noise for Gumbel {
    #[inline]
    fn above(&self, token: Token, floor: f64) -> Option<f64> {
        let bits = self.bits(token);
        if CEILINGS[leading_ones(bits)] <= floor {
            return None;
        }
        Some(standard_gumbel(bits))
    }
}

/// Gumbel's inverse distribution function at the uniform number that `bits` name.
fn standard_gumbel(bits: u64) -> f64 {
    -libm::log(-libm::log(uniform(bits)))
}

/// The uniform number in (0, 1) that the kept bits name: the middle of their cell, so that it is
/// never 0 or 1.
#[inline]
fn uniform(bits: u64) -> f64 {
    const CELL: f64 = 1.0 / (1_u64 << KEPT_BITS) as f64;
    // Signed, as processors convert it: the kept bits fit.
    ((bits >> (64 - KEPT_BITS)) as i64 as f64 + 0.5) * CELL
}

/// `-ln u` in `f32` to a relative 1e-6, also close to 1, where `gap = 1 - u` tells more than `u`.
///
/// `u = m 2^e` with `m` in [2/3, 4/3), and `-ln m = 2 atanh((1 - m) / (1 + m))`.
#[inline]
fn wait(u: f32, gap: f32) -> f32 {
    const TWO_THIRDS: i32 = 0x3f2a_aaab;
    let bits = u.to_bits() as i32;
    let exponent = bits.wrapping_sub(TWO_THIRDS) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32);
    let distance = if exponent == 0 { gap } else { 1.0 - m };
    let t = distance / (1.0 + m);
    let square = t * t;
    let tail = 1.0 / 5.0 + square * (1.0 / 7.0 + square * (1.0 / 9.0));
    let atanh = t + t * square * (1.0 / 3.0 + square * tail);
    2.0 * atanh - exponent as f32 * std::f32::consts::LN_2
}

/// Leading ones among the kept bits.
#[inline]
fn leading_ones(bits: u64) -> usize {
    (bits.leading_ones() as usize).min(KEPT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u32 = 100_000;

    fn sample(seed: u64, position: u64) -> Vec<f64> {
        let noise = Gumbel::new(seed, position);
        (0..SAMPLES).map(|token| noise.at(token)).collect()
    }

    fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
        let (sum, count) = values.into_iter().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
        sum / f64::from(count)
    }

    #[test]
    fn its_values_never_change() {
        // Pinned: other noise would mean other text for the same request and seed.
        let found = [gumbel(0, 0, 0), gumbel(1, 2, 3), gumbel(u64::MAX, u64::MAX, Token::MAX)];
        assert_eq!(found, [-0.081_169_032_158_639_35, -0.835_661_794_318_091_7, 0.072_524_308_081_759_97]);
    }

    #[test]
    fn its_moments_are_those_of_a_standard_gumbel() {
        let sample = sample(7, 0);
        let mean_found = mean(sample.iter().copied());
        let variance = mean(sample.iter().map(|x| (x - mean_found).powi(2)));
        // Euler's constant and pi^2 / 6, within four standard errors.
        assert!((mean_found - 0.577_215_664_9).abs() < 4.0 * 1.2825 / 316.2, "{mean_found}");
        assert!((variance - 1.644_934_066_8).abs() < 4.0 * 0.0095, "{variance}");
    }

    #[test]
    fn its_distribution_is_a_standard_gumbel() {
        // Kolmogorov and Smirnov: at the 0.1 % level the distance is below 1.95 / sqrt(n).
        for seed in 0..4 {
            let mut sample = sample(seed, 1);
            sample.sort_unstable_by(f64::total_cmp);
            let n = f64::from(SAMPLES);
            let distance = sample.iter().zip(0_u32..).map(|(x, rank)| {
                let expected = (-(-x).exp()).exp();
                (expected - f64::from(rank) / n).abs().max((expected - f64::from(rank + 1) / n).abs())
            });
            let distance = distance.fold(0.0, f64::max);
            assert!(distance < 1.95 / n.sqrt(), "seed {seed}: {distance}");
        }
    }

    #[test]
    fn neighbours_in_seed_position_and_token_are_uncorrelated() {
        let correlation = |a: &[f64], b: &[f64]| {
            let (mean_a, mean_b) = (mean(a.iter().copied()), mean(b.iter().copied()));
            mean(a.iter().zip(b).map(|(x, y)| (x - mean_a) * (y - mean_b))) / 1.645
        };
        let base = sample(1, 1);
        let bound = 4.0 / f64::from(SAMPLES).sqrt();
        assert!(correlation(&base, &sample(2, 1)).abs() < bound);
        assert!(correlation(&base, &sample(1, 2)).abs() < bound);
        assert!(correlation(&base[1..], &base[..base.len() - 1]).abs() < bound);
    }

    #[test]
    fn every_input_bit_flips_half_of_the_output() {
        let flipped = |a: u64, b: u64| f64::from((a ^ b).count_ones());
        let bits = |seed, position, token| Gumbel::new(seed, position).bits(token);
        for bit in 0..64 {
            let flips = mean((0..512).map(|i| flipped(bits(i, 9, 9), bits(i ^ (1 << bit), 9, 9))));
            assert!((flips - 32.0).abs() < 1.0, "seed bit {bit}: {flips}");
            let flips = mean((0..512).map(|i| flipped(bits(9, i, 9), bits(9, i ^ (1 << bit), 9))));
            assert!((flips - 32.0).abs() < 1.0, "position bit {bit}: {flips}");
        }
        for bit in 0..32 {
            let flips = mean((0..512).map(|i| flipped(bits(9, 9, i), bits(9, 9, i ^ (1 << bit)))));
            assert!((flips - 32.0).abs() < 1.0, "token bit {bit}: {flips}");
        }
    }

    #[test]
    fn only_noise_that_is_not_above_the_floor_is_withheld() {
        let noise = Gumbel::new(3, 4);
        let mut withheld = 0;
        for token in 0..SAMPLES {
            let (exact, floor) = (noise.at(token), f64::from(token % 12));
            match noise.above(token, floor) {
                Some(found) => assert_eq!(found, exact),
                None => {
                    assert!(exact < floor, "token {token}: {exact} was withheld at {floor}");
                    withheld += 1;
                }
            }
        }
        assert!(withheld > SAMPLES / 2, "{withheld}");
    }

    #[test]
    fn the_extremes_of_the_hash_are_finite_and_below_their_ceiling() {
        for (bits, ones) in [(0, 0), (u64::MAX, KEPT_BITS), (u64::MAX << 12, KEPT_BITS), (u64::MAX << 13, 51)] {
            let noise = standard_gumbel(bits);
            assert_eq!(leading_ones(bits), ones);
            assert!(noise.is_finite() && noise < CEILINGS[ones], "{bits:x}: {noise}");
        }
    }

    #[test]
    fn waits_are_the_exponential_of_minus_the_noise() {
        let noise = Gumbel::new(5, 6);
        let mut shares = vec![1.0_f32; 20_001];
        noise.divide_by_waits(&mut shares);
        for (token, share) in (0..).zip(shares) {
            let exact = noise.at(token).exp();
            assert!((f64::from(share) / exact - 1.0).abs() < 1e-6, "token {token}: {share} for {exact}");
        }
    }

    #[test]
    fn waits_are_precise_at_both_ends() {
        for u in [0.5_f64.powi(53), 1e-9, 0.1, 0.5, 2.0 / 3.0, 0.9, 1.0 - 1e-9, 1.0 - 0.5_f64.powi(53)] {
            let found = f64::from(wait(u as f32, (1.0 - u) as f32));
            assert!((found / -u.ln() - 1.0).abs() < 1e-6, "{u}: {found}");
        }
    }
}
