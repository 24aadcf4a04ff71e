//! One sequence as the draft model sees it: its cache, its committed tokens, and the tree being grown.

use std::collections::HashMap;

use espalier_model::{Decoder, KvCache, Logits, Row};
use espalier_round::Proposed;
use espalier_speculation::{
    Acceptance, Candidates, CostModel, DRAFT_TOKENS_MAX, Drawing, Grower, Limits, PolicySpec, PruningPolicy,
    RoundStart, Sampler, Sampling, Side, Token,
};

use crate::error::SequenceError;

/// Committed tokens run in one pass; a longer prompt takes several, so that others are not held up.
const PREFILL_ROWS_MAX: usize = 128;

/// What a sequence is drafted for.
pub(crate) struct Request {
    pub(crate) committed: Vec<Token>,
    /// So many of them, the last ones, were generated.
    pub(crate) generated: usize,
    pub(crate) sampling: Sampling,
    pub(crate) policy: PolicySpec,
    /// Tokens that end the text.
    pub(crate) stops: Vec<Token>,
}

/// Rows to run next, and which of them want logits.
pub(crate) struct Step {
    pub(crate) rows: Vec<Row>,
    pub(crate) logits: Logits,
}

/// Most rows of a first level that is a level's cost: more read a prompt, or what was committed while nothing was drafted.
const LEVEL_ROWS_MAX: usize = 8;

impl Step {
    /// Whether its time says what a level costs.
    pub(crate) fn is_level(&self) -> bool {
        match self.logits {
            Logits::All => true,
            Logits::Last => self.rows.len() <= LEVEL_ROWS_MAX,
            Logits::None => false,
        }
    }
}

/// A sequence. It travels to the engine's thread with each job and back with the proposal.
pub(crate) struct Drafting {
    pub(crate) cache: KvCache,
    pub(crate) costs: CostModel,
    committed: Vec<Token>,
    /// Knows the committed tokens as far as they matter to it.
    sampler: Sampler,
    grower: Grower,
    /// What the round draws, where the sequence is verified by rejection.
    drawing: Option<Drawing>,
    /// Candidates come from this many tokens: the vocabulary without the padding of the model's matrix.
    vocab: usize,
    /// The tail rows that the last committed tokens were run in; the root's is the last.
    chain: Vec<usize>,
    /// The tail row of each draft node that was run.
    ran: HashMap<usize, usize>,
    /// The draft node of each node sent.
    sent: Vec<usize>,
}

impl Drafting {
    /// A sequence of `request`, nothing of it in the cache yet. `costs` is what rounds are believed to cost.
    ///
    /// # Errors
    /// A policy that rejection cannot be combined with, where it is asked for.
    pub(crate) fn new(
        decoder: &Decoder,
        vocab: usize,
        request: Request,
        costs: CostModel,
    ) -> Result<Self, PruningPolicy> {
        let mut stops = request.stops;
        stops.extend(&decoder.config().eos);
        let prompt = request.committed.len().saturating_sub(request.generated);
        let (prompt, generated) = request.committed.split_at(prompt);
        let grower = match request.sampling.acceptance() {
            Acceptance::Coupled => Grower::new(&request.policy, stops),
            Acceptance::Rejection => Grower::for_drawn(&request.policy, stops)?,
        };
        Ok(Self {
            cache: decoder.new_cache(),
            costs,
            sampler: Sampler::new(request.sampling, prompt, generated),
            committed: request.committed,
            grower,
            drawing: None,
            vocab: vocab.min(decoder.config().vocab),
            chain: Vec::new(),
            ran: HashMap::new(),
            sent: Vec::new(),
        })
    }

    /// Starts a round.
    pub(crate) fn begin(&mut self, limits: Limits) {
        let position = self.committed.len() as u64 - 1;
        let start = RoundStart { costs: self.costs.costs(), limits, position, seed: self.sampler.sampling().seed() };
        self.grower.begin_round(&start);
        let draws = self.sampler.sampling().acceptance() == Acceptance::Rejection;
        self.drawing = draws.then(|| Drawing::new(self.sampler.uniforms(Side::Draft)));
    }

