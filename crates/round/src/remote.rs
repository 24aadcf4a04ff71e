//! A verifier behind a connection.

use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{Fault, FaultKind, NumberedTree, Open, Outcome, Party, VerifierEvent, pb};
use espalier_speculation::CandidateTree;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Streaming};

use crate::ports::Verifier;

/// Messages that may wait on their way to the verifier before `submit` waits.
const UPSTREAM_MAX: usize = 8;

/// One sequence on a verifier elsewhere; dropping it frees it there.
#[derive(Debug)]
pub struct RemoteVerifier {
    up: mpsc::Sender<pb::VerifyRequest>,
    down: Streaming<pb::VerifyResponse>,
    reused_prefix: usize,
}

impl RemoteVerifier {
    /// Opens a sequence; `metadata` carries its deadline and trace.
    ///
    /// # Errors
    /// The verifier cannot be reached, refuses the sequence, or answers with
    /// anything but having opened it.
    pub async fn open(channel: Channel, open: Open, metadata: MetadataMap) -> Result<Self, Fault> {
        let (up, requests) = mpsc::channel(UPSTREAM_MAX);
        // The receiver is at hand, so this cannot fail.
        let _ = up.send(open.into()).await;
        let requests = ReceiverStream::new(requests);
        let request = Request::from_parts(metadata, Extensions::new(), requests);
        let answer = VerifierClient::new(channel).verify(request).await;
        let down = answer.map_err(|status| Fault::from_status(Party::Verifier, &status))?;
        let mut verifier = Self { up, down: down.into_inner(), reused_prefix: 0 };
        match verifier.next().await? {
            VerifierEvent::Opened { reused_prefix } => Ok(Self { reused_prefix, ..verifier }),
            VerifierEvent::Outcome(outcome) => {
                Err(unexpected(&format!("the outcome of round {} came before the sequence was open", outcome.round)))
            }
        }
    }

    /// How many committed tokens the verifier still had in its cache.
    pub fn reused_prefix(&self) -> usize {
        self.reused_prefix
    }

    async fn next(&mut self) -> Result<VerifierEvent, Fault> {
        match self.down.message().await {
            Ok(Some(message)) => VerifierEvent::try_from(message).map_err(|error| unexpected(&error.to_string())),
            Ok(None) => Err(Fault::new(Party::Verifier, FaultKind::Gone, "the verifier ended the stream too early")),
            Err(status) => Err(Fault::from_status(Party::Verifier, &status)),
        }
    }
}

fn unexpected(what: &str) -> Fault {
    Fault::new(Party::Verifier, FaultKind::Internal, what)
}

impl Verifier for RemoteVerifier {
    async fn submit(&mut self, round: u64, tree: &CandidateTree) -> Result<(), Fault> {
        // A stream that takes no more has ended; why, the next outcome tells.
        let _ = self.up.send(NumberedTree::write(round, tree)).await;
        Ok(())
    }

    async fn outcome(&mut self) -> Result<Outcome, Fault> {
        match self.next().await? {
            VerifierEvent::Outcome(outcome) => Ok(outcome),
            VerifierEvent::Opened { .. } => Err(unexpected("the sequence was opened twice")),
        }
    }
}
