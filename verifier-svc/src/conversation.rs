//! One `Verify` stream: what comes up is handed in, what comes back is passed down.

use std::time::Duration;

use espalier_proto::{Open, Submission, VerifierCard, VerifierEvent, pb};
use espalier_speculation::{Acceptance, Restriction, TreeBounds};
use futures::{Stream, TryStreamExt, stream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic::{Status, Streaming};

use crate::engine::{REPLIES_MAX, ROUNDS_UNDER_WAY_MAX, Reply, SequenceHandle};
use crate::error::VerifierError;
use crate::target::Target;

/// A stream must say what it is about within this time.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// Answers that may be owed at once: the opening and each round under way.
const OWED_MAX: usize = 1 + ROUNDS_UNDER_WAY_MAX;

/// A sequence that has asked for nothing for so long loses its slot.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// A sequence and its stream. Whoever drops it drops the sequence.
pub(crate) struct Conversation {
    up: Streaming<pb::VerifyRequest>,
    /// Nothing will come up any more.
    heard_all: bool,
    sequence: SequenceHandle,
    replies: mpsc::Receiver<Reply>,
    /// Answers that are still to come.
    owed: usize,
    bounds: TreeBounds,
    acceptance: Acceptance,
}

impl Conversation {
    /// Reads the first message and opens the sequence that it names.
    pub(crate) async fn open(target: &Target, mut up: Streaming<pb::VerifyRequest>) -> Result<Self, Status> {
        let first = timeout(OPENING_MAX, up.message()).await;
        let first = first.map_err(|_| VerifierError::NothingOpened)??;
        let first = first.ok_or(VerifierError::NothingOpened)?;
        let open = Open::read(first, &target.card).map_err(VerifierError::from)?;
        let acceptance = open.sequence.sampling.acceptance();
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        let slot = target.engine.admit(&open.sequence.id)?;
        let restriction = restriction(target, &open).await?;
        let sequence = target.engine.open(open, slot, restriction, sender)?;
        let bounds = tree_bounds(&target.card);
        Ok(Self { up, heard_all: false, sequence, replies, owed: 1, bounds, acceptance })
    }

    /// What goes down, until the sequence ends, fails, or has nothing more to say.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<pb::VerifyResponse, Status>> + Send {
        stream::unfold(Some(self), |conversation| async {
            let mut conversation = conversation?;
            let next = conversation.next().await.transpose()?;
            let ends = next.as_ref().map_or(true, ends);
            let messages = next.map(|event| stream::iter(event.in_pieces().map(|piece| Ok(piece.into()))));
            Some((messages, Some(conversation).filter(|_| !ends)))
        })
        .try_flatten()
    }

    /// The next answer; none when there is no more to come.
    async fn next(&mut self) -> Result<Option<VerifierEvent>, Status> {
        while self.owed > 0 || !self.heard_all {
            let may_ask = !self.heard_all && self.owed < OWED_MAX;
            tokio::select! {
                biased;
                reply = self.replies.recv() => {
                    self.owed = self.owed.saturating_sub(1);
                    return Ok(Some(reply.ok_or(VerifierError::Stopped)??));
                }
                message = self.up.message(), if may_ask => self.hand_in(message?)?,
                () = sleep(IDLE_MAX), if self.owed == 0 => return Err(VerifierError::Idle { limit: IDLE_MAX }.into()),
            }
        }
        Ok(None)
    }

    fn hand_in(&mut self, message: Option<pb::VerifyRequest>) -> Result<(), VerifierError> {
        let Some(message) = message else {
            self.heard_all = true;
            return Ok(());
        };
        let submission = Submission::read(message, &self.bounds, self.acceptance)?;
        self.owed += submission.rounds();
        if self.owed > OWED_MAX {
            return Err(VerifierError::UnderWay { limit: ROUNDS_UNDER_WAY_MAX });
        }
        self.sequence.submit(submission, || !self.replies.is_empty())
    }
}

/// What the text of a sequence is held to, if it is.
async fn restriction(target: &Target, open: &Open) -> Result<Option<Box<dyn Restriction>>, VerifierError> {
    let sequence = &open.sequence;
    let Some(constraint) = sequence.constraint.clone() else { return Ok(None) };
    let ends = [&target.card.end_tokens[..], &sequence.stop_tokens].concat();
    let (constraints, generated) = (target.constraints.clone(), sequence.generated_tokens().to_vec());
    let follow = move || constraints.compile(&constraint)?.follow(&generated, &ends);
    let follower = target.workplace.compute(follow).await.ok_or(VerifierError::Stopped)??;
    Ok(Some(Box::new(follower)))
}

/// The largest tree that a target takes.
fn tree_bounds(card: &VerifierCard) -> TreeBounds {
    TreeBounds { vocab: card.vocabulary.size, max_nodes: card.tree_nodes_max, max_depth: card.tree_nodes_max }
}

fn ends(event: &VerifierEvent) -> bool {
    matches!(event, VerifierEvent::Outcome(outcome) if outcome.finish.is_some())
}
