//! One sequence as the draft model sees it: what is committed, its cache, and the tree being grown.

mod step_times;
mod text;
mod tree_rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use espalier_model::{BestOf, DraftModel, KvCache, Logits, Predictor, Row};
use espalier_proto::{HiddenStates, Outcome, SequenceSpec, Tap};
use espalier_round::{Growth, Proposed};
use espalier_speculation::{
    Acceptance, Candidates, DRAFT_TOKENS_MAX, Drawing, Grower, Limits, Restriction, RoundStart, Side, Token, Tree,
    hang_forced,
};

use self::step_times::StepTimes;
use self::text::Text;
use self::tree_rows::TreeRows;
use super::exits::{Exits, Tuning};
use super::prediction::Prediction;
use super::share::PASS_ROWS;
use super::step::{Answers, LEVEL_ROWS_MAX, Step};
use crate::error::SequenceError;
use crate::learned::SharedCosts;

/// Committed positions read in one pass; a longer prompt takes several, so that others are not held up.
const PREFILL_ROWS_MAX: usize = PASS_ROWS;

/// What a sequence is drafted for, and with.
pub(crate) struct Setup {
    pub(crate) sequence: SequenceSpec,
    /// What its text is held to, with what was generated already.
    pub(crate) restriction: Option<Box<dyn Restriction>>,
    /// Holds what is known of the committed tokens.
    pub(crate) cache: KvCache,
    /// Grows its trees.
    pub(crate) grower: Grower,
    pub(crate) exits: Exits,
    /// The part that the sequence has in tuning the thresholds of its exits, where they are tuned.
    pub(crate) tuning: Option<Tuning>,
    /// Predicts acceptance for its target, if there is one that does.
    pub(crate) predictor: Option<Arc<Predictor>>,
    /// What rounds cost, as the sequences of its target find out together.
    pub(crate) costs: SharedCosts,
    /// Tokens that drafter and target have in common.
    pub(crate) vocab: usize,
    /// Whether it is told how trees were grown.
    pub(crate) trees: bool,
}

/// A sequence. It travels to the engine with each request and back with the proposal.
pub(crate) struct Drafting {
    pub(crate) cache: KvCache,
    pub(crate) exits: Exits,
    tuning: Option<Tuning>,
    /// What a predictor says of it, where its policy makes something of that.
    prediction: Option<Prediction>,
    pub(crate) costs: SharedCosts,
    times: StepTimes,
    text: Text,
    grower: Grower,
    /// What the round draws, where the sequence is verified by rejection.
    drawing: Option<Drawing>,
    /// Candidates come from this many tokens: the vocabulary without the padding of the model's matrix.
    vocab: usize,
    /// Whether it is told how trees were grown.
    trees: bool,
    rows: TreeRows,
    /// What the present round is held to.
    limits: Limits,
    /// Whether it only reads what is committed, and grows nothing.
    reads: bool,
    /// Nodes of the tree that was sent last but those that hang behind it because they must follow.
    grown: usize,
}

impl Drafting {
    /// A sequence of which nothing is drafted yet.
    pub(crate) fn new(model: &DraftModel, setup: Setup) -> Self {
        let predictor = setup.predictor.filter(|_| setup.grower.reads_predictions());
        Self {
            cache: setup.cache,
            exits: setup.exits,
            tuning: setup.tuning,
            prediction: predictor.map(Prediction::new),
            costs: setup.costs,
            times: StepTimes::default(),
            text: Text::new(model, setup.sequence, setup.restriction),
            grower: setup.grower,
            drawing: None,
            vocab: setup.vocab.min(model.decoder().config().vocab),
            trees: setup.trees,
            rows: TreeRows::default(),
            limits: Limits { max_nodes: 0, max_depth: 0 },
            reads: false,
            grown: 0,
        }
    }

    /// Whether acceptance is predicted.
    pub(crate) fn predicts(&self) -> bool {
        self.prediction.is_some()
    }

    /// The target's hidden states that predictions are made from, where they are made.
    pub(crate) fn tap(&self) -> Option<Tap> {
        self.prediction.as_ref().map(Prediction::tap)
    }

    /// The time of the steps of the present round.
    pub(crate) fn steps_took(&self) -> Duration {
        self.times.all
    }

