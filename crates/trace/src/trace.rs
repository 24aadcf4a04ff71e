//! A file of rounds.

use serde::{Deserialize, Serialize};

use crate::round::Round;

/// The most nodes of a round that are read from a file.
const NODES_MAX: usize = 1024;

/// An answer and the rounds that it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Who answered.
    pub target: String,
    /// Who drafted last: a drafter's name, `ngram` or `none`.
    pub drafter: String,
    /// The policy, every parameter included.
    pub policy: String,
    /// What was asked.
    pub prompt: String,
    /// The seed that was used.
    pub seed: u64,
    /// The rounds, in order.
    pub rounds: Vec<Round>,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is not one.
    #[error("this is no trace as `espalier generate --trace` writes it: {0}")]
    Json(#[from] serde_json::Error),
    /// A tree that is none.
    #[error("node {node} of round {round} continues node {parent}, which does not come before it")]
    Parent {
        /// The round, counted from 1.
        round: usize,
        /// The node.
        node: usize,
        /// What it says that it continues.
        parent: usize,
    },
    /// A tree too large to be drawn.
    #[error("round {round} has {nodes} nodes, beyond the limit of {NODES_MAX}")]
    Nodes {
        /// The round, counted from 1.
        round: usize,
        /// Its nodes.
        nodes: usize,
    },
    /// A probability or a time that is none.
    #[error("round {round} holds {value} where a number from 0 on is expected")]
    Number {
        /// The round, counted from 1.
        round: usize,
        /// What stands there.
        value: f64,
    },
}

impl Trace {
    /// Reads what was written.
    ///
    /// # Errors
    /// [`TraceError`] says where it is none.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let trace: Self = serde_json::from_str(text)?;
        (1..).zip(&trace.rounds).try_for_each(|(number, round)| check(number, round))?;
        Ok(trace)
    }

    /// Tokens committed per round; none without rounds.
    pub fn tau(&self) -> Option<f64> {
        let tokens: usize = self.rounds.iter().map(|round| round.tokens.len()).sum();
        (!self.rounds.is_empty()).then(|| tokens as f64 / self.rounds.len() as f64)
    }
}

fn check(number: usize, round: &Round) -> Result<(), TraceError> {
    if round.nodes.len() > NODES_MAX {
        return Err(TraceError::Nodes { round: number, nodes: round.nodes.len() });
    }
    for (node, found) in (1..).zip(&round.nodes) {
        if found.parent >= node {
            return Err(TraceError::Parent { round: number, node, parent: found.parent });
        }
    }
    let times = [round.draft_ms, round.verify_ms, round.wait_ms, round.at_ms];
    let probs = round.nodes.iter().map(|node| node.prob);
    let mut values = times.into_iter().chain(probs).chain(round.levels_ms.iter().copied());
    match values.find(|value| !value.is_finite() || *value < 0.0) {
        Some(value) => Err(TraceError::Number { round: number, value }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::round::{Fate, Node, Token};

    fn trace() -> Trace {
        let node = |parent, text: &str, prob, fate| Node { id: 7, text: text.to_owned(), parent, prob, fate };
        let token = |text: &str, drafted| Token { id: 7, text: text.to_owned(), drafted };
        let round = Round {
            tokens: vec![token(" dogs", true), token(".", false)],
            nodes: vec![node(0, " dogs", 0.75, Fate::Accepted), node(1, "\n", 0.5, Fate::Rejected)],
            levels_ms: vec![0.1, 0.1],
            at_ms: 3.0,
            drafter: "sorted".to_owned(),
            ..Round::default()
        };
        Trace {
            target: "medium".to_owned(),
            drafter: "sorted".to_owned(),
            policy: "pct".to_owned(),
            prompt: "Ann has 3".to_owned(),
            seed: 7,
            rounds: vec![round],
        }
    }

    fn refusal(change: fn(&mut Round)) -> String {
        let mut trace = trace();
        change(&mut trace.rounds[0]);
        Trace::parse(&serde_json::to_string(&trace).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_was_written_is_read() {
        let written = serde_json::to_string(&trace()).unwrap();
        let read = Trace::parse(&written).unwrap();
        assert_eq!((read.tau(), read), (Some(2.0), trace()));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let parent = "node 2 of round 1 continues node 2, which does not come before it";
        assert_eq!(refusal(|round| round.nodes[1].parent = 2), parent);
        let number = "round 1 holds -1 where a number from 0 on is expected";
        assert_eq!(refusal(|round| round.levels_ms[1] = -1.0), number);
        assert!(Trace::parse("{}").unwrap_err().to_string().starts_with("this is no trace"));
    }
}
