//! The uniform draws of rejection sampling and of policies, from a counter: a seed repeats them exactly.

use crate::Token;
use crate::noise::Gumbel;

/// Why a draw cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum UniformError {
    /// A draw that is not in [0, 1).
    #[error("a uniform draw is {found}, which is not at least 0 and below 1")]
    Range {
        /// The draw.
        found: f64,
    },
    /// There are no more draws.
    #[error("the uniform draws ran out")]
    Exhausted,
}

/// Who draws. No two may share a draw: acceptance is fair only if it does not know what the draft's draws were, and the
/// draft only if the policy, which decides what is drafted, does not know them either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The drafter, which draws children.
    Draft,
    /// The verifier, which accepts them and draws the bonus.
    Verification,
    /// The draft policy, which decides whether to go on.
    Policy,
    /// Whoever tries thresholds of exits.
    Tuning,
}

impl Side {
    /// Sets the side's draws apart from the others', and from the noise of coupled acceptance.
    fn key(self) -> u64 {
        match self {
            Self::Draft => 0x6472_6166_7420_7175,
            Self::Verification => 0x7665_7269_6679_2070,
            Self::Policy => 0x706f_6c69_6379_2073,
            Self::Tuning => 0x7468_7265_7368_6f6c,
        }
    }
}

/// An endless stream of fair draws in [0, 1), in steps of 2^-53.
///
/// # Examples
/// ```
/// use espalier_speculation::{Side, Uniforms};
/// let draws = |side| Uniforms::new(7, 12, side).take(3).collect::<Vec<f64>>();
/// assert_eq!(draws(Side::Draft), draws(Side::Draft));
/// assert_ne!(draws(Side::Draft), draws(Side::Verification));
/// ```
#[derive(Debug, Clone)]
pub struct Uniforms {
    bits: Gumbel,
    next: Token,
}

impl Uniforms {
    /// The draws of `side` in the round whose root is at absolute `position`, under the request's `seed`.
    pub fn new(seed: u64, position: u64, side: Side) -> Self {
        Self { bits: Gumbel::new(seed ^ side.key(), position), next: 0 }
    }
}

impl Iterator for Uniforms {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        const STEP: f64 = 1.0 / (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let bits = self.bits.bits(self.next) >> (u64::BITS - f64::MANTISSA_DIGITS);
        self.next = self.next.wrapping_add(1);
        Some(bits as f64 * STEP)
    }
}

/// The next of `draws`, once it is known to be in [0, 1).
pub(crate) fn next_uniform(draws: &mut impl Iterator<Item = f64>) -> Result<f64, UniformError> {
    match draws.next() {
        Some(u) if (0.0..1.0).contains(&u) => Ok(u),
        Some(found) => Err(UniformError::Range { found }),
        None => Err(UniformError::Exhausted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_evenly() {
        let mut counts = [0_u32; 10];
        for u in Uniforms::new(3, 5, Side::Draft).take(100_000) {
            counts[(u * 10.0) as usize] += 1;
        }
        let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - 10_000.0).powi(2) / 10_000.0).sum();
        // Nine degrees of freedom: fair draws exceed 27.9 once in a thousand seeds.
        assert!(chi_square < 27.9, "{chi_square}");
    }

    #[test]
    fn seed_position_and_side_each_change_all_draws() {
        let draws = |seed, position, side| Uniforms::new(seed, position, side).take(50).collect::<Vec<f64>>();
        let some = draws(1, 2, Side::Draft);
        for other in [
            draws(2, 2, Side::Draft),
            draws(1, 3, Side::Draft),
            draws(1, 2, Side::Verification),
            draws(1, 2, Side::Policy),
            draws(1, 2, Side::Tuning),
        ] {
            assert!(some.iter().zip(&other).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn a_draw_out_of_range_or_missing_is_an_error() {
        let error = |draws: &[f64]| next_uniform(&mut draws.iter().copied()).map_err(|error| error.to_string());
        assert_eq!(error(&[0.0]), Ok(0.0));
        assert_eq!(error(&[1.0]), Err("a uniform draw is 1, which is not at least 0 and below 1".to_owned()));
        assert_eq!(error(&[f64::NAN]), Err("a uniform draw is NaN, which is not at least 0 and below 1".to_owned()));
        assert_eq!(error(&[]), Err("the uniform draws ran out".to_owned()));
    }
}
