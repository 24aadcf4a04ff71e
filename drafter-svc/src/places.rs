//! Who gets in: a fixed number of places, which no target can hold all of while another wants one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::SequenceError;
use crate::weights::{Sharer, Weights};

/// A target that asked for a place within this time may want another.
const LATELY: Duration = Duration::from_secs(60);

/// Targets without a place that are remembered; a further one is refused.
const REMEMBERED_MAX: usize = 256;

/// The places of a drafter. Who finds none is refused at once, before anything was computed.
#[derive(Clone)]
pub(crate) struct Places {
    weights: Arc<Weights>,
    shared: Arc<Mutex<Shared>>,
}

impl Places {
    pub(crate) fn new(limit: usize, weights: Weights) -> Self {
        let shared = Shared { limit, targets: HashMap::new() };
        Self { weights: Arc::new(weights), shared: Arc::new(Mutex::new(shared)) }
    }

    /// A place for a sequence of a target, or [`SequenceError::Full`].
    pub(crate) fn admit(&self, target: &str) -> Result<Place, SequenceError> {
        let sharer = self.weights.sharer(target);
        let mut shared = self.shared.lock();
        match shared.admit(&sharer, Instant::now()) {
            true => Ok(Place { places: self.clone(), sharer }),
            false => Err(SequenceError::Full { limit: shared.limit, target: target.to_owned() }),
        }
    }

    /// How many are taken.
    pub(crate) fn status(&self) -> espalier_proto::Places {
        let shared = self.shared.lock();
        espalier_proto::Places { open: shared.targets.values().map(|asker| asker.held).sum(), max: shared.limit }
    }
}

/// A sequence's place; given back when dropped.
pub(crate) struct Place {
    places: Places,
    sharer: Sharer,
}

impl Place {
    /// The target that it was given to.
    pub(crate) fn sharer(&self) -> &Sharer {
        &self.sharer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.shared.lock().release(&self.sharer.target);
    }
}

/// Who holds how many places.
///
/// A target that holds less than its share gets any place that is free. One that holds its share gets more as long as a
/// place stays free for each other target that holds less than its own. Shares are by weight, between the targets that hold
/// a place or asked for one lately.
struct Shared {
    limit: usize,
    targets: HashMap<Arc<str>, Asker>,
}

struct Asker {
    held: usize,
    asked: Instant,
    weight: u64,
}

impl Shared {
    fn admit(&mut self, sharer: &Sharer, now: Instant) -> bool {
        self.targets.retain(|_, asker| asker.held > 0 || now.saturating_duration_since(asker.asked) < LATELY);
        if self.targets.len() >= self.limit + REMEMBERED_MAX && !self.targets.contains_key(&sharer.target) {
            return false;
        }
        let new = Asker { held: 0, asked: now, weight: u64::from(sharer.weight.get()) };
        self.targets.entry(sharer.target.clone()).or_insert(new).asked = now;
        let admitted = self.free() > self.kept_from(&sharer.target, now);
        if let Some(asker) = self.targets.get_mut(&sharer.target).filter(|_| admitted) {
            asker.held += 1;
        }
        admitted
    }

