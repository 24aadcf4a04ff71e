//! `constant`: a chain of always the same length.

use super::chain::{Chain, StopTest};
use super::param::Param;
use super::registry::{Kind, LENGTH_MAX, chain_depth, max_nodes};
use crate::draft::Draft;

const K: Param = Param::count("k", 5, (1, LENGTH_MAX), "tokens in the chain");

pub(super) const KIND: Kind = Kind {
    name: "constant",
    about: "a chain of k tokens",
    params: &[K, max_nodes(64), chain_depth()],
    build: |values| {
        let k = values.count(&K);
        Box::new(Chain(Constant { k }))
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
