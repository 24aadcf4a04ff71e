//! Which process is taken away, how, and for how long.

use std::fmt;
use std::time::Duration;

use espalier_speculation::SplitMix64;

/// The shortest and the longest time for which a process is stopped or cut off.
const AWAY_MILLIS: std::ops::Range<u64> = 500..20_000;

/// What happens to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It is killed, and started again at once.
    Killed,
    /// It is stopped, keeps its connections, and goes on later.
    Stopped,
    /// It is asked to end, ends when it has drained, and is started again.
    Restarted,
    /// Nothing comes through to it or from it, and its connections stay.
    CutOff,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Restarted => "restarted",
            Self::CutOff => "cut off",
        })
    }
}

/// A fault of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// Which of the services.
    pub(crate) service: usize,
    pub(crate) kind: Kind,
    /// For how long, if it is stopped or cut off.
    pub(crate) away: Duration,
}

/// A process as far as faults go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'s> {
    /// Those of one group stand in for each other.
    pub(crate) group: &'s str,
    /// Whether it does its work.
    pub(crate) well: bool,
}

/// The next fault; none while each group has only one that does its work.
pub(crate) fn choose(random: &mut SplitMix64, services: &[Standing<'_>]) -> Option<Fault> {
    let well = |group: &str| services.iter().filter(|other| other.well && other.group == group).count();
    let candidates: Vec<usize> =
        (0..services.len()).filter(|&i| services[i].well && well(services[i].group) > 1).collect();
    let mut below = |limit: u64| random.next_u64() % limit;
    let kind = [Kind::Killed, Kind::Stopped, Kind::CutOff][below(3) as usize];
    let away = Duration::from_millis(AWAY_MILLIS.start + below(AWAY_MILLIS.end - AWAY_MILLIS.start));
    let which = below(candidates.len().max(1) as u64) as usize;
    Some(Fault { service: *candidates.get(which)?, kind, away })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_of_a_group_is_left_alone() {
        let standing = |group, well| Standing { group, well };
        let services = [standing("a", true), standing("a", false), standing("b", true), standing("b", true)];
        let mut random = SplitMix64::new(1);
        let mut chosen: Vec<usize> = (0..100).filter_map(|_| Some(choose(&mut random, &services)?.service)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, [2, 3]);
        assert!(choose(&mut random, &services[..2]).is_none());
    }
}
