//! One sequence as its drafter sees it: what is known of its text, and the tree that is being grown. The rules are those of
//! `espalier-drafter`.

use std::time::Duration;

use espalier_drafter::{LEVEL_ROWS_MAX, PASS_ROWS, SharedCosts, SharedGate};
use espalier_speculation::{Candidates, GateRound, Grower, Limits, Proposal, RoundStart, RoundTime, SplitMix64, Tree};

use crate::text::{Text, TextModel};

/// A sequence that is drafted for.
pub(crate) struct Drafting {
    grower: Grower,
    costs: SharedCosts,
    pub(crate) gate: Option<SharedGate>,
    /// Committed positions that the drafter has read.
    known: usize,
    /// How many it is to have read before it drafts again, if it only reads.
    reads_to: Option<usize>,
    /// What the steps of the present round took, and of those the levels by their rows.
    steps: Duration,
    levels: Vec<(usize, Duration)>,
    /// Draft nodes of this round that were run, and the deepest of them on the target's own text.
    ran: Vec<usize>,
    on_text: usize,
    /// The draft node of each node sent.
    sent: Vec<usize>,
    nodes_max: usize,
    /// Whether the last round was drafted for.
    drafted: Option<bool>,
    /// What comes after texts that are not the target's.
    noise: u64,
}

/// What to run next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many committed positions, with more to read.
    Read(usize),
    /// The rest of them up to the root: the first level.
    First(usize),
    /// So many nodes.
    Level(usize),
}

impl Step {
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Read(rows) | Self::First(rows) | Self::Level(rows) => rows,
        }
    }

    /// Whether its time says what a level costs.
    fn is_level(self) -> bool {
        match self {
            Self::Read(_) => false,
            Self::First(rows) => rows <= LEVEL_ROWS_MAX,
            Self::Level(_) => true,
        }
    }
}

/// What a sequence does for its next round. Its target does not wait while it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Drafts,
    /// It has much to read, of which nothing was asked for yet.
    BeginsToRead,
    Reads,
}

/// A round that has ended.
pub(crate) struct Ended<'a> {
    /// Nodes of the tree that was sent; none if it was a round of plain decoding.
    pub(crate) nodes: Option<usize>,
    /// What was accepted of them.
    pub(crate) path: &'a [usize],
    pub(crate) tokens: usize,
    pub(crate) is_first: bool,
    pub(crate) took: Duration,
    pub(crate) time: RoundTime,
    /// Of which prompts were read.
    pub(crate) prompts: Duration,
    /// Committed positions before it.
    pub(crate) committed: usize,
}

impl Drafting {
    pub(crate) fn new(grower: Grower, costs: SharedCosts, gate: Option<SharedGate>, nodes_max: usize) -> Self {
        if let Some(gate) = &gate {
            gate.lock().enter();
        }
        Self {
            grower,
            costs,
            gate,
            known: 0,
            reads_to: None,
            steps: Duration::ZERO,
            levels: Vec::new(),
            ran: Vec::new(),
            on_text: 0,
            sent: Vec::new(),
            nodes_max,
            drafted: None,
            noise: 0,
        }
    }

    /// Whether it rests now.
    pub(crate) fn rests(&self, drafter_is_full: bool) -> bool {
        self.gate.as_ref().is_some_and(|gate| drafter_is_full || !gate.lock().mode().drafts())
    }

    /// What a sequence does for its next round with so many positions committed.
    pub(crate) fn readiness(&mut self, committed: usize, drafter_is_busy: bool) -> Readiness {
        match self.reads_to {
            Some(end) if self.known < end => return Readiness::Reads,
            Some(_) => self.reads_to = None,
            None if self.gate.is_some() && drafter_is_busy && committed - self.known > LEVEL_ROWS_MAX => {
                // The root is run with the first level.
                self.reads_to = Some(committed - 1);
                return Readiness::BeginsToRead;
            }
            None => {}
        }
        Readiness::Drafts
    }

    /// Whether it only reads.
    pub(crate) fn reads(&self) -> bool {
        self.reads_to.is_some()
    }

    /// Starts a round after which so many tokens may follow at the most.
    pub(crate) fn begin(&mut self, max_depth: usize, position: usize, seed: u64) {
        (self.steps, self.on_text) = (Duration::ZERO, 0);
        self.levels.clear();
        self.ran.clear();
        let costs = self.costs.lock().costs();
        let limits = Limits { max_nodes: self.nodes_max, max_depth };
        self.noise = SplitMix64::mix(seed ^ position as u64);
        self.grower.begin_round(&RoundStart { costs, limits, position: position as u64, seed });
    }

