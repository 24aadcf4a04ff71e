//! Whether drafts are still accepted as usual: a drafter that was replaced by a wrong one, or texts of another kind, make
//! every round slower and nothing wrong, so nobody would notice.

/// Trees over which the share that is usual is a mean; older ones fade.
const USUAL_TREES: f64 = 4096.0;

/// Trees over which the share of late is one.
const LATE_TREES: f64 = 256.0;

/// Standard errors of the late share by which it has to differ: chance alone gets there once in millions of trees.
const ERRORS: f64 = 5.0;

/// Watches the share of trees of which a token was accepted. It has collapsed when that of late is below half of what is
/// usual, by more than chance explains; and it has recovered when it is three quarters of that again. While it has
/// collapsed, what is usual does not change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcceptanceWatch {
    usual: Share,
    late: Share,
    collapsed: bool,
}

/// What an [`AcceptanceWatch`] has noticed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WatchEvent {
    /// Far fewer trees have a token accepted.
    Collapsed {
        /// The share that was usual.
        usual: f64,
        /// The share of late.
        lately: f64,
    },
    /// It is as usual again.
    Recovered,
}

impl AcceptanceWatch {
    /// One more tree, of which a token was accepted or not.
    pub fn add(&mut self, accepted: bool) -> Option<WatchEvent> {
        self.late.add(accepted, LATE_TREES);
        if !self.collapsed {
            self.usual.add(accepted, USUAL_TREES);
        }
        // Before that the late trees are most of the usual ones.
        if self.usual.trees < 4.0 * LATE_TREES {
            return None;
        }
        let low = self.is_low();
        let changed = std::mem::replace(&mut self.collapsed, low) != low;
        let collapsed = WatchEvent::Collapsed { usual: self.usual.mean, lately: self.late.mean };
        changed.then_some(if low { collapsed } else { WatchEvent::Recovered })
    }

    /// Whether far fewer trees than usual have a token accepted.
    pub fn has_collapsed(&self) -> bool {
        self.collapsed
    }

    /// Whether the late share is low: below half of what is usual, and then until it is above three quarters of that, so
    /// that it does not change with each tree at the limit.
    fn is_low(&self) -> bool {
        let (usual, lately) = (self.usual.mean, self.late.mean);
        if self.collapsed {
            return lately < usual * 0.75;
        }
        let error = (usual * (1.0 - usual) / self.late.trees).sqrt();
        lately < usual / 2.0 && usual - lately > ERRORS * error
    }
}

/// A share that fades.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    mean: f64,
    /// So many trees it stands for, at most as many as it is a mean over.
    trees: f64,
}

impl Share {
    fn add(&mut self, accepted: bool, trees_max: f64) {
        self.trees = (self.trees + 1.0).min(trees_max);
        self.mean += (f64::from(u8::from(accepted)) - self.mean) / self.trees;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix64;

    /// What is noticed of `trees` that have a token accepted with a chance of `share`.
    fn events(watch: &mut AcceptanceWatch, share: f64, trees: usize, random: &mut SplitMix64) -> Vec<WatchEvent> {
        let mut accepted = || (random.next_u64() as f64 / u64::MAX as f64) < share;
        (0..trees).filter_map(|_| watch.add(accepted())).collect()
    }

    #[test]
    fn a_collapse_is_noticed_within_a_few_hundred_trees_and_so_is_its_end() {
        for (usual, low) in [(0.9, 0.3), (0.5, 0.1), (0.3, 0.0)] {
            let (mut watch, mut random) = (AcceptanceWatch::default(), SplitMix64::new(1));
            assert!(events(&mut watch, usual, 5000, &mut random).is_empty());
            let noticed = events(&mut watch, low, 600, &mut random);
            assert!(matches!(noticed[..], [WatchEvent::Collapsed { .. }]), "{usual} to {low}: {noticed:?}");
            assert!(watch.has_collapsed());
            assert_eq!(events(&mut watch, usual, 1000, &mut random), [WatchEvent::Recovered]);
        }
    }

    #[test]
    fn what_is_usual_stays_so_while_it_has_collapsed() {
        let (mut watch, mut random) = (AcceptanceWatch::default(), SplitMix64::new(2));
        events(&mut watch, 0.8, 5000, &mut random);
        events(&mut watch, 0.1, 100_000, &mut random);
        assert!(watch.has_collapsed(), "that it lasts makes it no better");
    }

    #[test]
    fn chance_alone_raises_no_alarm() {
        for share in [0.05, 0.5, 0.95] {
            let (mut watch, mut random) = (AcceptanceWatch::default(), SplitMix64::new(3));
            assert_eq!(events(&mut watch, share, 200_000, &mut random), [], "{share}");
        }
    }
}
