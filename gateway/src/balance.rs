//! Who of several peers takes a sequence: the one that its session prefers, unless it is markedly busier than others.

use std::hash::Hasher;
use std::num::NonZeroUsize;

use espalier_speculation::SplitMix64;
use fnv::FnvHasher;

/// So many sequences beyond its share a preferred peer may run and still be preferred. What a shared prefix saves is
/// worth some waiting, but not more than that.
pub const AFFINITY_SLACK: usize = 2;

/// What a peer has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOccupancy {
    /// Sequences that this gateway has there.
    pub running: usize,
    /// Sequences that it serves at once; unknown if absent.
    pub slots: Option<NonZeroUsize>,
}

impl PeerOccupancy {
    fn slots(self) -> usize {
        self.slots.map_or(1, NonZeroUsize::get)
    }

    /// Whether it is so full as another, or fuller, in proportion to the slots of each. Multiplied out, so that
    /// nothing is rounded.
    fn at_least(self, other: Self, slack: usize) -> bool {
        let [mine, theirs] = [self, other].map(|one| one.slots() as u128);
        self.running as u128 * theirs >= other.running as u128 * mine + slack as u128 * theirs
    }

    fn is_full(self) -> bool {
        self.slots.is_some_and(|slots| self.running >= slots.get())
    }
}

/// A peer that may be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// What tells it from the others, the same in all gateways.
    pub url: &'a str,
    /// What it has to do.
    pub occupancy: PeerOccupancy,
}

/// Chooses by `key`, which sequences that should meet have in common: the peer that the key prefers, or else the least
/// loaded. Among equals `turn`, counted up from choice to choice, decides.
pub fn choose(candidates: &[Candidate<'_>], key: u64, turn: usize) -> Option<usize> {
    let least = least_loaded(candidates, turn)?;
    let preferred = preferred(candidates, key)?;
    let (first, other) = (candidates.get(preferred)?.occupancy, candidates.get(least)?.occupancy);
    let busy = first.at_least(other, AFFINITY_SLACK) || first.is_full();
    Some(if busy { least } else { preferred })
}

/// The peer for which the key scores highest (rendezvous hashing): when one leaves, only its own keys move.
fn preferred(candidates: &[Candidate<'_>], key: u64) -> Option<usize> {
    let score = |&index: &usize| candidates.get(index).map(|one| SplitMix64::mix(key ^ hash(one.url.as_bytes())));
    (0..candidates.len()).max_by_key(score)
}

fn least_loaded(candidates: &[Candidate<'_>], turn: usize) -> Option<usize> {
    let count = candidates.len();
    let first = turn.checked_rem(count)?;
    let mut least = first;
    for index in (first..count).chain(0..first) {
        if !candidates.get(index)?.occupancy.at_least(candidates.get(least)?.occupancy, 0) {
            least = index;
        }
    }
    Some(least)
}

/// FNV-1a: the same number in every gateway, whatever it was built with.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn urls(count: usize) -> Vec<String> {
        (0..count).map(|peer| format!("http://10.0.0.{peer}:50052")).collect()
    }

    fn candidates<'a>(urls: &'a [String], occupancies: &[PeerOccupancy]) -> Vec<Candidate<'a>> {
        urls.iter().zip(occupancies).map(|(url, &occupancy)| Candidate { url, occupancy }).collect()
    }

    fn occupied(running: usize, slots: usize) -> PeerOccupancy {
        PeerOccupancy { running, slots: NonZeroUsize::new(slots) }
    }

    const IDLE: PeerOccupancy = PeerOccupancy { running: 0, slots: None };

    fn occupancies() -> impl Strategy<Value = Vec<PeerOccupancy>> {
        vec((0_usize..40, 0_usize..40).prop_map(|(running, slots)| occupied(running, slots)), 1..12)
    }

    proptest! {
        #[test]
        fn a_peer_that_leaves_moves_its_own_keys_and_no_others(keys in vec(any::<u64>(), 1..50), count in 2_usize..12, leaves in any::<prop::sample::Index>()) {
            let all = urls(count);
            let gone = leaves.index(count);
            let rest: Vec<String> = all.iter().enumerate().filter(|&(at, _)| at != gone).map(|(_, url)| url.clone()).collect();
            for key in keys {
                let before = &all[choose(&candidates(&all, &vec![IDLE; count]), key, 0).unwrap()];
                let after = &rest[choose(&candidates(&rest, &vec![IDLE; count]), key, 5).unwrap()];
                prop_assert!(before == after || *before == all[gone]);
            }
        }

        #[test]
        fn whoever_is_chosen_runs_little_more_than_the_share_of_the_least_loaded(occupancies in occupancies(), key in any::<u64>(), turn in any::<usize>()) {
            let urls = urls(occupancies.len());
            let chosen = occupancies[choose(&candidates(&urls, &occupancies), key, turn).unwrap()];
            let fraction = |occupancy: PeerOccupancy| occupancy.running as f64 / occupancy.slots() as f64;
            let least = occupancies.iter().copied().map(fraction).fold(f64::INFINITY, f64::min);
            let share = least * chosen.slots() as f64;
            prop_assert!(chosen.running as f64 <= share + AFFINITY_SLACK as f64 + 1e-9, "{chosen:?} of {occupancies:?}");
        }

        #[test]
        fn a_full_peer_is_chosen_only_when_all_are_full(occupancies in vec((0_usize..9).prop_map(|running| occupied(running, 8)), 1..12), key in any::<u64>()) {
            let urls = urls(occupancies.len());
            let chosen = occupancies[choose(&candidates(&urls, &occupancies), key, 0).unwrap()];
            prop_assert!(!chosen.is_full() || occupancies.iter().all(|one| one.is_full()));
        }

        #[test]
        fn sequences_of_one_key_fill_all_peers_when_they_must(count in 1_usize..6, key in any::<u64>()) {
            let urls = urls(count);
            let mut occupancies = vec![occupied(0, 8); count];
            for turn in 0..8 * count {
                let chosen = choose(&candidates(&urls, &occupancies), key, turn).unwrap();
                occupancies[chosen].running += 1;
                let running = occupancies.iter().map(|one| one.running);
                prop_assert!(running.clone().max().unwrap() <= running.min().unwrap() + AFFINITY_SLACK);
            }
            prop_assert!(occupancies.iter().all(|one| one.running == 8));
        }
    }

    #[test]
    fn keys_spread_over_all_peers() {
        let (urls, occupancies) = (urls(4), [IDLE; 4]);
        let mut counts = [0; 4];
        for session in 0..400 {
            let key = hash(format!("session-{session}").as_bytes());
            counts[choose(&candidates(&urls, &occupancies), key, session).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    }

    #[test]
    fn equals_take_turns_when_the_preferred_peer_is_busy() {
        let urls = urls(3);
        let key = 7;
        let first = choose(&candidates(&urls, &[IDLE; 3]), key, 0).unwrap();
        let mut occupancies = [IDLE; 3];
        occupancies[first] = occupied(AFFINITY_SLACK, 0);
        let mut chosen: Vec<usize> =
            (0..3).map(|turn| choose(&candidates(&urls, &occupancies), key, turn).unwrap()).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, (0..3).filter(|&index| index != first).collect::<Vec<_>>());
    }

    #[test]
    fn a_peer_with_more_slots_takes_more() {
        let urls = urls(2);
        let crowded = candidates(&urls, &[occupied(4, 8), occupied(12, 64)]);
        assert!((0..20).all(|key| choose(&crowded, key, 0) == Some(1)), "4 of 8 is more than 12 of 64");
        assert_eq!(choose(&[], 0, 0), None);
    }
}
