//! The test of a chain policy put on a tree policy, whose growth it may end.
//!
//! Written `eagle2,stop=svip,stop.h=0.4,every=2`. The test is asked once a level, or once in `every` levels, of the
//! distribution that the level's best node was taken from; to the test a tree is the chain of its depth.

use std::fmt::{self, Display, Formatter};

use super::chain::StopTest;
use super::kind::{ChainKind, EVERY, STOP, STOP_PREFIX, max_depth, max_nodes};
use super::param::{Param, Slot, Values};
use super::registry::CHAINS;
use super::{Experience, Policy, RoundStart};
use crate::draft::Draft;
use crate::{Candidates, RoundRecord};

/// How no test is named.
const NONE: &str = "none";

/// Which test is put on a tree policy, as it is written.
#[derive(Debug, Clone)]
pub(super) struct Stopping {
    every: Values,
    test: Option<Test>,
}

/// A chain policy with its parameters.
#[derive(Debug, Clone)]
struct Test {
    kind: &'static ChainKind,
    values: Values,
}

impl Default for Stopping {
    fn default() -> Self {
        Self { every: Values::defaults(&[EVERY]), test: None }
    }
}

impl Stopping {
    /// Puts on the test of this name; `None` if no chain policy has it.
    pub(super) fn put(&mut self, name: &str) -> Option<()> {
        self.test = match CHAINS.iter().find(|kind| kind.name == name) {
            Some(kind) => Some(Test { kind, values: Values::defaults(kind.params) }),
            None if name == NONE => None,
            None => return None,
        };
        Some(())
    }

    /// What [`Self::put`] accepts, in words.
    pub(super) fn allowed() -> String {
        let names = CHAINS.iter().map(|kind| kind.name).collect::<Vec<_>>();
        format!("one of {} or {NONE}", names.join(", "))
    }

    /// Each parameter that may be set now, by its key. The tree has its own bounds, so the test's are none of them.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = Slot<'_>> {
        let own = |param: &Param| param.key != max_nodes(1).key && param.key != max_depth(1).key;
        let every = self.every.slots().map(|(param, value)| Slot { key: param.key.to_owned(), param, value });
        let test = self.test.iter_mut().flat_map(|test| test.values.slots());
        let test = test.filter(move |(param, _)| own(param));
        every.chain(test.map(|(param, value)| Slot { key: format!("{STOP_PREFIX}{}", param.key), param, value }))
    }

    /// `tree`, whose parameters are `bounds`, with the test on it.
    pub(super) fn on(&self, tree: Box<dyn Policy>, bounds: &Values) -> Box<dyn Policy> {
        let Some(Test { kind, values }) = &self.test else {
            return tree;
        };
        let test = (kind.build)(&values.clone().sharing(&max_depth(1), bounds));
        Box::new(Stopped { tree, test, every: self.every.count(&EVERY) })
    }
}

impl PartialEq for Stopping {
    fn eq(&self, other: &Self) -> bool {
        let test = |stopping: &Self| stopping.test.as_ref().map(|test| (test.kind.name, test.values.clone()));
        self.every == other.every && test(self) == test(other)
    }
}

/// What is not at its default, each with a comma before.
impl Display for Stopping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(Test { kind, values }) = &self.test {
            write!(f, ",{STOP}={}", kind.name)?;
            values.changed().try_for_each(|(key, value)| write!(f, ",{STOP_PREFIX}{key}={value}"))?;
        }
        self.every.changed().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

/// A tree policy whose growth a test may end, once in `every` levels.
struct Stopped {
    tree: Box<dyn Policy>,
    test: Box<dyn StopTest>,
    every: usize,
}

impl Stopped {
    fn stops(&mut self, draft: &Draft) -> bool {
        let levels = draft.levels();
        levels > 0 && levels.is_multiple_of(self.every) && self.test.stops(draft)
    }
}

impl Policy for Stopped {
    fn begin(&mut self, start: &RoundStart) {
        self.tree.begin(start);
        self.test.begin(start);
    }

    fn width(&self) -> usize {
        self.tree.width()
    }

    fn fan_out(&self, candidates: &Candidates) -> usize {
        self.tree.fan_out(candidates)
    }

    fn level_max(&self) -> usize {
        self.tree.level_max()
    }

    fn trims(&self) -> bool {
        self.tree.trims()
    }

