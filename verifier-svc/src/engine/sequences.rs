//! All sequences that are open, oldest first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use espalier_model::{BestOf, BlockPool, Decoder, KvCache, ModelConfig, PoolFault, Row, Tenant};
use espalier_proto::{
    Credit, HiddenStates, NumberedTree, Open, Outcome, SequenceId, SequenceSpec, Submission, VerifierEvent,
};
use espalier_speculation::{
    AcceptError, CandidateTree, Committed, LogitsError, Logprobs, Sampler, Token, commit, walk,
};
use tokio::time::Instant;

use super::command::{Command, Key, Loaded, Opening, Replies, Reply, Submitted};
use super::gather::{Pass, Return};
use super::known_states::{KnownStates, Origin};
use super::prompts::PromptTime;
use super::round::{Decision, Found, Round, Timing, WaitingRound};
use super::row_shares::RowShares;
use super::tapped::Tapped;
use crate::admission::Slot;
use crate::counts::Counts;
use crate::error::VerifierError;

/// The open sequences of one model.
pub(super) struct Sequences {
    decoder: Arc<Decoder>,
    blocks: BlockPool,
    tree_nodes_max: usize,
    pub(super) counts: Counts,
    states: KnownStates,
    prompts: PromptTime,
    pub(super) shares: RowShares,
    open: BTreeMap<Key, Sequence>,
}

impl Sequences {
    pub(super) fn new(model: &Loaded) -> Self {
        let Loaded { decoder, costs, blocks, tree_nodes_max, counts, .. } = model;
        Self {
            decoder: Arc::clone(decoder),
            blocks: blocks.clone(),
            tree_nodes_max: *tree_nodes_max,
            counts: counts.clone(),
            states: KnownStates::default(),
            prompts: PromptTime::new(*costs),
            shares: RowShares::default(),
            open: BTreeMap::new(),
        }
    }

    /// Takes in a command; none of them computes anything.
    pub(super) fn take(&mut self, command: Command) {
        match command {
            Command::Open(key, opening) => self.open(key, *opening),
            Command::Close(key) => self.close(key),
            Command::Submit(key, submitted) => {
                // A sequence that has ended has said so; what was still on its way is moot.
                if let Some(sequence) = self.open.get_mut(&key) {
                    sequence.take(submitted);
                }
            }
        }
    }

