//! A verifier behind a connection.

use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{Credit, Fault, FaultKind, Open, Outcome, Party, Submission, VerifierEvent, pb};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Streaming};

use crate::ports::Verifier;
use crate::states::States;

/// Messages that may wait on their way to the verifier before `submit` waits.
const TO_VERIFIER_MAX: usize = 8;

/// One sequence on a verifier elsewhere; dropping it frees it there.
#[derive(Debug)]
pub struct RemoteVerifier {
    up: mpsc::Sender<pb::VerifyRequest>,
    down: Streaming<pb::VerifyResponse>,
    /// How many committed tokens it still had in its cache, once it has said so.
    reused_prefix: Option<usize>,
    /// What is known of hidden states, if any were asked for.
    states: Option<States>,
}

impl RemoteVerifier {
    /// Opens a sequence; `metadata` carries its deadline and trace.
    ///
    /// The verifier has a slot for it then, but need not have taken it in: that is not waited for, so that the first tree
    /// arrives in time for the pass that reads the prompt.
    ///
    /// # Errors
    /// The verifier cannot be reached, or refuses the sequence.
    pub async fn open(channel: Channel, open: Open, metadata: MetadataMap) -> Result<Self, Fault> {
        let (up, requests) = mpsc::channel(TO_VERIFIER_MAX);
        let states = States::of(&open);
        // The receiver is at hand, so this cannot fail.
        let _ = up.send(open.into()).await;
        let requests = ReceiverStream::new(requests);
        let request = Request::from_parts(metadata, Extensions::new(), requests);
        let answer = VerifierClient::new(channel).verify(request).await;
        let down = answer.map_err(|status| Fault::from_status(Party::Verifier, &status))?;
        Ok(Self { up, down: down.into_inner(), reused_prefix: None, states })
    }

    /// How many committed tokens the verifier still had in its cache, as it says when it takes the sequence in.
    ///
    /// # Errors
    /// The verifier cannot be reached, has no room for the sequence, or answers with anything but having opened it.
    pub async fn reused_prefix(&mut self) -> Result<usize, Fault> {
        if let Some(known) = self.reused_prefix {
            return Ok(known);
        }
        match self.next().await? {
            VerifierEvent::Opened { reused_prefix } => Ok(*self.reused_prefix.insert(reused_prefix)),
            VerifierEvent::Outcome(_) => Err(unexpected("an outcome came before the sequence was open")),
            VerifierEvent::States(_) => Err(unexpected("hidden states came before the sequence was open")),
        }
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
    async fn submit(&mut self, submission: Submission) -> Result<(), Fault> {
        if let Some(states) = &mut self.states {
            let later = matches!(submission, Submission::Credit(Credit { states_later: true, .. }));
            (0..submission.rounds()).for_each(|_| states.expect(later));
        }
        // A stream that takes no more has ended; why, the next outcome tells.
        let _ = self.up.send((&submission).into()).await;
        Ok(())
    }

    async fn outcome(&mut self) -> Result<Outcome, Fault> {
        self.reused_prefix().await?;
        loop {
            let taken = match (self.next().await?, &mut self.states) {
                (VerifierEvent::Opened { .. }, _) => Err("the sequence was opened twice".to_owned()),
                (VerifierEvent::States(ahead), Some(states)) => states.take(ahead).map(|()| None),
                (VerifierEvent::States(_), None) => Err(UNASKED.to_owned()),
                (VerifierEvent::Outcome(outcome), Some(states)) => states.complete(outcome).map(Some),
                (VerifierEvent::Outcome(outcome), None) if outcome.states.is_some() => Err(UNASKED.to_owned()),
                (VerifierEvent::Outcome(outcome), None) => Ok(Some(outcome)),
            };
            if let Some(outcome) = taken.map_err(|what| unexpected(&what))? {
                return Ok(outcome);
            }
        }
    }
}

/// What is said of states that nobody wants.
const UNASKED: &str = "hidden states came that were not asked for";
