//! SplitMix64 (Steele, Lea and Flood 2014), the one source of pseudo-random bits: integer arithmetic alone, so the same
//! bits on every machine.

/// A generator whose `n`-th number is a function of seed and `n`.
///
/// # Examples
/// ```
/// use espalier_speculation::SplitMix64;
/// let mut bits = SplitMix64::new(1_234_567);
/// // The first numbers of the reference implementation.
/// assert_eq!([bits.next_u64(), bits.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitMix64 {
    counter: u64,
}

impl SplitMix64 {
    /// The odd fraction of the golden ratio by which the counter steps.
    pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { counter: seed }
    }

    /// 64 fair bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(Self::GOLDEN);
        Self::mix(self.counter)
    }

    /// A number in [0, 1), from the upper 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The finaliser (Stafford's variant 13): every input bit flips every output bit with probability close to one half.
    #[inline]
    #[must_use]
    pub const fn mix(mut bits: u64) -> u64 {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
