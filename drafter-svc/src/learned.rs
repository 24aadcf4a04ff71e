//! What a drafter learns from the sequences that it serves, all of them together.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use espalier_speculation::{CostModel, Experience, Gate};
use parking_lot::{Mutex, MutexGuard};

use crate::engine::SharedTuner;

/// Targets whose costs and thresholds are remembered, and circumstances whose experience is.
const REMEMBERED_MAX: usize = 256;

/// What is learned; nothing at first.
#[derive(Default)]
pub struct Learned {
    /// What rounds with each target cost.
    costs: Mutex<HashMap<String, SharedCosts>>,
    /// What policies learn.
    experience: Mutex<HashMap<Circumstances, Experience>>,
    /// Whether to draft for each verifier.
    gates: Mutex<HashMap<GateKey, SharedGate>>,
    /// The thresholds of exits that suit each target, as far as is known.
    tuners: Mutex<HashMap<String, SharedTuner>>,
}

/// What a policy's experience holds for: the target, the policy with its parameters, and whether decoding is greedy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Circumstances {
    /// The target.
    pub target: String,
    /// The policy as it is written.
    pub policy: String,
    /// Whether decoding is greedy.
    pub greedy: bool,
}

/// What a gate decides for: all sequences of a verifier, by its address, in the same circumstances. Replicas of a target
/// have gates of their own, as they run on machines and beside loads of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GateKey {
    /// The address.
    pub verifier: String,
    /// What else the decision holds for.
    pub circumstances: Circumstances,
}

/// A gate that the sequences of a verifier share.
pub type SharedGate = Arc<Mutex<Gate>>;

/// What decides the draws of gates.
const GATE_SEED: u64 = 0;

impl Learned {
    /// What rounds with a target cost, as its sequences find out together: `new` to begin with.
    pub fn costs(&self, target: &str, new: impl FnOnce() -> SharedCosts) -> SharedCosts {
        shared(&self.costs, target.to_owned(), new)
    }

    /// What policies learn in these circumstances: `own` to begin with.
    pub fn experience(&self, circumstances: Circumstances, own: Experience) -> Experience {
        shared(&self.experience, circumstances, || own)
    }

    /// The gate that decides for sequences of this key.
    pub fn gate(&self, key: GateKey) -> SharedGate {
        shared(&self.gates, key, || Arc::new(Mutex::new(Gate::new(GATE_SEED))))
    }

    /// The tuner of a target's thresholds: `new`, if it has none yet.
    pub(crate) fn tuner(&self, target: &str, new: SharedTuner) -> SharedTuner {
        shared(&self.tuners, target.to_owned(), || new)
    }
}

/// A cost model that the sequences of a target feed together.
#[derive(Debug, Clone)]
pub struct SharedCosts(Arc<Mutex<CostModel>>);

impl SharedCosts {
    /// Beginning with what `costs` knows.
    pub fn new(costs: CostModel) -> Self {
        Self(Arc::new(Mutex::new(costs)))
    }

    /// The model, while nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, CostModel> {
        self.0.lock()
    }
}

/// What all share that come with `key`: `new`, for the first of them. Those of further keys than are remembered have
/// something of their own.
fn shared<K: Eq + Hash, V: Clone>(kept: &Mutex<HashMap<K, V>>, key: K, new: impl FnOnce() -> V) -> V {
    let mut kept = kept.lock();
    if kept.len() >= REMEMBERED_MAX && !kept.contains_key(&key) {
        return new();
    }
    kept.entry(key).or_insert_with(new).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_made_once_and_no_more_than_the_maximum_is_kept() {
        let kept = Mutex::new(HashMap::new());
        let numbers: Vec<usize> = (0..REMEMBERED_MAX + 2).map(|key| shared(&kept, key, || 10 * key)).collect();
        assert_eq!(numbers.last(), Some(&(10 * (REMEMBERED_MAX + 1))));
        assert_eq!(shared(&kept, 3, || 0), 30);
        assert_eq!(shared(&kept, REMEMBERED_MAX + 1, || 7), 7);
        assert_eq!(kept.lock().len(), REMEMBERED_MAX);
    }
}