    /// Starts a round.
    pub(crate) fn begin(&mut self, limits: Limits) {
        (self.times, self.limits, self.reads) = (StepTimes::default(), limits, false);
        if let Some(tuning) = &mut self.tuning {
            tuning.begin_round(&mut self.exits, limits.max_depth == 0);
        }
        let (costs, sampling) = (self.costs.lock().costs(), self.text.sampling());
        let draws = sampling.acceptance() == Acceptance::Rejection;
        let start = RoundStart { costs, limits, position: self.text.root() as u64, seed: sampling.seed() };
        self.grower.begin_round(&start);
        self.drawing = draws.then(|| Drawing::new(self.text.sampler.uniforms(Side::Draft)));
    }

    /// Starts to read what is committed, but for the root.
    pub(crate) fn begin_reading(&mut self) {
        self.reads = true;
    }

    /// Whether more was committed than a first level reads, so that this takes longer than a level: a prompt, or what came
    /// while nothing was drafted.
    pub(crate) fn has_much_to_read(&self) -> bool {
        let tokens = self.text.known.unread_tokens(&self.text.committed, self.cache.committed());
        self.text.known.unread_rows() + tokens.len() > LEVEL_ROWS_MAX
    }

    /// Whether any of it can be read now. Where states are to come, what tokens tell would be forgotten with them.
    pub(crate) fn can_read(&self) -> bool {
        self.reading().len() > 0
    }

    /// Whether trees can be grown: not before the target has told what it knows of the positions before the root.
    pub(crate) fn can_draft(&self) -> bool {
        self.text.known.reaches(self.text.root())
    }

    /// Grows levels of which every node's token must follow: they are known without the model.
    pub(crate) fn grow_forced(&mut self) -> Result<(), SequenceError> {
        while !self.reads && self.text.sampler.is_restricted() {
            let Some(frontier) = self.grower.frontier().map(<[usize]>::to_vec) else { break };
            let sampler = &mut self.text.sampler;
            let next = |id: &usize| sampler.forced(&path(&self.grower, *id), 1).pop();
            let Some(tokens) = frontier.iter().map(next).collect::<Option<Vec<Token>>>() else { break };
            let candidates = frontier.iter().zip(tokens).map(|(&id, token)| self.certain(id, token));
            let candidates = candidates.collect::<Result<Vec<Candidates>, _>>()?;
            self.grower.extend(&candidates)?;
        }
        Ok(())
    }

    /// What follows draft node `id` where only `token` may.
    fn certain(&mut self, id: usize, token: Token) -> Result<Candidates, SequenceError> {
        let certain = Candidates::certain(token);
        let certain = if self.predicts() { certain.predicting(1.0)? } else { certain };
        match &mut self.drawing {
            None => Ok(certain),
            Some(drawing) => Ok(drawing.draw(id, &certain, 1)?),
        }
    }

    /// What to run next; nothing when the tree is grown.
    pub(crate) fn next(&self) -> Option<Step> {
        if self.reads {
            return Some(self.reading()).filter(|step| step.len() > 0 && self.cache.room() >= step.len());
        }
        let frontier = self.grower.frontier()?;
        let mut step = match self.rows.of(0) {
            None => self.first_level(),
            Some(_) => {
                Step { states: None, rows: Vec::new(), nodes: Vec::new(), logits: Logits::All, best: self.best() }
            }
        };
        if step.logits != Logits::None {
            self.add_nodes(&mut step, frontier);
        }
        (self.cache.room() >= step.len()).then_some(step)
    }

    /// What of the committed positions before the root has not been read yet, as far as a pass goes.
    fn reading(&self) -> Step {
        let mut step = self.first_level();
        if self.text.known.stated().is_some() {
            step.rows.clear();
        } else if step.logits != Logits::None {
            step.rows.pop();
        }
        Step { logits: Logits::None, ..step }
    }

