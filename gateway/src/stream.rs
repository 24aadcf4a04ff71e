//! From committed tokens to text, as far as characters are complete and no stop string may begin there.

use std::time::Duration;

use espalier_proto::{
    Alternative, DraftedTree, Fault, FaultKind, GeneratedToken, NodeFate, Party, RoundReport, RoundTrace, TraceNode,
};
use espalier_speculation::{Logprobs, Node, StopScanner, StopStrings, Token};
use espalier_text::{Detokenizer, TextError, Tokenizer};

/// The text of one answer.
#[derive(Debug, Clone)]
pub(crate) struct TextStream {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    scanner: StopScanner,
}

impl TextStream {
    pub(crate) fn new(tokenizer: &Tokenizer, stops: StopStrings) -> Self {
        Self { tokenizer: tokenizer.clone(), detokenizer: tokenizer.decoder(), scanner: StopScanner::new(stops) }
    }

    /// Goes on behind tokens whose text has been told; how many of them there are up to the one that completes a stop
    /// string.
    pub(crate) fn skip(&mut self, tokens: &[Token]) -> Result<usize, TextError> {
        for (index, &token) in tokens.iter().enumerate() {
            let piece = self.detokenizer.push(token)?.unwrap_or_default();
            self.scanner.push(piece);
            if self.stop_string().is_some() {
                return Ok(index + 1);
            }
        }
        Ok(tokens.len())
    }

    /// The tokens of a round, each with the text that it completes, up to the one that completes a stop string.
    pub(crate) fn push(&mut self, report: &RoundReport) -> Result<Vec<GeneratedToken>, Fault> {
        let mut tokens = Vec::with_capacity(report.tokens.len());
        for (index, &id) in report.tokens.iter().enumerate() {
            let piece = self.detokenizer.push(id).map_err(internal)?.unwrap_or_default();
            let logprobs = report.logprobs.get(index);
            tokens.push(GeneratedToken {
                id,
                text: self.scanner.push(piece),
                drafted: index < report.accepted,
                logprob: logprobs.map(|logprobs| logprobs.chosen),
                alternatives: logprobs.map_or(Ok(vec![]), |logprobs| self.alternatives(logprobs))?,
            });
            if self.stop_string().is_some() {
                break;
            }
        }
        Ok(tokens)
    }

    /// The stop string that ended the text, once one did.
    pub(crate) fn stop_string(&self) -> Option<&str> {
        self.scanner.found()
    }

    /// What was held back: a character that was never completed, and what never became a stop string.
    pub(crate) fn finish(&mut self) -> Result<String, Fault> {
        let rest = self.detokenizer.finish().map_err(internal)?.unwrap_or_default();
        Ok(self.scanner.push(rest) + &self.scanner.finish())
    }

    /// What was drafted in a round and what became of it, for who asked to be told.
    pub(crate) fn trace(&self, report: &RoundReport, drafter: &str, at: Duration) -> Result<RoundTrace, Fault> {
        let empty = DraftedTree::default();
        let DraftedTree { nodes, sent, accepted, levels } = report.tree.as_deref().unwrap_or(&empty);
        let fate = |number: usize| match number {
            _ if accepted.contains(&number) => NodeFate::Accepted,
            _ if sent.binary_search(&number).is_ok() => NodeFate::Rejected,
            _ => NodeFate::Pruned,
        };
        let node = |(number, node): (usize, &Node)| {
            let text = self.tokenizer.decode(&[node.token]).map_err(internal)?;
            Ok(TraceNode { id: node.token, text, parent: node.parent, prob: node.prob, fate: fate(number) })
        };
        let cost = report.cost;
        Ok(RoundTrace {
            nodes: (1..).zip(nodes.nodes()).map(node).collect::<Result<_, Fault>>()?,
            levels: levels.clone(),
            draft: cost.draft,
            verify: cost.verify,
            wait: cost.wait,
            at,
            drafter: drafter.to_owned(),
            tokens: report.tokens.len(),
        })
    }

    fn alternatives(&self, logprobs: &Logprobs) -> Result<Vec<Alternative>, Fault> {
        let alternative = |&(id, logprob): &(Token, f64)| {
            Ok(Alternative { id, text: self.tokenizer.decode(&[id]).map_err(internal)?, logprob })
        };
        logprobs.top.iter().map(alternative).collect()
    }
}

fn internal(error: TextError) -> Fault {
    Fault::new(Party::Gateway, FaultKind::Internal, error)
}
