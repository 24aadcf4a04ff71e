//! A request, and the sequence that runs for it.

use std::collections::VecDeque;
use std::time::Duration;

use espalier_gateway::{Offers, Route};
use espalier_round::Rest;

use crate::drafting::Drafting;
use crate::text::Text;
use crate::time::Time;
use crate::who::Key;

/// A request from its first moment to its end.
pub(crate) struct Request {
    pub(crate) target: usize,
    pub(crate) client: Option<u32>,
    pub(crate) gateway: usize,
    /// What sequences that should meet have in common.
    pub(crate) key: u64,
    pub(crate) prompt: usize,
    pub(crate) answer: usize,
    /// Tokens that it asks for at the most.
    pub(crate) limit: usize,
    pub(crate) asked: Time,
    /// Since when it has a slot at its gateway.
    pub(crate) let_in: Option<Time>,
    pub(crate) heard: Heard,
    /// Tokens committed.
    pub(crate) generated: usize,
    /// Tokens that its verifier has decided on, of some of which nobody else has heard.
    pub(crate) decided: usize,
    pub(crate) text: Text,
    pub(crate) route: Route,
    pub(crate) offers: Offers,
    /// Drafters that failed it, and verifiers that refused it.
    pub(crate) failed: Vec<usize>,
    pub(crate) refused: Vec<usize>,
    pub(crate) drafter: Option<usize>,
    pub(crate) verifier: Option<usize>,
    /// The verifier that has what was committed so far, and how much.
    pub(crate) lingers: Option<(usize, usize)>,
    pub(crate) life: u32,
    pub(crate) run: Option<Run>,
}

/// What its client has heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    pub(crate) first: Option<Time>,
    pub(crate) first_tokens: usize,
    pub(crate) last: Time,
    pub(crate) tokens: usize,
}

impl Heard {
    /// So many tokens come at this time.
    pub(crate) fn tokens(&mut self, tokens: usize, at: Time) {
        if self.first.is_none() {
            (self.first, self.first_tokens) = (Some(at), tokens);
        }
        (self.last, self.tokens) = (at, self.tokens + tokens);
    }
}

/// A sequence at work.
pub(crate) struct Run {
    /// Where the verifier has it.
    pub(crate) key: Option<Key>,
    /// Whether its drafter gave it a slot.
    pub(crate) has_slot: bool,
    pub(crate) sequence: u64,
    pub(crate) under_way: VecDeque<Round>,
    pub(crate) rounds: u64,
    pub(crate) resumed: Time,
    pub(crate) rest: Rest,
    /// None where nobody drafts.
    pub(crate) drafting: Option<Box<Drafting>>,
    /// Since when a tree grows, if one does.
    pub(crate) grows: Option<Time>,
}

/// A round whose outcome is still to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Nodes of its tree and the depth of that; none of plain decoding.
    pub(crate) tree: Option<(usize, usize)>,
    pub(crate) drafted: usize,
    pub(crate) draft: Duration,
}

impl Round {
    pub(crate) const PLAIN: Self = Self { tree: None, drafted: 0, draft: Duration::ZERO };
}

impl Run {
    /// One that begins now.
    pub(crate) fn new(drafting: Option<Box<Drafting>>, sequence: u64, now: Time) -> Self {
        Self {
            key: None,
            has_slot: drafting.is_some(),
            sequence,
            under_way: VecDeque::new(),
            rounds: 0,
            resumed: now,
            rest: Rest::default(),
            drafting,
            grows: None,
        }
    }
}

impl Request {
    /// Tokens that may still follow, as far as is known before the end shows.
    pub(crate) fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.generated)
    }

    /// Prompt and all that was generated.
    pub(crate) fn committed(&self) -> usize {
        self.prompt + self.generated
    }
}