    /// Adds the rows of a level to a step, and before them those of nodes above it that were not run.
    fn add_nodes(&self, step: &mut Step, level: &[usize]) {
        let mut added = HashMap::from([(0, step.committed().checked_sub(1))]);
        let mut add = |step: &mut Step, id: usize| {
            let Some(node) = self.grower.node(id) else { return };
            let row = |row: usize| self.cache.tail_len() + row;
            let parent = added.get(&node.parent).copied().flatten().map(row).or_else(|| self.rows.of(node.parent));
            added.insert(id, Some(step.rows.len()));
            step.nodes.push(id);
            step.rows.push(Row { token: node.token, parent });
        };
        let known = |id: usize| id == 0 || self.rows.of(id).is_some();
        for &id in level {
            let upwards = std::iter::successors(self.grower.node(id), |node| self.grower.node(node.parent));
            let above: Vec<usize> = upwards.map(|node| node.parent).take_while(|&id| !known(id)).collect();
            for id in above.into_iter().rev() {
                if !step.nodes.contains(&id) {
                    add(step, id);
                }
            }
        }
        let above = step.rows.len();
        level.iter().filter(|&&id| id != 0).for_each(|&id| add(step, id));
        if above > 0 {
            step.logits = Logits::Last(level.len());
        }
    }

    /// The root runs after what of the committed positions before it has not been read yet: the first level.
    fn first_level(&self) -> Step {
        let (states, more) = self.text.known.unread_states(PREFILL_ROWS_MAX);
        let tokens = self.text.known.unread_tokens(&self.text.committed, self.cache.committed());
        let (rows, logits) = match tokens {
            _ if more => (Vec::new(), Logits::None),
            tokens if tokens.len() <= PREFILL_ROWS_MAX => (Row::chain(tokens, 0), Logits::Last(1)),
            tokens => (Row::chain(&tokens[..PREFILL_ROWS_MAX], 0), Logits::None),
        };
        Step { states, rows, nodes: Vec::new(), logits, best: self.best() }
    }

    /// The best tokens of a row, where candidates are made of these alone.
    fn best(&self) -> Option<BestOf> {
        let enough = self.text.sampler.needs_best_alone() && !self.exits.are_several();
        enough.then(|| BestOf { count: self.grower.width(), vocab: self.vocab, noise: None })
    }

    /// The cache that `states` go to, and the tokens of their positions.
    pub(crate) fn known_by(&mut self, states: &HiddenStates) -> (&mut KvCache, &[Token]) {
        let tokens = self.text.committed.get(states.first()..states.end()).unwrap_or_default();
        (&mut self.cache, tokens)
    }

    /// Refuses a step with tokens that are not among the `vocab` of the model's matrix: a target may have more.
    pub(crate) fn check(&mut self, step: &Step, vocab: usize) -> Result<(), SequenceError> {
        let beside = step.states.as_ref().map_or(&[][..], |states| self.known_by(states).1);
        let tokens = step.rows.iter().map(|row| row.token).chain(beside.iter().copied());
        match tokens.into_iter().find(|&token| token as usize >= vocab) {
            Some(token) => Err(SequenceError::Token { token, vocab }),
            None => Ok(()),
        }
    }

    /// Takes what came of a step.
    pub(crate) fn absorb(&mut self, answers: &Answers<'_>) -> Result<(), SequenceError> {
        let step = answers.step;
        self.text.known.read(step.states.as_ref().map_or(0, HiddenStates::rows));
        let first = self.cache.tail_len() - step.rows.len();
        let rows = first..self.cache.tail_len();
        match step.logits {
            Logits::None => self.cache.keep_path(&rows.collect::<Vec<_>>())?,
            Logits::Last(_) | Logits::All => {
                let root = first + step.committed();
                self.rows.read(first..root);
                self.rows.drafted(&step.nodes, root..rows.end);
                let frontier = self.grower.frontier().unwrap_or_default().to_vec();
                self.extend(&frontier, answers)?;
            }
        }
        Ok(())
    }

    fn extend(&mut self, frontier: &[usize], answers: &Answers<'_>) -> Result<(), SequenceError> {
        let candidates = frontier.iter().enumerate().map(|(i, &id)| {
            let children = match answers.best(i) {
                Some(best) => best?.candidates(self.grower.width()),
                None => self.children(id, answers.logits(i).get(..self.vocab).unwrap_or_default())?,
            };
            match &self.prediction {
                Some(prediction) => prediction.of(children, self.depth(id) + 1, answers.state(i)),
                None => Ok(children),
            }
        });
        let candidates = candidates.collect::<Result<Vec<Candidates>, _>>()?;
        Ok(self.grower.extend(&candidates)?)
    }

