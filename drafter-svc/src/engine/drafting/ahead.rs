//! Drafting on while the target verifies.
//!
//! The outcome that the drafter holds most likely is the likeliest path down the tree sent, and after it the drafter's own
//! best token. The sequence takes both for committed and grows the next tree as ever, in rows that follow those of the
//! path. If they come to be committed, everything stands as it is. If not, the sequence goes back to where it was, and
//! what was run in vain goes with the other rows that are not kept.

use std::collections::HashMap;

use espalier_proto::Outcome;
use espalier_speculation::{Experience, Grower, Limits, MAX_TREE_NODES, Sampler, Token};

use super::{Drafting, observe};
use crate::error::SequenceError;

/// Rows that must be free, and the most that the tail may hold, for a tree to be begun ahead. While outcomes are as assumed
/// no row is dropped, and a tree must not be cut short for that.
const ROWS: usize = MAX_TREE_NODES / 4;

/// What it takes to draft ahead.
pub(super) struct Ahead {
    /// Grows every other of the trees that follow each other without a gap: the policy has yet to hear of the one before.
    other: Grower,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    /// An outcome is assumed.
    Assuming(Box<UnderWay>),
    /// It was as assumed, and the round after it has not been asked for yet.
    Begun,
}

/// What the round under way is judged by, and what is gone back to.
struct UnderWay {
    /// Tokens committed, and rows that they were run in.
    committed: usize,
    chain: usize,
    sampler: Sampler,
    ran: HashMap<usize, usize>,
    sent: Vec<usize>,
    /// Of the tree drafted ahead.
    limits: Limits,
    /// Whether the drafter has yet to say what follows the path.
    lacks_token: bool,
}

impl Ahead {
    pub(super) fn new(other: Grower) -> Self {
        Self { other, stage: Stage::Idle }
    }

    pub(super) fn build_on(&mut self, experience: &Experience) {
        self.other.build_on(experience);
    }

    /// Whether the round that is asked for was begun ahead; only once.
    pub(super) fn take_begun(&mut self) -> bool {
        matches!(std::mem::take(&mut self.stage), Stage::Begun)
    }

    fn under_way(&self) -> Option<&UnderWay> {
        match &self.stage {
            Stage::Assuming(under_way) => Some(under_way),
            _ => None,
        }
    }
}

impl Drafting {
    /// Begins the tree of the next round before the outcome of this one is known; `remaining` tokens may follow what is
    /// committed. Whether there is anything to run.
    pub(crate) fn go_ahead(&mut self, remaining: usize) -> bool {
        let roomy = self.cache.tail_len() <= ROWS && self.cache.room() >= ROWS;
        // Predictions take the target's state, which comes with the outcome; and who drafted nothing did not run the root.
        if self.ahead.is_none() || self.predicts() || !roomy || !self.has_drafted() {
            return false;
        }
        let (path, token) = self.likeliest();
        // The path, the token after it, one more of the target's own: a tree is of use if others fit in.
        let left = remaining.saturating_sub(path.len() + 1);
        let tokens: Vec<Token> =
            path.iter().chain(&token).filter_map(|&id| Some(self.grower.node(id)?.token)).collect();
        if left < 2 || tokens.iter().any(|&token| self.grower.stops_at(token)) {
            return false;
        }
        // Who has drafted something has drafted what follows the root, so without a token there is a path.
        self.assume((path, tokens), token.is_none(), Limits { max_nodes: usize::MAX, max_depth: left - 1 });
        self.next().is_some()
    }

    fn has_drafted(&self) -> bool {
        self.grower.node(1).is_some()
    }

    /// The draft nodes of the likeliest path down the tree sent, and the one that would have come next, if it was drafted.
    fn likeliest(&self) -> (Vec<usize>, Option<usize>) {
        let mut path = Vec::new();
        while let Some(next) = self.likeliest_child(path.last().copied(), self.sent.iter().copied()) {
            path.push(next);
        }
        let drafted = (1..).take_while(|&id| self.grower.node(id).is_some());
        let next = self.likeliest_child(path.last().copied(), drafted);
        (path, next)
    }

