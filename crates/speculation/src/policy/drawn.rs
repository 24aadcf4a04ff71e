//! Policies under rejection acceptance, whose tokens are drawn: none may be dropped or moved for its own probability,
//! or what is accepted would no longer have the target's distribution.

use super::registry::policy_names;
use super::{Policy, PolicySpec, RoundStart, parse_policy};
use crate::draft::Draft;
use crate::{Candidates, RoundRecord};

/// A policy that cannot be combined with rejection acceptance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy {policy} chooses among drawn tokens by their probability, so rejection acceptance would not keep the \
     target's distribution; usable with it are {usable}"
)]
pub struct PruningPolicy {
    /// The policy's name.
    pub policy: &'static str,
    /// The names of those that can be combined.
    pub usable: String,
}

impl PolicySpec {
    /// The same policy, if rejection acceptance can be combined with it.
    ///
    /// # Errors
    /// A policy that drops drawn tokens by their own probability.
    pub fn suiting_drawn(self) -> Result<Self, PruningPolicy> {
        self.build_for_drawn()?;
        Ok(self)
    }

    /// The policy of one sequence whose tokens are drawn, for rejection acceptance.
    ///
    /// # Errors
    /// A policy that drops drawn tokens by their own probability.
    pub(crate) fn build_for_drawn(&self) -> Result<Box<dyn Policy>, PruningPolicy> {
        let policy = self.build();
        if !policy.suits_drawn() {
            return Err(PruningPolicy {
                policy: self.name(),
                usable: drawn_policy_names().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(Box::new(InOrder { policy, max_nodes: 0 }))
    }
}

/// Names of the policies that rejection acceptance can be combined with, in the order of the help text.
pub fn drawn_policy_names() -> impl Iterator<Item = &'static str> {
    policy_names().filter(|name| parse_policy(name).is_ok_and(|spec| spec.build().suits_drawn()))
}

/// A policy that, beyond `max_nodes`, keeps the nodes that were made first instead of the best.
struct InOrder {
    policy: Box<dyn Policy>,
    max_nodes: usize,
}

impl Policy for InOrder {
    fn begin(&mut self, start: &RoundStart) {
        self.max_nodes = start.limits.max_nodes;
        self.policy.begin(start);
    }

    fn width(&self) -> usize {
        self.policy.width()
    }

    fn fan_out(&self, candidates: &Candidates) -> usize {
        self.policy.fan_out(candidates)
    }

    fn trims(&self) -> bool {
        false
    }

    fn suits_drawn(&self) -> bool {
        true
    }

    fn reads_predictions(&self) -> bool {
        self.policy.reads_predictions()
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        let mut frontier = self.policy.expand(draft);
        frontier.retain(|&id| id <= self.max_nodes);
        frontier
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        draft.kept().take_while(|&id| id <= self.max_nodes).collect()
    }

    fn observe(&mut self, round: &RoundRecord, path: &[usize]) {
        self.policy.observe(round, path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::testing::{LIMITS, draft, start};
    use crate::{Grower, Limits, parse_policy, policy_names};

    use super::*;

    fn drawn(policy: &str) -> Grower {
        Grower::for_drawn(&parse_policy(policy).unwrap(), vec![]).unwrap()
    }

    #[test]
    fn a_policy_that_prunes_is_refused_by_name() {
        let refused = |policy: &str| Grower::for_drawn(&parse_policy(policy).unwrap(), vec![]).err();
        for policy in ["eagle2", "opt-tree", "pct", "expected-gain"] {
            let error = refused(policy).unwrap().to_string();
            assert!(error.starts_with(&format!("policy {policy} chooses among drawn tokens")), "{error}");
            assert!(error.contains("usable with it are constant, "), "{error}");
        }
        for policy in policy_names() {
            assert_eq!(refused(policy).is_none(), drawn_policy_names().any(|usable| usable == policy), "{policy}");
        }
    }

    #[test]
    fn chains_and_trees_of_given_shape_can_be_used() {
        let usable: Vec<&str> = drawn_policy_names().collect();
        for policy in ["constant", "heuristic", "svip", "vanilla-tree", "cape"] {
            assert!(usable.contains(&policy), "{policy}");
        }
    }

    #[test]
    fn beyond_max_nodes_the_first_made_stay_however_unlikely() {
        let mut grower = drawn("vanilla-tree,width=2,depth=2,max_nodes=3");
        let proposal =
            draft(&mut grower, &start(LIMITS), |node| if node == 1 { vec![0.5; 2] } else { vec![0.75, 0.25] });
        let probs: Vec<f64> = proposal.tree.nodes().iter().map(|node| node.path_prob).collect();
        assert_eq!(probs, [0.75, 0.25, 0.375]);
        let tight = start(Limits { max_nodes: 1, ..LIMITS });
        let proposal = draft(&mut grower, &tight, |_| vec![0.75, 0.25]);
        assert_eq!((proposal.tree.len(), proposal.widths), (1, vec![1, 1]));
    }

    #[test]
    fn within_max_nodes_nothing_changes() {
        for policy in ["constant,k=3", "cape", "vanilla-tree,depth=2", "svip"] {
            let probs = |_| vec![0.6, 0.3, 0.1];
            let proposal = draft(&mut drawn(policy), &start(LIMITS), probs);
            assert_eq!(proposal, crate::testing::draft_once(policy, probs), "{policy}");
        }
    }
}
