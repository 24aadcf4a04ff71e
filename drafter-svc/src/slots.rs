//! Who gets in: a fixed number of slots, which no target can hold all of while another wants one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::SequenceError;
use crate::target_shares::{TargetShare, TargetShares};

/// A target that asked for a slot within this time may want another.
const LATELY: Duration = Duration::from_secs(60);

/// Targets without a slot that are remembered; a further one is refused.
const REMEMBERED_MAX: usize = 256;

/// The slots of a drafter. Who finds none is refused at once, before anything was computed.
#[derive(Clone)]
pub(crate) struct Slots {
    shares: Arc<TargetShares>,
    shared: Arc<Mutex<SlotShares>>,
}

impl Slots {
    pub(crate) fn new(limit: usize, shares: TargetShares) -> Self {
        Self { shares: Arc::new(shares), shared: Arc::new(Mutex::new(SlotShares::new(limit))) }
    }

    /// A slot for a sequence of a target, or [`SequenceError::Full`].
    pub(crate) fn admit(&self, target: &str) -> Result<Slot, SequenceError> {
        let share = self.shares.share(target);
        let mut shared = self.shared.lock();
        match shared.admit(&share, Instant::now()) {
            true => Ok(Slot { slots: self.clone(), share }),
            false => Err(SequenceError::Full { limit: shared.limit, target: target.to_owned() }),
        }
    }

    /// How many are taken.
    pub(crate) fn status(&self) -> espalier_proto::Slots {
        let shared = self.shared.lock();
        espalier_proto::Slots { open: shared.targets.values().map(|asker| asker.held).sum(), max: shared.limit }
    }
}

/// A sequence's slot; given back when dropped.
pub(crate) struct Slot {
    slots: Slots,
    share: TargetShare,
}

impl Slot {
    /// Of the target that it was given to.
    pub(crate) fn share(&self) -> &TargetShare {
        &self.share
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.shared.lock().release(&self.share.target);
    }
}

/// Who holds how many slots.
///
/// A target that holds less than its share gets any slot that is free. One that holds its share gets more as long as a
/// slot stays free for each other target that holds less than its own. Shares are by weight, between the targets that hold
/// a slot or asked for one lately.
#[derive(Debug)]
pub struct SlotShares {
    limit: usize,
    targets: HashMap<Arc<str>, Asker>,
}

#[derive(Debug)]
struct Asker {
    held: usize,
    asked: Instant,
    weight: u64,
}

impl SlotShares {
    /// So many slots, which nobody holds.
    pub fn new(limit: usize) -> Self {
        Self { limit, targets: HashMap::new() }
    }

    /// Gives a slot to a target that asks now; `false` if there is none for it.
    pub fn admit(&mut self, share: &TargetShare, now: Instant) -> bool {
        self.targets.retain(|_, asker| asker.held > 0 || now.saturating_duration_since(asker.asked) < LATELY);
        if self.targets.len() >= self.limit + REMEMBERED_MAX && !self.targets.contains_key(&share.target) {
            return false;
        }
        let new = Asker { held: 0, asked: now, weight: u64::from(share.weight.get()) };
        self.targets.entry(share.target.clone()).or_insert(new).asked = now;
        let admitted = self.free() > self.kept_from(&share.target, now);
        if let Some(asker) = self.targets.get_mut(&share.target).filter(|_| admitted) {
            asker.held += 1;
        }
        admitted
    }

    /// Takes back a slot of a target.
    pub fn release(&mut self, target: &str) {
        if let Some(asker) = self.targets.get_mut(target) {
            asker.held = asker.held.saturating_sub(1);
        }
    }