    fn suits_drawn(&self) -> bool {
        self.tree.suits_drawn()
    }

    fn reads_predictions(&self) -> bool {
        self.tree.reads_predictions() || self.test.reads_predictions()
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if self.stops(draft) { Vec::new() } else { self.tree.expand(draft) }
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        self.tree.keep(draft)
    }

    fn observe(&mut self, round: &RoundRecord, path: &[usize]) {
        self.tree.observe(round, path);
        self.test.observe(&RoundRecord { drafted: round.depth, ..*round });
    }

    fn experience(&self) -> Option<Experience> {
        self.tree.experience()
    }

    fn build_on(&mut self, experience: &Experience) {
        self.tree.build_on(experience);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::testing::{LIMITS, draft, draft_once, grower, start};
    use crate::{Grower, parse_policy};

    /// Sure until the third level, whose nodes are as likely as not.
    fn probs(node: usize) -> Vec<f64> {
        if node < 3 { vec![1.0] } else { vec![0.5, 0.5] }
    }

    #[test]
    fn a_level_from_an_uncertain_distribution_is_the_last() {
        assert_eq!(draft_once("vanilla-tree,width=2", probs).widths, [1, 1, 1, 1, 2]);
        let stopped = draft_once("vanilla-tree,width=2,stop=svip", probs);
        assert_eq!((stopped.widths, stopped.tree.len()), (vec![1, 1, 1, 1], 1 + 1 + 1 + 2));
        assert_eq!(draft_once("vanilla-tree,width=2,stop=svip,stop.h=0.4", probs).widths, [1, 1, 1, 1, 2]);
    }

    #[test]
    fn a_level_is_judged_by_what_its_best_node_was_taken_from() {
        // The second level's best node follows node 1, which is sure, although node 2 is not.
        let probs = |node| match node {
            0 => vec![0.9, 0.1],
            2 => vec![0.25; 4],
            _ => vec![1.0],
        };
        let widths = |h| draft_once(&format!("vanilla-tree,width=4,depth=3,stop=svip,stop.h={h}"), probs).widths;
        assert_eq!(widths(0.3), [1, 2, 5]);
        assert_eq!(widths(0.2), [1]);
    }

    #[test]
    fn it_is_asked_once_in_every_so_many_levels() {
        let levels = |every| draft_once(&format!("eagle2,stop=constant,stop.k=3,every={every}"), |_| vec![1.0]).widths;
        assert_eq!([1, 2, 3, 5].map(|every| levels(every).len()), [3, 4, 3, 5]);
    }

    #[test]
    fn to_the_test_a_tree_is_the_chain_of_its_depth() {
        let mut grower = grower("vanilla-tree,width=2,depth=9,stop=heuristic,stop.start=2,max_depth=5", &[]);
        let mut depths = Vec::new();
        for accepted in [2, 4, 5, 0, 0] {
            let tree = draft(&mut grower, &start(LIMITS), |_| vec![0.75, 0.25]).tree;
            depths.push(tree.depth());
            let mut path = vec![];
            while path.len() < accepted {
                let last = path.last().copied().unwrap_or(0);
                path.push(tree.child_with(last, 0).unwrap());
            }
            grower.observe(&path, accepted + 1);
        }
        assert_eq!(depths, [2, 4, 5, 5, 4]);
    }

    #[test]
    fn it_reads_predictions_where_its_test_does() {
        let reads = |policy: &str| grower(policy, &[]).reads_predictions();
        assert!(reads("cali-ts") && reads("eagle2,stop=cali-ts,every=2"));
        assert!(!reads("svip") && !reads("eagle2,stop=beta-ts") && !reads("eagle2"));
        let drawn = |policy: &str| Grower::for_drawn(&parse_policy(policy).unwrap(), vec![]).unwrap();
        assert!(drawn("cape,stop=cali-ts").reads_predictions() && !drawn("cape").reads_predictions());
    }

    #[test]
    fn it_suits_drawn_tokens_where_its_tree_does() {
        let suits = |policy: &str| Grower::for_drawn(&parse_policy(policy).unwrap(), vec![]).is_ok();
        assert!(suits("vanilla-tree,stop=beta-ts") && suits("cape,stop=svip"));
        assert!(!suits("eagle2,stop=svip") && !suits("pct,stop=cali-ts"));
    }
}
