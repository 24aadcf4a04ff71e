//! One sequence as the draft model sees it: its cache, its committed tokens, and the tree being grown.

mod ahead;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use espalier_model::{DraftModel, KvCache, Logits, Predictor, Row};
use espalier_proto::{HiddenStates, Outcome, Tap};
use espalier_round::Proposed;
use espalier_speculation::{
    Acceptance, Candidates, DRAFT_TOKENS_MAX, Drawing, Experience, Grower, Limits, PolicySpec, PruningPolicy,
    RoundStart, Sampler, Sampling, Side, Token,
};

use self::ahead::Ahead;
use super::exits::{Exits, Tuning};
use super::past::Past;
use super::prediction::Prediction;
use super::share::PASS_ROWS;
use super::step::{Answers, Step};
use crate::error::SequenceError;
use crate::learned::SharedCosts;

/// Committed positions read in one pass; a longer prompt takes several, so that others are not held up.
const PREFILL_ROWS_MAX: usize = PASS_ROWS;

/// What a sequence is drafted for.
pub(crate) struct Request {
    pub(crate) committed: Vec<Token>,
    /// Holds what is known of them.
    pub(crate) cache: KvCache,
    /// So many of them, the last ones, were generated.
    pub(crate) generated: usize,
    pub(crate) sampling: Sampling,
    pub(crate) policy: PolicySpec,
    /// Tokens that end the text.
    pub(crate) stops: Vec<Token>,
    /// Whether to draft from outcomes that are still to come, where that is possible.
    pub(crate) ahead: bool,
}

/// A sequence. It travels to the engine's thread with each job and back with the proposal.
pub(crate) struct Drafting {
    pub(crate) cache: KvCache,
    pub(crate) costs: SharedCosts,
    pub(crate) exits: Exits,
    /// The part that the sequence has in tuning the thresholds of its exits, where they are tuned.
    tuning: Option<Tuning>,
    /// What a predictor says of it, where its policy makes something of that.
    prediction: Option<Prediction>,
    /// The time of the round's steps since it was begun, and that of each which says what a level costs, by its rows.
    pub(crate) steps_took: Duration,
    /// Of it, that of steps which only read what had been committed.
    reading_took: Duration,
    /// How long the round took whose outcome comes next, and such steps besides, where that tells something.
    round_took: Option<(Duration, Duration)>,
    levels: Vec<(usize, Duration)>,
    committed: Vec<Token>,
    /// What is known of them.
    past: Past,
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
    /// What it takes to draft from outcomes that are still to come, where that is done.
    ahead: Option<Ahead>,
}

impl Drafting {
    /// A sequence of `request`. `costs` is what rounds cost, as sequences of its target find out together.
    ///
    /// # Errors
    /// A policy that rejection cannot be combined with, where it is asked for.
    pub(crate) fn new(
        model: &DraftModel,
        (exits, vocab): (Exits, usize),
        request: Request,
        costs: SharedCosts,
    ) -> Result<Self, PruningPolicy> {
        let decoder = model.decoder();
        let mut stops = request.stops;
        stops.extend(&decoder.config().eos);
        let prompt = request.committed.len().saturating_sub(request.generated);
        let (prompt, generated) = request.committed.split_at(prompt);
        let grower = match request.sampling.acceptance() {
            Acceptance::Coupled => Grower::new(&request.policy, stops),
            Acceptance::Rejection => Grower::for_drawn(&request.policy, stops)?,
        };
        // Under rejection the text depends on the drafts, and those would on what was ready in time.
        let may_go_ahead = request.ahead && request.sampling.acceptance() == Acceptance::Coupled;
        let ahead = may_go_ahead.then(|| grower.another(&request.policy)).flatten().map(Ahead::new);
        Ok(Self {
            cache: request.cache,
            costs,
            exits,
            tuning: None,
            prediction: None,
            steps_took: Duration::ZERO,
            reading_took: Duration::ZERO,
            round_took: None,
            levels: Vec::new(),
            past: Past::of(model),
            sampler: Sampler::new(request.sampling, prompt, generated),
            committed: request.committed,
            grower,
            drawing: None,
            vocab: vocab.min(decoder.config().vocab),
            chain: Vec::new(),
            ran: HashMap::new(),
            sent: Vec::new(),
            ahead,
        })
    }

    /// What the policy learns that holds for other sequences too.
    pub(crate) fn experience(&self) -> Option<Experience> {
        self.grower.experience()
    }

    /// Has the policy learn together with that of other sequences.
    pub(crate) fn build_on(&mut self, experience: &Experience) {
        self.grower.build_on(experience);
        self.ahead.iter_mut().for_each(|ahead| ahead.build_on(experience));
    }

