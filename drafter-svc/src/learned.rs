//! What a drafter learns from the sequences that it serves, all of them together.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use espalier_metrics::Snapshot;
use espalier_metrics::catalogue::{GATE_DRAFTING, GATE_SPEEDUP, LEVEL_COST, VERIFICATION_COST};
use espalier_speculation::{CostModel, Experience, Gate};
use parking_lot::{Mutex, MutexGuard};

use crate::engine::SharedTuner;

/// Targets whose costs and thresholds are remembered, and circumstances whose experience is.
const REMEMBERED_MAX: usize = 256;

/// Rows for which the cost of a verification is told.
const ROWS_TOLD: [usize; 5] = [1, 8, 16, 32, 64];

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

/// The verifier that gates are of, and its target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GateOf {
    target: String,
    verifier: String,
}

/// All gates of a verifier, those of sequences that there are now counting by how many these are.
#[derive(Debug, Clone, Default, PartialEq)]
struct GatesOfVerifier {
    weight: f64,
    drafting: f64,
    /// Of those that have tried it.
    tried_weight: f64,
    speedup: f64,
}

impl GatesOfVerifier {
    fn add(&mut self, gate: &Gate) {
        // Those without a sequence count where there are no others.
        let weight = gate.members() as f64 + 1e-6;
        self.weight += weight;
        self.drafting += if gate.mode().drafts() { weight } else { 0.0 };
        if let Some(speedup) = gate.speedup() {
            self.tried_weight += weight;
            self.speedup += weight * speedup;
        }
    }

    /// The share that draft.
    fn drafting(&self) -> f64 {
        self.drafting / self.weight
    }

    /// What drafting is believed to make of plain decoding, if any has tried it.
    fn speedup(&self) -> Option<f64> {
        (self.tried_weight > 0.0).then(|| self.speedup / self.tried_weight)
    }
}

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

    /// Tells what costs were measured lately, and what gates decide and believe, as metrics of `drafter`.
    pub(crate) fn tell(&self, drafter: &str, to: &mut Snapshot) {
        let costs: Vec<_> = self.costs.lock().iter().map(|(target, costs)| (target.clone(), costs.clone())).collect();
        for (target, costs) in costs {
            let costs = costs.lock().costs();
            to.tell(&LEVEL_COST, &[drafter, &target], costs.level_ms / 1e3);
            for rows in ROWS_TOLD {
                let seconds = costs.verification.at(rows) / 1e3;
                to.tell(&VERIFICATION_COST, &[drafter, &target, &rows.to_string()], seconds);
            }
        }
        for (GateOf { target, verifier }, gates) in self.gates() {
            let labels = [drafter, &target, &verifier];
            to.tell(&GATE_DRAFTING, &labels, gates.drafting());
            if let Some(speedup) = gates.speedup() {
                to.tell(&GATE_SPEEDUP, &labels, speedup);
            }
        }
    }

    /// What the gates of each verifier come to.
    fn gates(&self) -> BTreeMap<GateOf, GatesOfVerifier> {
        let gates: Vec<_> = self.gates.lock().iter().map(|(key, gate)| (key.clone(), Arc::clone(gate))).collect();
        let mut sums: BTreeMap<GateOf, GatesOfVerifier> = BTreeMap::new();
        for (GateKey { verifier, circumstances }, gate) in gates {
            sums.entry(GateOf { target: circumstances.target, verifier }).or_default().add(&gate.lock());
        }
        sums
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
