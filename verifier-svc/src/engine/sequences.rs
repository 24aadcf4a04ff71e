//! All sequences that are open, oldest first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use espalier_model::{BlockPool, Decoder, KvCache, PoolFault, Row};
use espalier_proto::{HiddenStates, NumberedTree, Open, Outcome, RoundCounts, SequenceId, VerifierEvent};
use espalier_speculation::{
    AcceptError, Committed, FinishReason, LogitsError, Logprobs, PassLoad, Sampler, Token, commit,
};
use tokio::time::Instant;

use super::batch::Found;
use super::known_states::KnownStates;
use super::{Command, Decided, Job, Key, Loaded, Opening, Replies, Reply};
use crate::admission::Place;
use crate::error::VerifierError;
use crate::status::Counts;

/// The open sequences of one model.
pub(super) struct Sequences {
    decoder: Arc<Decoder>,
    blocks: BlockPool,
    tree_nodes_max: usize,
    pub(super) counts: Counts,
    states: KnownStates,
    open: BTreeMap<Key, Sequence>,
}

impl Sequences {
    pub(super) fn new(model: &Loaded) -> Self {
        let Loaded { decoder, blocks, tree_nodes_max, counts, .. } = model;
        Self {
            decoder: Arc::clone(decoder),
            blocks: blocks.clone(),
            tree_nodes_max: *tree_nodes_max,
            counts: counts.clone(),
            states: KnownStates::default(),
            open: BTreeMap::new(),
        }
    }

    /// Takes in a command; none of them computes anything.
    pub(super) fn take(&mut self, command: Command) {
        match command {
            Command::Open(key, opening) => self.open(key, *opening),
            Command::Close(key) => self.close(key),
            Command::Verify(key, job) => {
                // A sequence that has ended has said so; what was still on its way is moot.
                if let Some(sequence) = self.open.get_mut(&key) {
                    sequence.jobs.push_back(job);
                }
            }
        }
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
        self.open.iter_mut().map(|(key, sequence)| (*key, sequence))
    }

    /// Frees a sequence and all that it holds.
    pub(super) fn close(&mut self, key: Key) {
        self.open.remove(&key);
    }

    fn open(&mut self, key: Key, opening: Opening) {
        self.take_over(&opening.open.sequence);
        match self.admit(&opening.open) {
            Ok((cache, tapped)) => {
                let opened = VerifierEvent::Opened { reused_prefix: cache.committed() };
                let config = self.decoder.config();
                let sequence = Sequence::new(opening, (cache, tapped), &config.eos, config.context);
                sequence.reply(Ok(opened));
                self.open.insert(key, sequence);
            }
            Err(fault) => reply(&opening.replies, &opening.open.sequence, Err(fault.into())),
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
    fn admit(&self, open: &Open) -> Result<(KvCache, Option<Tapped>), PoolFault> {
        let Open { committed, max_tokens, tap, .. } = open;
        // The last tree hangs below the last but one of all tokens.
        let positions =
            committed.len().saturating_add(*max_tokens).saturating_add(self.tree_nodes_max).saturating_sub(1);
        // The root must be run: its logits decide what comes next.
        let known = committed.split_last().map_or(&[][..], |(_, known)| known);
        let Some(tap) = *tap else { return Ok((self.blocks.open(positions, known)?, None)) };
        let states = self.states.find(tap, known);
        let cache = self.blocks.open(positions, &known[..states.rows()])?;
        let unsent = states.front(cache.committed());
        Ok((cache, Some(Tapped { layer: tap.layer, unsent, keeps: Some(self.states.clone()) })))
    }
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
    tapped: Option<Tapped>,
    jobs: VecDeque<Job>,
    replies: Replies,
    /// Given back when the sequence ends, before that is told: who hears of the end may come again at once.
    place: Option<Place>,
}

/// Hidden states that were asked for.
struct Tapped {
    /// The layer, counted from 1, after which they are read.
    layer: usize,
    /// Those of committed positions that have not been sent.
    unsent: HiddenStates,
    /// Where those of the prompt are kept, until they are.
    keeps: Option<KnownStates>,
}

impl Sequence {
    fn new(opening: Opening, (cache, tapped): (KvCache, Option<Tapped>), end_tokens: &[Token], context: usize) -> Self {
        let Opening { open, replies, place } = opening;
        let (prompt, generated) = open.committed.split_at(open.committed.len().saturating_sub(open.generated));
        Self {
            id: open.sequence,
            cache,
            sampler: Sampler::new(open.sampling, prompt, generated),
            logprobs: open.logprobs,
            committed: open.committed,
            stops: [end_tokens, &open.stop_tokens].concat(),
            remaining: open.max_tokens,
            context,
            tapped,
            jobs: VecDeque::new(),
            replies,
            place: Some(place),
        }
    }

    pub(super) fn cache(&mut self) -> &mut KvCache {
        &mut self.cache
    }

    /// Whether nobody waits for its outcomes any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.replies.is_closed()
    }

    /// When the tree that is next arrived, if the sequence is ready for one.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        if self.unread() > 0 {
            return None;
        }
        self.jobs.front().map(|job| job.arrived)
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

