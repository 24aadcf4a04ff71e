//! Everything that is decided at random.

use espalier_speculation::SplitMix64;

/// Random choices that a seed decides.
#[derive(Debug)]
pub(super) struct Dice(SplitMix64);

impl Dice {
    /// The choices of a case: of a seed, an RPC and a number.
    pub(super) fn of(seed: u64, rpc: usize, number: usize) -> Self {
        let case = SplitMix64::mix(seed ^ SplitMix64::mix(((rpc as u64) << 32) ^ number as u64));
        Self(SplitMix64::new(case))
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below a limit, which is at least 1.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }

    /// True in so many of 100 cases.
    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// Tokens of a small vocabulary.
    pub(super) fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| 3 + self.below(4000) as u32).collect()
    }
}
