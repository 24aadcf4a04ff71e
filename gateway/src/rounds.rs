//! The rounds of one sequence, whoever runs them.

use std::time::Duration;

use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::{DrafterEvent, Fault, FaultKind, Grant, Open, Party, RoundReport, Start, pb};
use espalier_round::{Driver, EVENTS_MAX, Event, Grants, Proposer, RemoteVerifier, Sequence};
use espalier_service_kit::current_trace;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Streaming};
use tracing::Instrument;

use crate::window::{self, Window};

/// Messages that may wait on their way to a drafter: a start, and the grants of one window, if need be one by one.
const TO_DRAFTER_MAX: usize = 1 + window::MAX;

/// A sequence at work. Rounds are granted only as fast as they are read, so a
/// slow client stops them; dropping it frees the sequence everywhere.
#[derive(Debug)]
pub(crate) struct Rounds {
    source: Source,
    window: Window,
    /// How the last round was read.
    last: Option<Reading>,
}

/// When a round was read, and how long the reader had waited for it.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    wait: Duration,
}

#[derive(Debug)]
enum Source {
    Drafter { up: mpsc::Sender<pb::SpeculateRequest>, down: Box<Streaming<pb::SpeculateResponse>> },
    Own { grants: Grants, events: mpsc::Receiver<Event> },
}

impl Rounds {
    /// Has a drafter run the sequence.
    pub(crate) async fn by_drafter(channel: Channel, start: Start, metadata: MetadataMap) -> Result<Self, Fault> {
        let (up, requests) = mpsc::channel(TO_DRAFTER_MAX);
        let (window, granted) = Window::new();
        let first = [start.into(), Grant::new(granted).map_err(internal)?.into()];
        for message in first {
            // There is room for both, and the receiver is at hand.
            let _ = up.send(message).await;
        }
        let request = Request::from_parts(metadata, Extensions::new(), ReceiverStream::new(requests));
        let answer = DrafterClient::new(channel).speculate(request).await;
        let down = answer.map_err(|status| Fault::from_status(Party::Drafter, &status))?.into_inner();
        Ok(Self { source: Source::Drafter { up, down: Box::new(down) }, window, last: None })
    }

    /// Runs the sequence from here, with a proposer that needs no model.
    pub(crate) async fn from_here<P: Proposer + 'static>(
        channel: Channel,
        open: Open,
        proposer: P,
        metadata: MetadataMap,
        trees: bool,
    ) -> Result<Self, Fault> {
        let sequence = Sequence::new(open.sequence.committed.clone(), open.sequence.max_tokens);
        let verifier = RemoteVerifier::open(channel, open, metadata).await?;
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (window, granted) = Window::new();
        let grants = Grants::new();
        grants.add(Grant::new(granted).map_err(internal)?)?;
        let driver = Driver::new(sequence, proposer, verifier).traced(current_trace().is_some()).telling_trees(trees);
        tokio::spawn(driver.run(grants.clone(), sender).in_current_span());
        Ok(Self { source: Source::Own { grants, events }, window, last: None })
    }

    /// The next round. The end of the sequence is not waited for: it shows in
    /// the tokens, and an end that does not is a fault.
    pub(crate) async fn next(&mut self) -> Result<RoundReport, Fault> {
        let asked = Instant::now();
        self.top_up(asked)?;
        let event = match &mut self.source {
            Source::Drafter { down, .. } => next_from_drafter(down).await?,
            Source::Own { events, .. } => events.recv().await.ok_or_else(|| gone(Party::Gateway))??,
        };
        match event {
            DrafterEvent::Round(report) => {
                let at = Instant::now();
                self.last = Some(Reading { at, wait: at.duration_since(asked) });
                Ok(report)
            }
            DrafterEvent::Finished(_) => Err(gone(self.party())),
        }
    }

    /// Grants what the reading of rounds has made room for. A round counts as read when the next one is asked for.
    fn top_up(&mut self, asked: Instant) -> Result<(), Fault> {
        if let Some(Reading { at, wait }) = self.last.take() {
            self.window.read(wait, asked.duration_since(at));
        }
        let Some(room) = self.window.top_up() else { return Ok(()) };
        let grant = Grant::new(room).map_err(internal)?;
        match &self.source {
            // A drafter that takes no more has ended; why, its next message tells.
            Source::Drafter { up, .. } => drop(up.try_send(grant.into())),
            Source::Own { grants, .. } => grants.add(grant)?,
        }
        Ok(())
    }

    fn party(&self) -> Party {
        match self.source {
            Source::Drafter { .. } => Party::Drafter,
            Source::Own { .. } => Party::Gateway,
        }
    }
}

async fn next_from_drafter(down: &mut Streaming<pb::SpeculateResponse>) -> Result<DrafterEvent, Fault> {
    match down.message().await {
        Ok(Some(message)) => {
            DrafterEvent::try_from(message).map_err(|error| Fault::new(Party::Drafter, FaultKind::Internal, error))
        }
        Ok(None) => Err(gone(Party::Drafter)),
        Err(status) => Err(Fault::from_status(Party::Drafter, &status)),
    }
}

fn gone(party: Party) -> Fault {
    Fault::new(party, FaultKind::Gone, format_args!("the {party} ended the rounds before the text was over"))
}

fn internal(error: espalier_proto::WireError) -> Fault {
    Fault::new(Party::Gateway, FaultKind::Internal, error)
}
