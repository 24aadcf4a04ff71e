//! `svip`: a chain that ends where the drafter is unsure (the SVIP paper).
//!
//! `1 - sqrt(c H)` estimates a lower bound on the acceptance probability from the entropy `H` of
//! the draft distribution alone. The paper folds `c` into the threshold; its code does not.

use super::chain::StopTest;
use super::kind::{ChainKind, chain_depth, max_nodes};
use super::param::Param;
use crate::draft::Draft;

const H: Param = Param::real("h", 0.3, (0.0, 100.0), "greatest sqrt(c * entropy) to go on");
const C: Param = Param::real("c", 0.15, (0.0, 100.0), "weight of the entropy in nats");

pub(super) const KIND: ChainKind = ChainKind {
    name: "svip",
    about: "a chain that ends with the first token drawn from an uncertain distribution",
    params: &[H, C, max_nodes(64), chain_depth()],
    build: |values| Box::new(Svip { threshold: values.real(&H), weight: values.real(&C) }),
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

#[cfg(test)]
mod tests {
    use crate::testing::draft_once;

    #[test]
    fn the_token_from_an_uncertain_distribution_is_the_last() {
        // The entropy of two equal halves is ln 2: sqrt(0.15 ln 2) = 0.32 > 0.3.
        let probs = |node| if node == 2 { vec![0.5, 0.5] } else { vec![1.0, 0.0] };
        assert_eq!(draft_once("svip", probs).tree.len(), 3);
        assert_eq!(draft_once("svip,h=0.4,max_depth=7", probs).tree.len(), 7);
    }

    #[test]
    fn a_chain_has_at_least_one_token() {
        assert_eq!(draft_once("svip,h=0", |_| vec![0.5, 0.5]).tree.len(), 1);
    }
}