    /// The depth of draft node `id`; the root's is 0.
    fn depth(&self, id: usize) -> usize {
        self.grower.node(id).map_or(0, |node| node.depth)
    }

    /// What may follow draft node `id`, given the `logits` there: ranked, or drawn.
    fn children(&mut self, id: usize, logits: &[f32]) -> Result<Candidates, SequenceError> {
        let (path, width) = (path(&self.grower, id), self.grower.width());
        let sampler = &mut self.text.sampler;
        match &mut self.drawing {
            None => Ok(sampler.rank(logits, &path, width)?),
            Some(drawing) => {
                let best = sampler.most_probable(logits, &path, DRAFT_TOKENS_MAX)?;
                Ok(drawing.draw(id, &best, width)?)
            }
        }
    }

    /// A step took so long.
    pub(crate) fn ran(&mut self, step: &Step, took: Duration) {
        self.times.ran(took, matches!(step.logits, Logits::None));
        if step.is_level() {
            self.times.levels.push((step.rows.len(), took));
        }
    }

    /// Ends the growing: what to send.
    pub(crate) fn finish(&mut self) -> Result<Proposed, SequenceError> {
        self.costs.lock().observe_levels(&mut self.times.levels);
        let mut proposal = self.grower.finish();
        self.grown = proposal.tree.len();
        if self.drawing.is_none() && self.text.sampler.is_restricted() {
            let Limits { max_nodes, max_depth } = self.limits;
            let sampler = &mut self.text.sampler;
            hang_forced(&mut proposal.tree, max_nodes, max_depth, |path, most| sampler.forced(path, most));
        }
        let growth = self.trees.then(|| self.growth(&proposal.tree, &proposal.drafted_ids));
        let tree = match self.drawing.take() {
            None => proposal.tree.into(),
            Some(drawing) => drawing.finish(proposal.tree, &proposal.drafted_ids)?.into(),
        };
        self.rows.sent(proposal.drafted_ids);
        Ok(Proposed::Tree { tree, drafted: proposal.drafted, growth: growth.map(Box::new) })
    }

    /// How a tree was grown whose first nodes are these of the draft; the others hang behind them.
    fn growth(&mut self, tree: &Tree, drafted_ids: &[usize]) -> Growth {
        let (mut drafted, mut sent) = (self.grower.drafted(), drafted_ids.to_vec());
        for node in tree.nodes().iter().skip(drafted_ids.len()) {
            let parent = node.parent.checked_sub(1).map_or(Some(0), |parent| sent.get(parent).copied());
            // One that was drafted, and pruned, stands there twice, or there is no room: then the rest is not told.
            let Some(Ok(id)) = parent.map(|parent| drafted.push(parent, node.token, node.prob)) else { break };
            sent.push(id);
        }
        Growth { drafted, sent, levels: std::mem::take(&mut self.times.each) }
    }

    /// Commits the outcome of a round that nothing was drafted for.
    pub(crate) fn commit_plain(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        self.text.commit(outcome)?;
        if let Some((prediction, states)) = self.prediction.as_mut().zip(outcome.states.as_ref()) {
            prediction.commit(states);
        }
        Ok(())
    }

    /// Commits what the target made of the last proposal; `took` is the time of the whole round, where that tells something.
    pub(crate) fn commit(&mut self, outcome: &Outcome, took: Option<Duration>) -> Result<(), SequenceError> {
        if let (Some(tuning), Some(took)) = (&mut self.tuning, took) {
            tuning.observe(outcome.tokens.len(), took);
        }
        let keep = self.rows.take_path(&outcome.path);
        match self.text.known.stated() {
            None => self.cache.keep_path(&keep)?,
            // What was drafted, and what was read without its states, is known by them from now on.
            Some(stated) => self.cache.roll_back_to(stated),
        }
        self.commit_plain(outcome)?;
        // What was hung behind the tree says nothing of how it was grown.
        let grown = outcome.path.iter().take_while(|&&node| node <= self.grown).count();
        let forced = outcome.path.len() - grown;
        self.grower.observe(&outcome.path[..grown], outcome.tokens.len().saturating_sub(forced));
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