    /// Has the thresholds of the exits tuned from now on.
    pub(crate) fn tune(&mut self, tuning: Tuning) {
        self.tuning = Some(tuning);
    }

    /// Has acceptance predicted, if the policy makes something of it.
    pub(crate) fn predict_by(&mut self, predictor: Arc<Predictor>) {
        self.prediction = self.grower.reads_predictions().then(|| Prediction::new(predictor));
    }

    /// Whether acceptance is predicted.
    pub(crate) fn predicts(&self) -> bool {
        self.prediction.is_some()
    }

    /// The target's hidden states that predictions are made from, where they are made.
    pub(crate) fn tap(&self) -> Option<Tap> {
        self.prediction.as_ref().map(Prediction::tap)
    }

    /// A round for which a draft was made committed what it did and `took` so long, drafting included.
    pub(crate) fn observe_round(&mut self, outcome: &Outcome, took: Duration) {
        if let Some(tuning) = &mut self.tuning {
            tuning.observe(outcome.tokens.len(), took);
        }
        self.round_took = Some((took.saturating_sub(self.reading_took), self.reading_took));
    }

    /// Starts a round, or goes on with it where it was started ahead.
    pub(crate) fn begin(&mut self, limits: Limits) {
        (self.steps_took, self.reading_took) = (Duration::ZERO, Duration::ZERO);
        let begun_ahead = self.ahead.as_mut().is_some_and(Ahead::take_begun);
        if let Some(tuning) = &mut self.tuning {
            tuning.begin_round(&mut self.exits, begun_ahead || limits.max_depth == 0);
        }
        self.levels.clear();
        if !begun_ahead {
            self.begin_tree(limits);
        }
    }

    fn begin_tree(&mut self, limits: Limits) {
        let position = self.committed.len() as u64 - 1;
        let start =
            RoundStart { costs: self.costs.lock().costs(), limits, position, seed: self.sampler.sampling().seed() };
        self.grower.begin_round(&start);
        let draws = self.sampler.sampling().acceptance() == Acceptance::Rejection;
        self.drawing = draws.then(|| Drawing::new(self.sampler.uniforms(Side::Draft)));
    }

    /// Whether trees can be grown: not before the target has told what it knows of the positions before the root.
    pub(crate) fn can_draft(&self) -> bool {
        self.past.reaches(self.committed.len().saturating_sub(1))
    }

    /// Whether the tree of the round that was begun is grown.
    pub(crate) fn is_grown(&self) -> bool {
        self.grower.frontier().is_none()
    }

    /// What to run next; nothing when the tree is grown.
    pub(crate) fn next(&self) -> Option<Step> {
        let step = match self.grower.frontier() {
            None if self.lacks_token() => self.first_level(),
            None => return None,
            Some([0]) => self.first_level(),
            Some(frontier) => Step::of_rows(frontier.iter().filter_map(|&id| self.row(id)).collect(), Logits::All),
        };
        (self.cache.room() >= step.len()).then_some(step)
    }

    /// The root runs after what of the committed positions before it has not been read yet: the first level.
    fn first_level(&self) -> Step {
        if let (Some(&token), Some(&last)) = (self.committed.last(), self.chain.last()) {
            // All positions before it were run ahead.
            return Step::of_rows(vec![Row { token, parent: Some(last) }], Logits::Last(1));
        }
        let (states, more) = self.past.unread_states(PREFILL_ROWS_MAX);
        let tokens = self.past.unread_tokens(&self.committed, self.cache.committed());
        let (rows, logits) = match tokens {
            _ if more => (Vec::new(), Logits::None),
            tokens if tokens.len() <= PREFILL_ROWS_MAX => (Row::chain(tokens, 0), Logits::Last(1)),
            tokens => (Row::chain(&tokens[..PREFILL_ROWS_MAX], 0), Logits::None),
        };
        Step { states, rows, logits }
    }

    /// The cache that `states` go to, and the tokens of their positions.
    pub(crate) fn known_by(&mut self, states: &HiddenStates) -> (&mut KvCache, &[Token]) {
        let tokens = self.committed.get(states.first()..states.end()).unwrap_or_default();
        (&mut self.cache, tokens)
    }

    /// The row of draft node `id`.
    fn row(&self, id: usize) -> Option<Row> {
        let node = self.grower.node(id)?;
        let parent = if node.parent == 0 { self.chain.last() } else { self.ran.get(&node.parent) };
        Some(Row { token: node.token, parent: parent.copied() })
    }