    fn release(&mut self, target: &str) {
        if let Some(asker) = self.targets.get_mut(target) {
            asker.held = asker.held.saturating_sub(1);
        }
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.targets.values().map(|asker| asker.held).sum())
    }

    /// Places that are kept free for others.
    fn kept_from(&self, target: &str, now: Instant) -> usize {
        let weights = self.targets.values().map(|asker| asker.weight).sum();
        let wants = |asker: &Asker| asker.held < self.share(asker, weights);
        if self.targets.get(target).is_some_and(wants) {
            return 0;
        }
        let lately = |asker: &Asker| now.saturating_duration_since(asker.asked) < LATELY;
        let others = self.targets.iter().filter(|(other, _)| &***other != target);
        others.filter(|(_, asker)| lately(asker) && wants(asker)).count()
    }

    /// The places that a target is entitled to: one at least.
    fn share(&self, asker: &Asker, weights: u64) -> usize {
        let share = (self.limit as u64).saturating_mul(asker.weight) / weights.max(1);
        usize::try_from(share).unwrap_or(self.limit).max(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn places(limit: usize, weights: &[&str]) -> Places {
        let weights: Vec<_> = weights.iter().map(|weight| weight.parse().unwrap()).collect();
        Places::new(limit, Weights::new(&weights))
    }

    /// As many places as a target gets.
    fn all_of(places: &Places, target: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.admit(target).ok()).collect()
    }

    #[test]
    fn a_target_alone_gets_all_places_and_one_that_is_given_back_can_be_had_again() {
        for limit in [1, 2, 64] {
            let places = places(limit, &[]);
            let mut held = all_of(&places, "a");
            assert_eq!(held.len(), limit);
            let refusal = places.admit("a").map(drop).unwrap_err().to_string();
            assert_eq!(refusal, format!("all {limit} sequences are taken, or kept for other targets than `a`"));
            held.pop();
            assert!(places.admit("a").is_ok());
        }
    }

    #[test]
    fn who_was_refused_gets_what_others_give_back_up_to_its_share() {
        let places = places(8, &["a=3"]);
        let mut busy = all_of(&places, "a");
        assert_eq!(busy.len(), 8);
        assert!(places.admit("b").is_err());
        let mut lone = Vec::new();
        for _ in 0..2 {
            busy.pop();
            assert!(places.admit("a").is_err(), "the place is kept for the other");
            lone.push(places.admit("b").unwrap());
        }
        busy.pop();
        assert!(places.admit("b").is_err(), "now the place is kept for who holds less than three quarters");
        assert!(places.admit("a").is_ok());
    }

    #[test]
    fn no_more_than_one_place_is_kept_for_who_asks_now_and_then() {
        let places = places(8, &[]);
        drop(places.admit("b").unwrap());
        let busy = all_of(&places, "a");
        assert_eq!(busy.len(), 7);
        assert!(places.admit("b").is_ok());
    }

    #[test]
    fn nothing_is_kept_for_who_has_not_asked_lately() {
        let mut shared = Shared { limit: 2, targets: HashMap::new() };
        let sharer = |target| Weights::default().sharer(target);
        let (a, b, begun) = (sharer("a"), sharer("b"), Instant::now());
        assert!(shared.admit(&b, begun));
        shared.release("b");
        let late = begun + LATELY;
        assert!(shared.admit(&a, begun) && !shared.admit(&a, late - Duration::from_nanos(1)));
        assert!(shared.admit(&a, late));
        assert_eq!(shared.targets.len(), 1);
    }

    #[test]
    fn what_is_remembered_of_those_without_a_place_is_bounded() {
        let places = places(1, &[]);
        let _held = places.admit("a").unwrap();
        assert!((0..1000).all(|other| places.admit(&format!("target {other}")).is_err()));
        assert_eq!(places.shared.lock().targets.len(), REMEMBERED_MAX + 1);
    }

    proptest! {
        #[test]
        fn places_are_never_more_than_there_are_and_all_who_ask_on_get_their_share(
            weights in proptest::collection::vec(1..5_u32, 2..5),
            steps in proptest::collection::vec((0..5_usize, any::<bool>()), 0..200),
        ) {
            const LIMIT: usize = 16;
            let named: Vec<String> = weights.iter().enumerate().map(|(i, weight)| format!("{i}={weight}")).collect();
            let places = places(LIMIT, &named.iter().map(String::as_str).collect::<Vec<_>>());
            let mut held: Vec<Vec<Place>> = weights.iter().map(|_| Vec::new()).collect();
            for (target, asks) in steps {
                let target = target % weights.len();
                match asks {
                    true => held[target].extend(places.admit(&target.to_string()).ok()),
                    false => drop(held[target].pop()),
                }
                prop_assert!(held.iter().map(Vec::len).sum::<usize>() <= LIMIT);
            }
            // All ask on, and their sequences end in turns.
            for turn in 0..20 * LIMIT {
                held[turn % weights.len()].pop();
                for (target, held) in held.iter_mut().enumerate() {
                    held.extend(places.admit(&target.to_string()).ok());
                }
            }
            let all: u32 = weights.iter().sum();
            for (held, weight) in held.iter().zip(weights) {
                prop_assert!(held.len() >= (LIMIT * weight as usize / all as usize).max(1));
            }
        }
    }
}