    /// Takes the next tree, without the nodes for which the context has no
    /// room, and the token below which it hangs.
    pub(super) fn next_job(&mut self) -> Option<(Token, Job)> {
        let root = *self.committed.last()?;
        let mut job = self.jobs.pop_front()?;
        let room = self.context.saturating_sub(self.committed.len());
        job.numbered.tree.truncate(room);
        Some((root, job))
    }

    /// The layer, counted from 1, whose hidden states are wanted.
    pub(super) fn tapped_layer(&self) -> Option<usize> {
        self.tapped.as_ref().map(|tapped| tapped.layer)
    }

    /// Takes note of committed rows, if their hidden states are wanted.
    pub(super) fn keep_states(&mut self, rows: &[usize], found: &Found<'_>) {
        let root = self.root();
        let Some(Tapped { layer, unsent, keeps }) = &mut self.tapped else { return };
        rows.iter().filter_map(|&row| found.state(row)).for_each(|state| unsent.push(state));
        if unsent.end() >= root
            && let Some(known) = keeps.take()
        {
            known.keep(*layer, &self.committed[..root], unsent);
        }
    }

    /// The hidden states that have not been sent; none if they are not wanted.
    fn unsent_states(&mut self) -> Option<HiddenStates> {
        let unsent = &mut self.tapped.as_mut()?.unsent;
        Some(unsent.split_front(unsent.rows()))
    }

    /// What is to be answered to a tree whose rows have been run, after those of `read` committed tokens: commits what
    /// the target agrees with, and one token of its own.
    pub(super) fn decide(
        &mut self,
        numbered: &NumberedTree,
        read: usize,
        found: &Found<'_>,
    ) -> Result<Decision, VerifierError> {
        let walk = numbered.tree.accept(&mut self.sampler, |node| found.logits(node))?;
        let Committed { tokens, accepted, finish } = commit(numbered.tree.tree(), &walk, &self.stops, self.remaining);
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
            self.place = None;
        }
        let path = walk.path[..accepted].to_vec();
        Ok(Decision { path, tokens, logprobs, finish })
    }

    /// Answers a job, or has it run again if it asks for further tokens; `true` if the sequence ended.
    pub(super) fn settle(&mut self, mut job: Job, decision: Decision, load: PassLoad) -> bool {
        let Decision { path, tokens, logprobs, finish } = decision;
        job.decided.tokens.extend(tokens);
        job.decided.logprobs.extend(logprobs);
        if finish.is_none() && job.numbered.further > 0 {
            job.numbered.further -= 1;
            job.arrived = Instant::now();
            self.jobs.push_front(job);
            return false;
        }
        let Job { numbered: NumberedTree { round, states_later, .. }, waiting, decided, .. } = job;
        drop(waiting);
        let Decided { tokens, logprobs, compute, queue } = decided;
        let states = if states_later { None } else { self.unsent_states() };
        let outcome = Outcome { round, path, tokens, logprobs, finish, compute, queue, load, states };
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

    /// The position of the last committed token; there is always one.
    fn root(&self) -> usize {
        self.committed.len().saturating_sub(1)
    }

    fn has_work(&self) -> bool {
        self.unread() > 0 || !self.jobs.is_empty()
    }
}

/// What the target made of a tree.
pub(super) struct Decision {
    path: Vec<usize>,
    tokens: Vec<Token>,
    logprobs: Vec<Logprobs>,
    finish: Option<FinishReason>,
}

impl Decision {
    /// What it adds to the counts; so many nodes were verified.
    pub(super) fn counts(&self, verified: usize) -> RoundCounts {
        let [verified, accepted, tokens] = [verified, self.path.len(), self.tokens.len()].map(|count| count as u64);
        RoundCounts { rounds: 1, drafted: 0, verified, accepted, tokens }
    }
}