    /// Takes what came of a step.
    pub(crate) fn absorb(&mut self, answers: &Answers<'_>) -> Result<(), SequenceError> {
        let step = answers.step;
        self.past.read(step.states.as_ref().map_or(0, HiddenStates::rows));
        let first = self.cache.tail_len() - step.rows.len();
        let rows = first..self.cache.tail_len();
        match step.logits {
            Logits::None => self.cache.keep_path(&rows.collect::<Vec<_>>())?,
            Logits::Last(_) => {
                self.chain.extend(rows);
                match self.lacks_token() {
                    true => self.assume_token(&answers.logits(0)[..self.vocab])?,
                    false => self.extend(&[0], answers)?,
                }
            }
            Logits::All => {
                let frontier = self.grower.frontier().unwrap_or_default().to_vec();
                self.ran.extend(frontier.iter().copied().zip(rows));
                self.extend(&frontier, answers)?;
            }
        }
        Ok(())
    }

    fn extend(&mut self, frontier: &[usize], answers: &Answers<'_>) -> Result<(), SequenceError> {
        let candidates = frontier.iter().enumerate().map(|(i, &id)| {
            let children = self.children(id, &answers.logits(i)[..self.vocab])?;
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
        match &mut self.drawing {
            None => Ok(self.sampler.rank(logits, &path, width)?),
            Some(drawing) => {
                let best = self.sampler.most_probable(logits, &path, DRAFT_TOKENS_MAX)?;
                Ok(drawing.draw(id, &best, width)?)
            }
        }
    }

    /// A step took so long.
    pub(crate) fn ran(&mut self, step: &Step, took: Duration) {
        if self.is_assuming() {
            // Nobody waited for it, and beside a target at work it may have taken longer than a level that is waited for.
            return;
        }
        self.steps_took += took;
        match step.is_level() {
            true => self.levels.push((step.rows.len(), took)),
            false => self.reading_took += took,
        }
    }

    /// Ends the round: what to send.
    pub(crate) fn finish(&mut self) -> Result<Proposed, SequenceError> {
        self.costs.lock().observe_levels(&mut self.levels);
        let proposal = self.grower.finish();
        self.sent = proposal.drafted_ids;
        let tree = match self.drawing.take() {
            None => proposal.tree.into(),
            Some(drawing) => drawing.finish(proposal.tree, &self.sent)?.into(),
        };
        Ok(Proposed { tree, drafted: proposal.drafted, ..Proposed::default() })
    }

    /// For how many rounds nothing need be drafted, after a round in which nothing was.
    pub(crate) fn rest(&self) -> usize {
        self.grower.rest()
    }

    /// For how many more rounds nothing need be drafted, as a rest ends.
    pub(crate) fn rest_on(&mut self) -> usize {
        let costs = self.costs.lock().costs();
        self.grower.rest_on(&costs)
    }

    /// Commits the outcome of rounds that nothing was drafted for.
    pub(crate) fn append(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        (0..outcome.passes()).for_each(|_| self.grower.rested());
        self.commit(outcome)
    }

    fn commit(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        self.past.commit(outcome)?;
        if let Some((prediction, states)) = self.prediction.as_mut().zip(outcome.states.as_ref()) {
            prediction.commit(states);
        }
        self.sampler.push(&outcome.tokens);
        self.committed.extend_from_slice(&outcome.tokens);
        Ok(())
    }

    /// Commits what the target made of the last proposal.
    pub(crate) fn apply(&mut self, outcome: &Outcome) -> Result<(), SequenceError> {
        if self.was_assumed(outcome) {
            return self.past.commit(outcome);
        }
        let mut keep = std::mem::take(&mut self.chain);
        let ran = outcome.path.iter().map_while(|node| self.ran.get(self.sent.get(node.checked_sub(1)?)?));
        keep.extend(ran);
        match self.past.stated() {
            None => self.cache.keep_path(&keep)?,
            // What was drafted, and what was read without its states, is known by them from now on.
            Some(stated) => self.cache.roll_back_to(stated),
        }
        self.ran.clear();
        self.commit(outcome)?;
        observe(&mut self.grower, outcome, self.round_took.take());
        Ok(())
    }
}

/// Tells a grower what became of its tree, and how long that took where it is known.
fn observe(grower: &mut Grower, outcome: &Outcome, took: Option<(Duration, Duration)>) {
    took.into_iter().for_each(|(took, reading)| grower.took(took, reading));
    grower.observe(&outcome.path, outcome.tokens.len());
}

/// The tokens from below the root down to draft node `id`.
fn path(grower: &Grower, id: usize) -> Vec<Token> {
    let upwards = std::iter::successors(grower.node(id), |node| grower.node(node.parent));
    let mut path: Vec<Token> = upwards.map(|node| node.token).collect();
    path.reverse();
    path
}