    /// What to run next, with so many positions committed; nothing when the tree is grown.
    pub(crate) fn next(&self, committed: usize) -> Option<Step> {
        if let Some(end) = self.reads_to {
            return Some(end - self.known).filter(|&unread| unread > 0).map(|unread| Step::Read(unread.min(PASS_ROWS)));
        }
        match self.grower.frontier()? {
            [0] => match committed - self.known {
                unread if unread > PASS_ROWS => Some(Step::Read(PASS_ROWS)),
                unread => Some(Step::First(unread)),
            },
            frontier => Some(Step::Level(frontier.len())),
        }
    }

    /// Takes what came of a step that took so long.
    pub(crate) fn absorb(&mut self, step: Step, took: Duration, text: &mut Text, model: &TextModel) {
        self.steps += took;
        if step.is_level() {
            self.levels.push((step.rows(), took));
        }
        match step {
            Step::Read(rows) => self.known += rows,
            Step::First(rows) => {
                self.known += rows;
                self.extend(text, model);
            }
            Step::Level(_) => self.extend(text, model),
        }
    }

    /// Tells the grower what follows each node of its frontier.
    fn extend(&mut self, text: &mut Text, model: &TextModel) {
        let frontier = self.grower.frontier().unwrap_or_default().to_vec();
        let mut on_text = None;
        let candidates: Vec<Candidates> = frontier
            .iter()
            .map(|&id| match self.depth_on_text(id, text, model) {
                Some(depth) => {
                    on_text = Some(id);
                    model.candidates(text.ahead(model, depth))
                }
                None => model.elsewhere(self.noise.wrapping_add(id as u64)),
            })
            .collect();
        self.on_text = on_text.unwrap_or(usize::MAX);
        if frontier != [0] {
            self.ran.extend(&frontier);
        }
        // There is one set for each node, so it is never refused.
        let _ = self.grower.extend(&candidates);
    }

    /// The depth of a node of the frontier whose path is the target's own text.
    fn depth_on_text(&self, id: usize, text: &mut Text, model: &TextModel) -> Option<usize> {
        let Some(node) = self.grower.node(id) else { return Some(0) };
        let continues = node.parent == self.on_text && node.token == text.ahead(model, node.depth - 1).token();
        continues.then_some(node.depth)
    }

    /// Ends the growing: what to send.
    pub(crate) fn finish(&mut self) -> Proposal {
        self.costs.lock().observe_levels(&mut self.levels);
        let proposal = self.grower.finish();
        self.sent.clone_from(&proposal.drafted_ids);
        proposal
    }

    /// Takes what became of a round, as the drafter's proposer does.
    pub(crate) fn observe(&mut self, ended: &Ended<'_>) {
        self.tell_gate(ended);
        let Some(nodes) = ended.nodes else { return };
        if !ended.is_first {
            let elapsed = ended.took.saturating_sub(self.steps);
            self.costs.lock().observe_verification(nodes, RoundTime { elapsed, ..ended.time });
        }
        self.keep(ended);
        self.grower.observe(ended.path, ended.tokens);
    }

    fn tell_gate(&mut self, ended: &Ended<'_>) {
        let drafted = ended.nodes.is_some();
        let changed = self.drafted.replace(drafted).is_some_and(|before| before != drafted);
        if let Some(gate) = &self.gate {
            let ms = ended.took.saturating_sub(ended.prompts).as_secs_f64() * 1e3;
            let open = ended.time.load.open;
            gate.lock().observe(&GateRound { drafted, changed, tokens: ended.tokens, ms, open });
        }
    }

    /// Nodes that were run and accepted are known, as far as they follow each other.
    fn keep(&mut self, ended: &Ended<'_>) {
        if self.known < ended.committed {
            // Nothing was run: nothing was worth drafting.
            return;
        }
        let ran = |node: &&usize| {
            let draft = node.checked_sub(1).and_then(|index| self.sent.get(index));
            draft.is_some_and(|draft| self.ran.contains(draft))
        };
        self.known = ended.committed + ended.path.iter().take_while(ran).count();
    }
}

impl Drop for Drafting {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.lock().leave();
        }
    }
}

/// What a target accepts of a tree: the nodes of its own text, from the root downwards.
pub(crate) fn accepted(tree: &Tree, text: &mut Text, model: &TextModel) -> Vec<usize> {
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(next) =
        (!tree.is_empty()).then(|| tree.child_with(at, text.ahead(model, path.len()).token())).flatten()
    {
        path.push(next);
        at = next;
    }
    path
}
