//! One `Verify` stream: what comes up is handed in, what comes back is passed down.

use espalier_proto::{NumberedTree, Open, SequenceBounds, VerifierEvent, pb};
use espalier_speculation::TreeBounds;
use futures::Stream;
use futures::stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::engine::{Engine, REPLIES_MAX, Reply, Session, TREES_UNDER_WAY_MAX};
use crate::error::VerifierError;

/// A sequence and its stream. Whoever drops it drops the sequence.
pub(crate) struct Conversation {
    up: Option<Streaming<pb::VerifyRequest>>,
    session: Session,
    replies: mpsc::Receiver<Reply>,
    bounds: TreeBounds,
    /// Answers that are still to come.
    owed: usize,
}

impl Conversation {
    /// Reads the first message and opens the sequence that it names.
    pub(crate) async fn open(
        engine: &Engine,
        mut up: Streaming<pb::VerifyRequest>,
        bounds: (SequenceBounds, TreeBounds),
    ) -> Result<Self, Status> {
        let first = up.message().await?.ok_or(VerifierError::NothingOpened)?;
        let open = Open::read(first, &bounds.0).map_err(VerifierError::from)?;
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        let session = engine.open(open, sender)?;
        Ok(Self { up: Some(up), session, replies, bounds: bounds.1, owed: 1 })
    }

    /// What goes down, until the sequence ends, fails, or has nothing more to say.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<pb::VerifyResponse, Status>> + Send {
        stream::unfold(Some(self), |conversation| async {
            let mut conversation = conversation?;
            let next = conversation.next().await.transpose()?;
            let ends = next.as_ref().map_or(true, ends);
            Some((next.map(Into::into), Some(conversation).filter(|_| !ends)))
        })
    }

    /// The next answer; none when there is no more to come.
    async fn next(&mut self) -> Result<Option<VerifierEvent>, Status> {
        loop {
            if self.owed == 0 && self.up.is_none() {
                return Ok(None);
            }
            tokio::select! {
                biased;
                reply = self.replies.recv() => {
                    self.owed = self.owed.saturating_sub(1);
                    return Ok(Some(reply.ok_or(VerifierError::Stopped)??));
                }
                message = next_message(&mut self.up), if self.owed < TREES_UNDER_WAY_MAX => {
                    self.hand_in(message?)?;
                }
            }
        }
    }

    fn hand_in(&mut self, message: Option<pb::VerifyRequest>) -> Result<(), VerifierError> {
        let Some(message) = message else {
            self.up = None;
            return Ok(());
        };
        let numbered = NumberedTree::read(message, &self.bounds)?;
        self.session.submit(numbered)?;
        self.owed += 1;
        Ok(())
    }
}

/// The next message, or the end of the messages once; never anything after it.
async fn next_message(up: &mut Option<Streaming<pb::VerifyRequest>>) -> Result<Option<pb::VerifyRequest>, Status> {
    match up {
        Some(up) => up.message().await,
        None => std::future::pending().await,
    }
}

fn ends(event: &VerifierEvent) -> bool {
    matches!(event, VerifierEvent::Outcome(outcome) if outcome.finish.is_some())
}
