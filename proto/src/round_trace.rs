//! What was drafted in a round, what became of it, and when: as clients are told that ask for it.

use std::time::Duration;

use espalier_speculation::{MAX_TREE_NODES, Token, TreeFault};

use crate::common::{check_length, wire_count};
use crate::error::WireError;
use crate::pb;
use crate::speculation_summary::{millis, read_millis};
use crate::verifier_card::MODEL_NAME_BYTES_MAX;

/// What was drafted in a round, what became of it, and when.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundTrace {
    /// Numbered from 1, a parent before its children; 0 is the last token before the round.
    pub nodes: Vec<TraceNode>,
    /// What running each level of the draft took.
    pub levels: Vec<Duration>,
    /// Time spent growing the tree.
    pub draft: Duration,
    /// Time the target spent computing.
    pub verify: Duration,
    /// Time spent waiting for the outcome beyond that.
    pub wait: Duration,
    /// When its tokens were there, after the request was let in.
    pub at: Duration,
    /// Who drafted: a drafter's name, `ngram` or `none`.
    pub drafter: String,
    /// Tokens that it committed.
    pub tokens: usize,
}

/// A drafted token.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceNode {
    /// The token.
    pub id: Token,
    /// Its text on its own.
    pub text: String,
    /// The node that it continues.
    pub parent: usize,
    /// The drafter's probability of it given its path.
    pub prob: f64,
    /// What became of it.
    pub fate: NodeFate,
}

/// What became of a drafted token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFate {
    /// It was not sent.
    Pruned,
    /// It was sent, and is not what the target said.
    Rejected,
    /// It is what the target said.
    Accepted,
}

pub(crate) fn write_trace(trace: RoundTrace) -> pb::RoundTrace {
    pb::RoundTrace {
        nodes: trace.nodes.into_iter().map(write_node).collect(),
        levels_ms: trace.levels.into_iter().map(millis).collect(),
        draft_ms: millis(trace.draft),
        verify_ms: millis(trace.verify),
        wait_ms: millis(trace.wait),
        at_ms: millis(trace.at),
        drafter: trace.drafter,
        tokens: wire_count(trace.tokens),
    }
}

fn write_node(node: TraceNode) -> pb::TraceNode {
    let fate = match node.fate {
        NodeFate::Pruned => pb::NodeFate::Pruned,
        NodeFate::Rejected => pb::NodeFate::Rejected,
        NodeFate::Accepted => pb::NodeFate::Accepted,
    };
    let parent = wire_count(node.parent);
    pb::TraceNode { id: node.id, text: node.text, parent, prob: node.prob, fate: fate.into() }
}

pub(crate) fn read_trace(wire: pb::RoundTrace) -> Result<RoundTrace, WireError> {
    check_length("round.nodes", wire.nodes.len(), MAX_TREE_NODES)?;
    check_length("round.levels_ms", wire.levels_ms.len(), MAX_TREE_NODES)?;
    check_length("round.drafter", wire.drafter.len(), MODEL_NAME_BYTES_MAX)?;
    let nodes = wire.nodes.into_iter().enumerate();
    let levels = wire.levels_ms.into_iter().map(|ms| read_millis("round.levels_ms", ms));
    Ok(RoundTrace {
        nodes: nodes.map(|(before, node)| read_node(before, node)).collect::<Result<_, _>>()?,
        levels: levels.collect::<Result<_, _>>()?,
        draft: read_millis("round.draft_ms", wire.draft_ms)?,
        verify: read_millis("round.verify_ms", wire.verify_ms)?,
        wait: read_millis("round.wait_ms", wire.wait_ms)?,
        at: read_millis("round.at_ms", wire.at_ms)?,
        drafter: wire.drafter,
        tokens: wire.tokens as usize,
    })
}

/// Reads a node that so many come before.
fn read_node(before: usize, wire: pb::TraceNode) -> Result<TraceNode, WireError> {
    check_length("round.nodes.parent", wire.parent as usize, before)?;
    if !(0.0..=1.0).contains(&wire.prob) {
        return Err(TreeFault::Probability { node: before + 1, prob: wire.prob }.into());
    }
    let fate = match pb::NodeFate::try_from(wire.fate) {
        Ok(pb::NodeFate::Pruned) => NodeFate::Pruned,
        Ok(pb::NodeFate::Rejected) => NodeFate::Rejected,
        Ok(pb::NodeFate::Accepted) => NodeFate::Accepted,
        Ok(pb::NodeFate::Unspecified) | Err(_) => return Err(WireError::Missing { field: "round.nodes.fate" }),
    };
    Ok(TraceNode { id: wire.id, text: wire.text, parent: wire.parent as usize, prob: wire.prob, fate })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn trace() -> RoundTrace {
        let node = |parent, fate| TraceNode { id: 7, text: " a".to_owned(), parent, prob: 0.5, fate };
        RoundTrace {
            nodes: vec![node(0, NodeFate::Accepted), node(0, NodeFate::Pruned), node(1, NodeFate::Rejected)],
            levels: vec![Duration::from_micros(30)],
            draft: Duration::from_micros(40),
            verify: Duration::from_micros(500),
            wait: Duration::from_micros(60),
            at: Duration::from_millis(9),
            drafter: "sorted".to_owned(),
            tokens: 2,
        }
    }

    #[test]
    fn it_survives_the_wire() {
        assert_eq!(read_trace(write_trace(trace())), Ok(trace()));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let refusal = |change: fn(&mut pb::TraceNode)| {
            let mut wire = write_trace(trace());
            change(&mut wire.nodes[1]);
            read_trace(wire).unwrap_err().to_string()
        };
        assert_eq!(refusal(|node| node.parent = 2), "round.nodes.parent is 2, beyond the limit of 1");
        assert_eq!(refusal(|node| node.prob = f64::NAN), "node 2 has probability NaN, which is not between 0 and 1");
        assert_eq!(refusal(|node| node.fate = 9), "round.nodes.fate is missing");
    }
}