    /// The rows to run next; none when the tree is grown.
    pub(crate) fn next(&self) -> Option<Step> {
        let frontier = self.grower.frontier()?;
        let step = match self.uncached() {
            [] => Step { rows: frontier.iter().filter_map(|&id| self.row(id)).collect(), logits: Logits::All },
            // The root runs with the committed tokens before it that have not run yet: the first level.
            tokens if tokens.len() <= PREFILL_ROWS_MAX => Step { rows: Row::chain(tokens, 0), logits: Logits::Last },
            tokens => Step { rows: Row::chain(&tokens[..PREFILL_ROWS_MAX], 0), logits: Logits::None },
        };
        (self.cache.room() >= step.rows.len()).then_some(step)
    }

    /// Committed tokens that have not run, the root among them; none while a tree grows below it.
    fn uncached(&self) -> &[Token] {
        if self.chain.is_empty() { &self.committed[self.cache.committed()..] } else { &[] }
    }

    /// The row of draft node `id`.
    fn row(&self, id: usize) -> Option<Row> {
        let node = self.grower.node(id)?;
        let parent = if node.parent == 0 { self.chain.last() } else { self.ran.get(&node.parent) };
        Some(Row { token: node.token, parent: parent.copied() })
    }

    /// Takes the result of `step`: `logits(i)` belongs to its `i`-th row that wanted some.
    pub(crate) fn absorb<'a>(&mut self, step: &Step, logits: impl Fn(usize) -> &'a [f32]) -> Result<(), SequenceError> {
        let first = self.cache.tail_len() - step.rows.len();
        let rows = first..self.cache.tail_len();
        match step.logits {
            Logits::None => self.cache.keep_path(&rows.collect::<Vec<_>>())?,
            Logits::Last => {
                self.chain = rows.collect();
                self.extend(&[0], logits)?;
            }
            Logits::All => {
                let frontier = self.grower.frontier().unwrap_or_default().to_vec();
                self.ran.extend(frontier.iter().copied().zip(rows));
                self.extend(&frontier, logits)?;
            }
        }
        Ok(())
    }

    fn extend<'a>(&mut self, frontier: &[usize], logits: impl Fn(usize) -> &'a [f32]) -> Result<(), SequenceError> {
        let candidates = frontier.iter().enumerate().map(|(i, &id)| self.children(id, &logits(i)[..self.vocab]));
        let candidates = candidates.collect::<Result<Vec<Candidates>, _>>()?;
        Ok(self.grower.extend(&candidates)?)
    }

    /// What may follow draft node `id`, given the `logits` there: ranked, or drawn.
    fn children(&mut self, id: usize, logits: &[f32]) -> Result<Candidates, SequenceError> {
        let (path, width) = (path(&self.grower, id), self.grower.width());
        match &mut self.drawing {
            None => Ok(self.sampler.rank(logits, &path, width)?),
            Some(drawing) => {
                let best = self.sampler.most_probable(logits, &path, DRAFT_TOKENS_MAX)?;
                Ok(drawing.draw(id, &best, width)?)
            }
        }
    }

    /// Ends the round: what to send.
    pub(crate) fn finish(&mut self) -> Result<Proposed, SequenceError> {
        let proposal = self.grower.finish();
        self.sent = proposal.drafted_ids;
        let tree = match self.drawing.take() {
            None => proposal.tree.into(),
            Some(drawing) => drawing.finish(proposal.tree, &self.sent)?.into(),
        };
        Ok(Proposed { tree, drafted: proposal.drafted })
    }

    /// Commits tokens of a round that nothing was drafted for.
    pub(crate) fn append(&mut self, tokens: &[Token]) {
        self.sampler.push(tokens);
        self.committed.extend_from_slice(tokens);
    }

    /// Commits what the target accepted of the last proposal: the nodes `path` and the tokens that came of them.
    pub(crate) fn apply(&mut self, path: &[usize], tokens: &[Token]) -> Result<(), SequenceError> {
        let mut keep = std::mem::take(&mut self.chain);
        let ran = path.iter().map_while(|node| self.ran.get(self.sent.get(node.checked_sub(1)?)?));
        keep.extend(ran);
        self.cache.keep_path(&keep)?;
        self.ran.clear();
        self.append(tokens);
        self.grower.observe(path, tokens.len());
        Ok(())
    }
}

/// The tokens from below the root down to draft node `id`.
fn path(grower: &Grower, id: usize) -> Vec<Token> {
    let upwards = std::iter::successors(grower.node(id), |node| grower.node(node.parent));
    let mut path: Vec<Token> = upwards.map(|node| node.token).collect();
    path.reverse();
    path
}
