//! Where a gateway has its random numbers from.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// A source of random numbers; clones are the same one.
#[derive(Clone)]
pub struct Chance(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Chance {
    /// Numbers that nobody can foresee.
    pub fn system() -> Self {
        Self::new(|| RandomState::new().build_hasher().finish())
    }

    /// The numbers that `next` gives: those of a seed, where a run is to be repeated.
    pub fn new(next: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }

    /// The next number.
    pub(crate) fn number(&self) -> u64 {
        (self.0)()
    }

    /// Between nine and eleven tenths of a pause, so that many who wait do not come all at once.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        pause * (900 + (self.number() % 200) as u32) / 1000
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chance").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_varies_by_a_tenth() {
        let chance = Chance::system();
        let pauses: Vec<u128> = (0..200).map(|_| chance.jittered(Duration::from_secs(1)).as_millis()).collect();
        assert!(pauses.iter().all(|pause| (900..1100).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