    fn likeliest_child(&self, parent: Option<usize>, among: impl Iterator<Item = usize>) -> Option<usize> {
        let children = among.filter_map(|id| Some((id, self.grower.node(id)?)));
        let children = children.filter(|(_, node)| node.parent == parent.unwrap_or(0));
        Some(children.max_by(|(_, a), (_, b)| a.prob.total_cmp(&b.prob))?.0)
    }

    /// Takes `tokens`, those of the draft nodes `path` first, for committed.
    fn assume(&mut self, (path, tokens): (Vec<usize>, Vec<Token>), lacks_token: bool, limits: Limits) {
        let Some(ahead) = &mut self.ahead else { return };
        let under_way = UnderWay {
            committed: self.committed.len(),
            chain: self.chain.len(),
            sampler: self.sampler.clone(),
            ran: std::mem::take(&mut self.ran),
            sent: std::mem::take(&mut self.sent),
            limits,
            lacks_token,
        };
        // For the token after it, the last node of the path is run by itself.
        let known = path.len().saturating_sub(usize::from(lacks_token));
        self.chain.extend(path.iter().take(known).filter_map(|id| under_way.ran.get(id)));
        self.committed.extend_from_slice(&tokens);
        self.sampler.push(&tokens);
        std::mem::swap(&mut self.grower, &mut ahead.other);
        ahead.stage = Stage::Assuming(Box::new(under_way));
        if !lacks_token {
            self.begin_tree(limits);
        }
    }

    /// The last node of the path was run: what the drafter holds most likely after it, by its `logits`, is assumed too.
    pub(super) fn assume_token(&mut self, logits: &[f32]) -> Result<(), SequenceError> {
        let best = self.sampler.rank(logits, &[], 1)?.tokens().first().map(|best| best.0);
        self.committed.extend(best);
        self.sampler.push(best.as_slice());
        if let Some(Ahead { stage: Stage::Assuming(under_way), .. }) = &mut self.ahead {
            under_way.lacks_token = false;
            let limits = under_way.limits;
            self.begin_tree(limits);
        }
        Ok(())
    }

    /// The tokens of the outcome that is assumed, as far as they are known.
    #[cfg(test)]
    pub(crate) fn assumed(&self) -> &[Token] {
        let under_way = self.ahead.as_ref().and_then(Ahead::under_way);
        under_way.map_or(&[], |under_way| &self.committed[under_way.committed..])
    }

    /// Whether an outcome is assumed that has not come yet.
    pub(super) fn is_assuming(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.under_way().is_some())
    }

    /// Whether one is assumed but for its last token, which is not known before the last node of the path was run.
    pub(super) fn lacks_token(&self) -> bool {
        self.ahead.as_ref().and_then(Ahead::under_way).is_some_and(|under_way| under_way.lacks_token)
    }

    /// Whether levels of the next round's tree were drafted ahead.
    pub(crate) fn is_begun(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| matches!(ahead.stage, Stage::Begun))
    }

    /// Whether the outcome was assumed and levels were drafted from it: then all is as if it had been known. Else what was
    /// assumed is taken back.
    pub(super) fn was_assumed(&mut self, outcome: &Outcome) -> bool {
        let has_drafted = self.has_drafted();
        let Some(ahead) = &mut self.ahead else { return false };
        let Stage::Assuming(under_way) = std::mem::take(&mut ahead.stage) else { return false };
        let UnderWay { committed, chain, sampler, ran, sent, lacks_token, .. } = *under_way;
        let assumed = self.committed.get(committed..).unwrap_or_default();
        if !lacks_token && has_drafted && assumed == outcome.tokens {
            observe(&mut ahead.other, outcome, self.round_took.take());
            ahead.stage = Stage::Begun;
            return true;
        }
        self.committed.truncate(committed);
        self.chain.truncate(chain);
        (self.sampler, self.ran, self.sent) = (sampler, ran, sent);
        std::mem::swap(&mut self.grower, &mut ahead.other);
        if !lacks_token {
            ahead.other.abandon();
        }
        false
    }
}
