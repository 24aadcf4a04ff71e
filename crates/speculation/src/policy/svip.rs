//! `svip`: a chain that ends where the drafter is unsure (the SVIP paper).
//!
//! `1 - sqrt(c H)` estimates a lower bound on the acceptance probability from the entropy `H` of
//! the draft distribution alone. The paper folds `c` into the threshold; its code does not.

use super::chain::{Chain, StopTest};
use super::param::Param;
use super::registry::{Kind, chain_depth, max_nodes};
use crate::draft::Draft;

const H: Param = Param::real("h", 0.3, (0.0, 100.0), "greatest sqrt(c * entropy) to go on");
const C: Param = Param::real("c", 0.15, (0.0, 100.0), "weight of the entropy in nats");

pub(super) const KIND: Kind = Kind {
    name: "svip",
    about: "a chain that ends with the first token drawn from an uncertain distribution",
    params: &[H, C, max_nodes(64), chain_depth()],
    build: |values| Box::new(Chain(Svip { threshold: values.real(&H), weight: values.real(&C) })),
};

struct Svip {
    threshold: f64,
    weight: f64,
}

impl StopTest for Svip {
    fn stops(&mut self, draft: &Draft) -> bool {
        let entropy = draft.newest_source().map_or(0.0, |source| source.shape.entropy);
        (self.weight * entropy).sqrt() > self.threshold
    }
}