    /// How long a pass should be put off for those that are about to come back.
    pub(super) fn put_off(&self, pass: Pass) -> Option<Duration> {
        let ready = self.open.values().filter(|sequence| sequence.has_work()).count();
        let now = Instant::now();
        let mut due: Vec<Duration> = self.open.values().filter_map(|sequence| sequence.due_after(now)).collect();
        pass.put_off(ready, &mut due)
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether any sequence has something to run.
    pub(super) fn have_work(&self) -> bool {
        self.open.values().any(|sequence| sequence.has_work())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Sequence)> {
        self.with_prompt_time().0
    }

    /// All of them, oldest first, and the time that was spent on their prompts.
    pub(super) fn with_prompt_time(&mut self) -> (impl Iterator<Item = (Key, &mut Sequence)>, &mut PromptTime) {
        (self.open.iter_mut().map(|(key, sequence)| (*key, sequence)), &mut self.prompts)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Sequence> {
        self.open.get_mut(&key)
    }

    /// Frees a sequence and all that it holds.
    pub(super) fn close(&mut self, key: Key) {
        self.open.remove(&key);
    }

    fn open(&mut self, key: Key, opening: Opening) {
        self.take_over(&opening.open.sequence.id);
        match self.admit(&opening.open) {
            Ok(memory) => {
                let opened = VerifierEvent::Opened { reused_prefix: memory.cache.committed() };
                let sequence = Sequence::new(opening, memory, self.decoder.config(), self.prompts.spent());
                sequence.reply(Ok(opened));
                self.open.insert(key, sequence);
            }
            Err(fault) => reply(&opening.replies, &opening.open.sequence.id, Err(fault.into())),
        }
    }

    /// Ends the stream that holds a sequence now. What its cache holds lingers, for the next to begin with.
    fn take_over(&mut self, id: &SequenceId) {
        let held = self.open.iter().find(|(_, held)| held.id == *id).map(|(&key, _)| key);
        if let Some(held) = held.and_then(|key| self.open.remove(&key)) {
            held.reply(Err(VerifierError::TakenOver { sequence: id.clone() }));
        }
    }

    /// A cache for a sequence, with all the blocks that it may come to need: it can always finish. It begins with what is
    /// known of the committed tokens, their hidden states included where those are wanted.
    fn admit(&self, open: &Open) -> Result<Memory, PoolFault> {
        let Open { sequence: SequenceSpec { committed, max_tokens, tenant, .. }, tap } = open;
        // The last tree hangs below the last but one of all tokens.
        let positions =
            committed.len().saturating_add(*max_tokens).saturating_add(self.tree_nodes_max).saturating_sub(1);
        // The root must be run: its logits decide what comes next.
        let known = committed.split_last().map_or(&[][..], |(_, known)| known);
        let tenant = Tenant(*tenant);
        let Some(tap) = *tap else {
            return Ok(Memory { cache: self.blocks.open_for(tenant, positions, known)?, tapped: None });
        };
        let states = self.states.find(tenant, tap, known);
        let cache = self.blocks.open_for(tenant, positions, &known[..states.rows()])?;
        let unsent = states.front(cache.committed());
        let tapped = Tapped { origin: Origin { tenant, layer: tap.layer }, unsent, keeps: Some(self.states.clone()) };
        Ok(Memory { cache, tapped: Some(tapped) })
    }
}

/// What is kept for a sequence: keys and values, and hidden states where they are wanted.
struct Memory {
    cache: KvCache,
    tapped: Option<Tapped>,
}

/// Answers; there is room, for no more is ever asked than [`super::REPLIES_MAX`].
fn reply(replies: &Replies, sequence: &SequenceId, reply: Reply) {
    if replies.try_send(reply).is_err() {
        tracing::debug!(%sequence, "nobody waits for an answer any more");
    }
}

/// One open sequence.
pub(super) struct Sequence {
    id: SequenceId,
    /// Holds the committed tokens but the last, as far as they have been run,
    /// and outside of a turn nothing else.
    cache: KvCache,
    committed: Vec<Token>,
    /// Knows the committed tokens as far as they matter to it.
    sampler: Sampler,
    /// Alternatives that each token comes with besides its logprob; no logprobs if absent.
    logprobs: Option<usize>,
    stops: Vec<Token>,
    remaining: usize,
    context: usize,
    /// Tokens of the target's matrix.
    vocab: usize,
    tapped: Option<Tapped>,
    /// What was submitted and is not answered; the first of it may be credit of which some is used up.
    submitted: VecDeque<Submitted>,
    /// When it was answered last: nothing submitted could be run before that.
    answered: Instant,
    /// Whether it ever was.
    has_decided: bool,
    /// How long after an outcome it comes back, where it has to.
    returns: Option<Return>,
    /// Time that was spent on prompts, its own and others', until it was opened or answered last.
    prompts_told: Duration,
    replies: Replies,
    /// Given back when the sequence ends, before that is told: who hears of the end may come again at once.
    slot: Option<Slot>,
}

impl Sequence {
    fn new(opening: Opening, memory: Memory, model: &ModelConfig, prompts_told: Duration) -> Self {
        let Opening { open, restriction, replies, slot } = opening;
        let Memory { cache, tapped } = memory;
        let spec = open.sequence;
        let (prompt, generated) = spec.committed.split_at(spec.prompt_len());
        Self {
            id: spec.id,
            cache,
            sampler: Sampler::new(spec.sampling, prompt, generated).restricted(restriction),
            logprobs: spec.logprobs,
            committed: spec.committed,
            stops: [&model.eos[..], &spec.stop_tokens].concat(),
            remaining: spec.max_tokens,
            context: model.context,
            vocab: model.vocab,
            tapped,
            submitted: VecDeque::new(),
            answered: Instant::now(),
            returns: None,
            prompts_told,
            has_decided: false,
            replies,
            slot: Some(slot),
        }
    }

    /// Takes what was submitted.
    fn take(&mut self, submitted: Submitted) {
        // What is handed in before the first outcome came back with nothing.
        if self.submitted.is_empty() && self.has_decided {
            Return::observe(&mut self.returns, submitted.arrived.saturating_duration_since(self.answered));
        }
        self.submitted.push_back(submitted);
    }

    /// After what time it is to be back, if it was answered and is not due yet.
    fn due_after(&self, now: Instant) -> Option<Duration> {
        if self.has_work() || !self.has_decided {
            return None;
        }
        (self.answered + self.returns?.by()).checked_duration_since(now).filter(|after| !after.is_zero())
    }

    pub(super) fn cache(&mut self) -> &mut KvCache {
        &mut self.cache
    }

    /// Whether nobody waits for its outcomes any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.replies.is_closed()
    }

    /// Its next round, if it has one and is past its prompt.
    pub(super) fn waiting_round(&self) -> Option<WaitingRound> {
        let Submitted { submission, arrived, .. } = self.submitted.front().filter(|_| self.unread() == 0)?;
        let nodes = match submission {
            Submission::Credit(_) => 0,
            Submission::Tree(numbered) => numbered.tree.tree().len(),
        };
        Some(WaitingRound { since: self.answered.max(*arrived), rows: 1 + nodes })
    }

    /// How many committed tokens must be run before a tree can be.
    pub(super) fn unread(&self) -> usize {
        self.root().saturating_sub(self.cache.committed())
    }

    /// The next `count` tokens to be run before a tree can be.
    pub(super) fn unread_rows(&self, count: usize) -> Vec<Row> {
        let unread = &self.committed[self.cache.committed()..];
        Row::chain(&unread[..count.min(unread.len())], 0)
    }

    /// Takes the next round: a tree, without the nodes for which the context has no room, or one token of its credit.
    pub(super) fn next_round(&mut self) -> Option<Round> {
        let (acceptance, answered) = (self.sampler.sampling().acceptance(), self.answered);
        let submitted = self.submitted.front_mut()?;
        let ready = submitted.arrived.max(answered);
        let mut round = match &mut submitted.submission {
            Submission::Credit(credit) => Round::plain(credit, acceptance, ready),
            Submission::Tree(NumberedTree { round, tree }) => {
                let (number, tree) = (*round, std::mem::take(tree));
                Round { number, tree, states_later: false, ready, _waiting: submitted.waiting.take() }
            }
        };
        if !matches!(submitted.submission, Submission::Credit(Credit { tokens: 1.., .. })) {
            self.submitted.pop_front();
        }
        round.tree.truncate(self.context.saturating_sub(self.committed.len()));
        Some(round)
    }

    /// The layer, counted from 1, whose hidden states are wanted.
    pub(super) fn tapped_layer(&self) -> Option<usize> {
        self.tapped.as_ref().map(|tapped| tapped.origin.layer)
    }

    /// The best token of each row, perhaps under noise, where it is all that is needed: the target's decision.
    pub(super) fn best(&self) -> Option<BestOf> {
        let noise = self.sampler.gumbel_max();
        let decides = (self.sampler.needs_best_alone() || noise.is_some()) && self.logprobs.is_none();
        decides.then_some(BestOf { count: 1, vocab: self.vocab, noise })
    }

    /// Takes note of committed rows, if their hidden states are wanted.
    pub(super) fn keep_states(&mut self, rows: &[usize], found: &Found<'_>) {
        let root = self.root();
        let Some(tapped) = &mut self.tapped else { return };
        tapped.keep(rows.iter().filter_map(|&row| found.state(row)), &self.committed[..root]);
    }

    /// The hidden states that have not been sent; none if they are not wanted.
    fn unsent_states(&mut self) -> Option<HiddenStates> {
        Some(self.tapped.as_mut()?.take_unsent())
    }

    /// Decides on a round whose rows have been run, after those of `read` committed tokens: commits what the target agrees
    /// with, and one token of its own.
    pub(super) fn decide(
        &mut self,
        tree: &CandidateTree,
        read: usize,
        found: &Found<'_>,
    ) -> Result<Decision, VerifierError> {
        // Where the root's is told, those of all nodes are.
        let walk = match found.decision(0) {
            Some(_) => {
                let decide = |node| found.decision(node).unwrap_or(Err(LogitsError::Empty));
                walk(tree.tree(), decide).map_err(AcceptError::from)?
            }
            None => tree.accept(&mut self.sampler, |node| found.logits(node))?,
        };
        let Committed { tokens, accepted, finish } = commit(tree.tree(), &walk, &self.stops, self.remaining);
        // The last committed token is the next root, on which nothing has run yet.
        let run: Vec<usize> = [0].into_iter().chain(walk.path.iter().copied()).take(tokens.len()).collect();
        let rows: Vec<usize> = (0..read).chain(run.iter().map(|node| read + node)).collect();
        self.cache.keep_path(&rows)?;
        self.keep_states(&rows, found);
        let decided = run.iter().map(|&node| found.logits(node)).zip(&tokens);
        let logprobs = self.logprobs_of(decided).map_err(AcceptError::from)?;
        self.sampler.push(&tokens);
        self.committed.extend_from_slice(&tokens);
        self.remaining -= tokens.len();
        if finish.is_some() {
            self.slot = None;
        }
        let path = walk.path[..accepted].to_vec();
        Ok(Decision { path, tokens, logprobs, finish })
    }

    /// Tells the outcome of a round; `true` if the sequence ended.
    pub(super) fn settle(&mut self, round: Round, decision: Decision, timing: &Timing) -> bool {
        let Decision { path, tokens, logprobs, finish } = decision;
        let outcome = Outcome {
            round: round.number,
            path,
            tokens,
            logprobs,
            finish,
            compute: timing.compute,
            queue: timing.begun.saturating_duration_since(round.ready) + timing.waited,
            load: timing.load,
            prompts: timing.prompts.saturating_sub(self.prompts_told),
            states: if round.states_later { None } else { self.unsent_states() },
        };
        // Who is told of the outcome finds the tree answered.
        drop(round);
        (self.answered, self.has_decided, self.prompts_told) = (Instant::now(), true, timing.prompts);
        self.reply(Ok(VerifierEvent::Outcome(outcome)));
        finish.is_some()
    }

    /// What the target thought of tokens that it decided, if that was asked for.
    fn logprobs_of<'l>(
        &self,
        decided: impl Iterator<Item = (&'l [f32], &'l Token)>,
    ) -> Result<Vec<Logprobs>, LogitsError> {
        match self.logprobs {
            None => Ok(Vec::new()),
            Some(top) => decided.map(|(logits, &token)| Logprobs::new(logits, token, top)).collect(),
        }
    }

    /// Answers.
    pub(super) fn reply(&self, answer: Reply) {
        reply(&self.replies, &self.id, answer);
    }

    /// The last committed token, below which the next tree hangs; there is always one.
    pub(super) fn root_token(&self) -> Token {
        self.committed.last().copied().unwrap_or_default()
    }

    /// The position of the last committed token.
    fn root(&self) -> usize {
        self.committed.len().saturating_sub(1)
    }

    fn has_work(&self) -> bool {
        self.unread() > 0 || !self.submitted.is_empty()
    }
}
