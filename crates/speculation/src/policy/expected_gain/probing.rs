//! When to draft although it is not expected to pay: text, drafter and load change.

/// Rounds from giving up to the first probe.
const SHORTEST: usize = 4;

/// Counts rounds without a draft. The wait doubles with every probe that does not pay, so that a
/// hopeless drafter costs next to nothing.
#[derive(Debug, Clone)]
pub(super) struct Probing {
    idle: usize,
    wait: usize,
    longest: usize,
}

impl Probing {
    pub(super) fn new(longest: usize) -> Self {
        Self { idle: 0, wait: SHORTEST.min(longest), longest }
    }

    /// Whether to probe in this round.
    pub(super) fn due(&self) -> bool {
        self.idle >= self.wait
    }

    /// A round went by without a draft.
    pub(super) fn idle(&mut self) {
        self.idle += 1;
    }

    /// A round with a draft went by; `failed`: it was a probe, and did not pay.
    pub(super) fn drafted(&mut self, failed: bool) {
        self.idle = 0;
        let wait = if failed { self.wait * 2 } else { SHORTEST };
        self.wait = wait.min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first `count` rounds that are probes, when they all pay or all fail.
    fn probes(longest: usize, pays: bool, count: usize) -> Vec<usize> {
        let (mut probing, mut probes) = (Probing::new(longest), Vec::new());
        for round in 0.. {
            if probes.len() == count {
                break;
            }
            if probing.due() {
                probing.drafted(!pays);
                probes.push(round);
            } else {
                probing.idle();
            }
        }
        probes
    }

    #[test]
    fn hopeless_probes_get_rarer_up_to_a_limit() {
        assert_eq!(probes(16, false, 5), [4, 13, 30, 47, 64]);
    }

    #[test]
    fn a_probe_that_pays_is_followed_by_more() {
        assert_eq!(probes(64, true, 3), [4, 9, 14]);
    }

    #[test]
    fn a_draft_that_pays_needs_no_probe() {
        let mut probing = Probing::new(64);
        for _ in 0..20 {
            assert!(!probing.due());
            probing.drafted(false);
        }
    }
}
