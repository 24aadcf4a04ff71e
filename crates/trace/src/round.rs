//! A round as JSON.

use std::time::Duration;

use espalier_proto::{GeneratedToken, NodeFate, RoundTrace, TraceNode};
use serde::{Deserialize, Serialize};

/// What was drafted in a round, what became of it, and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// The tokens that it committed.
    pub tokens: Vec<Token>,
    /// What was drafted, numbered from 1, a parent before its children; 0 is the last token before the round.
    pub nodes: Vec<Node>,
    /// What running each level of the draft took, in milliseconds.
    pub levels_ms: Vec<f64>,
    /// Time spent growing the tree, in milliseconds.
    pub draft_ms: f64,
    /// Time the target spent computing, in milliseconds.
    pub verify_ms: f64,
    /// Time spent waiting for the outcome beyond that, in milliseconds.
    pub wait_ms: f64,
    /// When its tokens were there, in milliseconds since the request was let in.
    pub at_ms: f64,
    /// Who drafted: a drafter's name, `ngram` or `none`.
    pub drafter: String,
}

/// A token of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The token.
    pub id: u32,
    /// The text that became complete with it.
    pub text: String,
    /// Whether it had been drafted; otherwise the target added it.
    pub drafted: bool,
}

/// A drafted token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The token.
    pub id: u32,
    /// Its text on its own.
    pub text: String,
    /// The node that it continues.
    pub parent: usize,
    /// The drafter's probability of it given its path.
    pub prob: f64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a drafted token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It was not sent.
    Pruned,
    /// It was sent, and is not what the target said.
    Rejected,
    /// It is what the target said.
    Accepted,
}

impl Round {
    /// A round of which these are the tokens.
    pub fn new(tokens: &[GeneratedToken], trace: &RoundTrace) -> Self {
        Self {
            tokens: tokens.iter().map(Token::from).collect(),
            nodes: trace.nodes.iter().map(Node::from).collect(),
            levels_ms: trace.levels.iter().copied().map(millis).collect(),
            draft_ms: millis(trace.draft),
            verify_ms: millis(trace.verify),
            wait_ms: millis(trace.wait),
            at_ms: millis(trace.at),
            drafter: trace.drafter.clone(),
        }
    }

    /// The numbers of the nodes that continue node `parent`, in their order.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = usize> {
        (1..).zip(&self.nodes).filter(move |(_, node)| node.parent == parent).map(|(number, _)| number)
    }

    /// Node `number`; none for the root.
    pub fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number.checked_sub(1)?)
    }

    /// Nodes of a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.nodes.iter().filter(|node| node.fate == fate).count()
    }

    /// The tokens that the target added itself.
    pub fn bonus(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !token.drafted)
    }
}

impl From<&GeneratedToken> for Token {
    fn from(token: &GeneratedToken) -> Self {
        Self { id: token.id, text: token.text.clone(), drafted: token.drafted }
    }
}

impl From<&TraceNode> for Node {
    fn from(node: &TraceNode) -> Self {
        let fate = match node.fate {
            NodeFate::Pruned => Fate::Pruned,
            NodeFate::Rejected => Fate::Rejected,
            NodeFate::Accepted => Fate::Accepted,
        };
        Self { id: node.id, text: node.text.clone(), parent: node.parent, prob: node.prob, fate }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
