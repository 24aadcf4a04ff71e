//! Everything that is decided at random.

use espalier_speculation::SplitMix64;

/// Random choices that a seed decides.
#[derive(Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// The choices of a case: of a seed, what is tried, and a number.
    pub fn of(seed: u64, tried: usize, number: usize) -> Self {
        let case = SplitMix64::mix(seed ^ SplitMix64::mix(((tried as u64) << 32) ^ number as u64));
        Self(SplitMix64::new(case))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below a limit, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }

    /// True in so many of 100 cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of several; there must be one.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// Tokens of a small vocabulary.
    pub fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| 3 + self.below(4000) as u32).collect()
    }
}
