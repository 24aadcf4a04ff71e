//! `constant`: a chain of always the same length.

use super::chain::StopTest;
use super::kind::{ChainKind, LENGTH_MAX, chain_depth, max_nodes};
use super::param::Param;
use crate::draft::Draft;

const K: Param = Param::count("k", 5, (1, LENGTH_MAX), "tokens in the chain");

pub(super) const KIND: ChainKind = ChainKind {
    name: "constant",
    about: "a chain of k tokens",
    params: &[K, max_nodes(64), chain_depth()],
    build: |values| {
        let k = values.count(&K);
        Box::new(Constant { k })
    },
};

struct Constant {
    k: usize,
}

impl StopTest for Constant {
    fn stops(&mut self, draft: &Draft) -> bool {
        draft.levels() >= self.k
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::draft_once;

    #[test]
    fn a_chain_has_k_tokens() {
        for k in [1, 5] {
            let proposal = draft_once(&format!("constant,k={k}"), |_| vec![0.4, 0.6]);
            assert_eq!((proposal.tree.len(), proposal.tree.depth(), proposal.drafted), (k, k, k));
        }
    }

    #[test]
    fn it_ends_where_nothing_can_follow() {
        let probs = |node| if node < 2 { vec![1.0] } else { vec![0.0] };
        assert_eq!(draft_once("constant,k=5", probs).tree.len(), 2);
    }
}
