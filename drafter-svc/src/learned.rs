//! What a drafter learned from the sequences that it served, for those to come.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use espalier_speculation::{CostModel, Experience};

use crate::engine::{Drafting, SharedTuner};

/// Targets whose costs and thresholds are remembered, and circumstances whose experience is.
const REMEMBERED_MAX: usize = 256;

/// What was learned; nothing at first.
#[derive(Default)]
pub(crate) struct Learned {
    /// What rounds with each target cost lately: the next sequence's prior.
    costs: Mutex<HashMap<String, CostModel>>,
    /// What policies learned from their last sequence.
    experience: Mutex<HashMap<Circumstances, Experience>>,
    /// The thresholds of exits that suit each target, as far as is known.
    tuners: Mutex<HashMap<String, SharedTuner>>,
}

/// What a policy's experience holds for: the target, the policy with its parameters, and whether decoding is greedy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Circumstances {
    pub(crate) target: String,
    pub(crate) policy: String,
    pub(crate) greedy: bool,
}

impl Learned {
    /// What rounds with a target cost lately, if there were any.
    pub(crate) fn costs(&self, target: &str) -> Option<CostModel> {
        locked(&self.costs).get(target).cloned()
    }

    /// What the policy learned from its last sequence.
    pub(crate) fn experience(&self, circumstances: &Circumstances) -> Option<Experience> {
        locked(&self.experience).get(circumstances).cloned()
    }

    /// The tuner of a target's thresholds, which its sequences share: `new`, if it has none yet.
    pub(crate) fn tuner(&self, target: &str, new: SharedTuner) -> SharedTuner {
        let mut tuners = locked(&self.tuners);
        if tuners.len() >= REMEMBERED_MAX && !tuners.contains_key(target) {
            return new;
        }
        tuners.entry(target.to_owned()).or_insert(new).clone()
    }

    /// Keeps what a sequence taught.
    pub(crate) fn learn(&self, circumstances: &Circumstances, drafting: &Drafting) {
        remember(&self.costs, &circumstances.target, drafting.costs.clone());
        if let Some(experience) = drafting.experience() {
            remember(&self.experience, circumstances, experience);
        }
    }
}

/// A map that whoever panicked left whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the newest value of a key; keys beyond the maximum are not kept.
fn remember<K: Clone + Eq + Hash, V>(kept: &Mutex<HashMap<K, V>>, key: &K, value: V) {
    let mut kept = locked(kept);
    if kept.len() < REMEMBERED_MAX || kept.contains_key(key) {
        kept.insert(key.clone(), value);
    }
}
