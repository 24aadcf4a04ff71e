//! When to draft although it is not expected to pay: text, drafter and load change.

/// Rounds from giving up to the first probe, and from a probe that paid to the next.
const SHORTEST: f64 = 8.0;

/// The most rounds without a probe.
const LONGEST: f64 = 4096.0;

/// Counts rounds without a draft. The more a probe cost in vain the longer it is until the next, so that a hopeless drafter
/// costs no more than a given share of the time.
///
/// A probe may hold up all that decode at once: they may run on the processors that it drafts on, and do share the pass that
/// verifies it. So a round of one of `n` sequences counts as a part of `n`: together they probe as often as one would.
#[derive(Debug, Clone)]
pub(super) struct Probing {
    idle: f64,
    wait: f64,
    share: f64,
}

impl Probing {
    /// Probes may cost this share of the time.
    pub(super) fn new(share: f64) -> Self {
        Self { idle: 0.0, wait: SHORTEST, share }
    }

    /// Whether to probe in this round; other sequences then need not.
    pub(super) fn begin_if_due(&mut self) -> bool {
        let due = self.idle >= self.wait;
        if due {
            self.idle = 0.0;
        }
        due
    }

    /// The next round may be a probe: the one under way is not made after all, or much has changed.
    pub(super) fn fall_due(&mut self) {
        self.idle = self.wait;
    }

    /// Rounds until the next probe, if the one under way has no draft.
    pub(super) fn rest(&self) -> usize {
        (self.wait - self.idle - 1.0).max(0.0) as usize
    }

    /// A round of one of so many sequences went by without a draft.
    pub(super) fn idle(&mut self, sequences: f64) {
        self.idle += 1.0 / sequences.max(1.0);
    }

    /// A round with a draft went by. If it was a probe, it `lost` the time of so many rounds of plain decoding.
    pub(super) fn drafted(&mut self, lost: f64) {
        self.idle = 0.0;
        self.wait = (lost / self.share).floor().clamp(SHORTEST, LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first `count` rounds that are probes, when each loses so much.
    fn probes(share: f64, lost: f64, count: usize) -> Vec<usize> {
        let (mut probing, mut probes) = (Probing::new(share), Vec::new());
        for round in 0.. {
            if probes.len() == count {
                break;
            }
            if probing.begin_if_due() {
                probing.drafted(lost);
                probes.push(round);
            } else {
                probing.idle(1.0);
            }
        }
        probes
    }

    #[test]
    fn probes_in_vain_cost_their_share_and_no_more() {
        assert_eq!(probes(0.1, 3.0, 4), [8, 39, 70, 101]);
        assert_eq!(probes(0.02, 1e9, 3), [8, 4105, 8202]);
    }

    #[test]
    fn a_probe_that_pays_is_followed_by_more() {
        assert_eq!(probes(0.02, -2.0, 3), [8, 17, 26]);
    }

    #[test]
    fn a_rest_lasts_until_the_next_probe() {
        let mut probing = Probing::new(0.02);
        for expected in (0..SHORTEST as usize).rev() {
            assert!(!probing.begin_if_due());
            assert_eq!(probing.rest(), expected);
            probing.idle(1.0);
        }
        assert!(probing.begin_if_due() && !probing.begin_if_due());
        probing.fall_due();
        assert!(probing.begin_if_due());
    }

    #[test]
    fn together_sequences_probe_no_more_often_than_one() {
        let mut probing = Probing::new(0.02);
        let due = (0..).find(|_| {
            probing.idle(4.0);
            probing.begin_if_due()
        });
        assert_eq!(due, Some(4 * SHORTEST as usize - 1));
    }

    #[test]
    fn a_draft_that_pays_needs_no_probe() {
        let mut probing = Probing::new(0.02);
        for _ in 0..20 {
            assert!(!probing.begin_if_due());
            probing.drafted(0.0);
        }
    }
}