    /// Slots that are held.
    pub fn held(&self) -> usize {
        self.targets.values().map(|asker| asker.held).sum()
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.held())
    }

    /// Slots that are kept free for others.
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

    /// The slots that a target is entitled to: one at least.
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

    fn slots(limit: usize, weights: &[&str]) -> Slots {
        let shares: Vec<_> = weights.iter().map(|weight| weight.parse().unwrap()).collect();
        Slots::new(limit, TargetShares::new(&shares))
    }

    /// As many slots as a target gets.
    fn all_of(slots: &Slots, target: &str) -> Vec<Slot> {
        std::iter::from_fn(|| slots.admit(target).ok()).collect()
    }

    #[test]
    fn a_target_alone_gets_all_slots_and_one_that_is_given_back_can_be_had_again() {
        for limit in [1, 2, 64] {
            let slots = slots(limit, &[]);
            let mut held = all_of(&slots, "a");
            assert_eq!(held.len(), limit);
            let refusal = slots.admit("a").map(drop).unwrap_err().to_string();
            assert_eq!(refusal, format!("all {limit} sequences are taken, or kept for other targets than `a`"));
            held.pop();
            assert!(slots.admit("a").is_ok());
        }
    }

    #[test]
    fn who_was_refused_gets_what_others_give_back_up_to_its_share() {
        let slots = slots(8, &["a=3"]);
        let mut busy = all_of(&slots, "a");
        assert_eq!(busy.len(), 8);
        assert!(slots.admit("b").is_err());
        let mut lone = Vec::new();
        for _ in 0..2 {
            busy.pop();
            assert!(slots.admit("a").is_err(), "the slot is kept for the other");
            lone.push(slots.admit("b").unwrap());
        }
        busy.pop();
        assert!(slots.admit("b").is_err(), "now the slot is kept for who holds less than three quarters");
        assert!(slots.admit("a").is_ok());
    }

    #[test]
    fn no_more_than_one_slot_is_kept_for_who_asks_now_and_then() {
        let slots = slots(8, &[]);
        drop(slots.admit("b").unwrap());
        let busy = all_of(&slots, "a");
        assert_eq!(busy.len(), 7);
        assert!(slots.admit("b").is_ok());
    }

    #[test]
    fn nothing_is_kept_for_who_has_not_asked_lately() {
        let mut shared = SlotShares::new(2);
        let share = |target| TargetShares::default().share(target);
        let (a, b, begun) = (share("a"), share("b"), Instant::now());
        assert!(shared.admit(&b, begun));
        shared.release("b");
        let late = begun + LATELY;
        assert!(shared.admit(&a, begun) && !shared.admit(&a, late - Duration::from_nanos(1)));
        assert!(shared.admit(&a, late));
        assert_eq!(shared.targets.len(), 1);
    }

    #[test]
    fn what_is_remembered_of_those_without_a_slot_is_bounded() {
        let slots = slots(1, &[]);
        let _held = slots.admit("a").unwrap();
        assert!((0..1000).all(|other| slots.admit(&format!("target {other}")).is_err()));
        assert_eq!(slots.shared.lock().targets.len(), REMEMBERED_MAX + 1);
    }

    proptest! {
        #[test]
        fn slots_are_never_more_than_there_are_and_all_who_ask_on_get_their_share(
            weights in proptest::collection::vec(1..5_u32, 2..5),
            steps in proptest::collection::vec((0..5_usize, any::<bool>()), 0..200),
        ) {
            const LIMIT: usize = 16;
            let named: Vec<String> = weights.iter().enumerate().map(|(i, weight)| format!("{i}={weight}")).collect();
            let slots = slots(LIMIT, &named.iter().map(String::as_str).collect::<Vec<_>>());
            let mut held: Vec<Vec<Slot>> = weights.iter().map(|_| Vec::new()).collect();
            for (target, asks) in steps {
                let target = target % weights.len();
                match asks {
                    true => held[target].extend(slots.admit(&target.to_string()).ok()),
                    false => drop(held[target].pop()),
                }
                prop_assert!(held.iter().map(Vec::len).sum::<usize>() <= LIMIT);
            }
            // All ask on, and their sequences end in turns.
            for turn in 0..20 * LIMIT {
                held[turn % weights.len()].pop();
                for (target, held) in held.iter_mut().enumerate() {
                    held.extend(slots.admit(&target.to_string()).ok());
                }
            }
            let all: u32 = weights.iter().sum();
            for (held, weight) in held.iter().zip(weights) {
                prop_assert!(held.len() >= (LIMIT * weight as usize / all as usize).max(1));
            }
        }
    }
}
