//! What the gateway tells of its work, and of the services behind it.

use std::sync::Arc;
use std::time::Duration;

use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{
    DrafterCard, DrafterStatus, EndCounts, Fault, FaultKind, GatewayStatus, GenerationEvent, Process, RoundCounters,
    RoundCounts, RoundReport, ServiceState, Slots, SystemStatus, VerifierStatus, pb,
};
use espalier_service_kit::Bytes;
use espalier_speculation::FinishReason;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio::time::timeout;

use crate::admission::{Door, Occupancy};
use crate::directory::Directory;
use crate::error::GatewayError;
use crate::peers::{Peer, Standing, TargetInfo, within};

/// A service that does not tell its status within this time is shown without one.
const SURVEY_STATUS_MAX: Duration = Duration::from_millis(500);

/// Surveys of all services that may be under way at once.
const SURVEYS_MAX: usize = 8;

/// What the gateway counts.
#[derive(Debug)]
pub(crate) struct Counts {
    started: Instant,
    rounds: RoundCounters,
    ended: Mutex<EndCounts>,
    surveys: Semaphore,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            rounds: RoundCounters::default(),
            ended: Mutex::default(),
            surveys: Semaphore::new(SURVEYS_MAX),
        }
    }
}

impl Counts {
    /// A request that came in.
    pub(crate) fn request(self: &Arc<Self>) -> Counted {
        Counted { counts: Arc::clone(self), has_ended: false }
    }

    /// The status of the gateway with this door, and of all services.
    ///
    /// # Errors
    /// [`GatewayError::Surveys`] when too many ask at once.
    pub(crate) async fn survey(&self, door: &Door, directory: &Directory) -> Result<SystemStatus, GatewayError> {
        let _survey = self.surveys.try_acquire().map_err(|_| GatewayError::Surveys { limit: SURVEYS_MAX })?;
        let (verifiers, drafters) = (directory.all_verifiers(), directory.all_drafters());
        let verifiers = join_all(verifiers.iter().map(|peer| verifier(peer)));
        let drafters = join_all(drafters.iter().map(|peer| drafter(peer)));
        let (verifiers, drafters) = tokio::join!(verifiers, drafters);
        Ok(SystemStatus { gateway: self.own(door), verifiers, drafters })
    }

    fn own(&self, door: &Door) -> GatewayStatus {
        let resident_bytes = Bytes::resident().map(|Bytes(bytes)| bytes as u64);
        let Occupancy { running, queued } = door.occupancy();
        GatewayStatus {
            process: Process { uptime: self.started.elapsed(), resident_bytes },
            requests: Slots { open: running, max: door.running_max() },
            requests_queued: queued,
            ended: *self.ended.lock(),
            rounds: self.rounds.read(),
        }
    }
}

/// Counts the rounds of a request, and how it ends.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Arc<Counts>,
    has_ended: bool,
}

impl Counted {
    /// It was not let in.
    pub(crate) fn turned_away(&mut self, why: &GatewayError) {
        self.end(match why {
            GatewayError::Refused(_) | GatewayError::Key(_) | GatewayError::Surveys { .. } => {
                |ended| &mut ended.refused
            }
            GatewayError::Request(_) => |ended| &mut ended.invalid,
            GatewayError::Fault(_) => |ended| &mut ended.failed,
        });
    }

    /// A round was committed.
    pub(crate) fn round(&self, report: &RoundReport) {
        let cost = &report.cost;
        let [drafted, verified, accepted, tokens] =
            [cost.drafted, cost.verified, report.accepted, report.tokens.len()].map(|count| count as u64);
        self.counts.rounds.add(&RoundCounts { rounds: 1, drafted, verified, accepted, tokens });
    }

    /// The client is about to be told this.
    pub(crate) fn tells(&mut self, event: &Result<GenerationEvent, Fault>) {
        let end: fn(&mut EndCounts) -> &mut u64 = match event {
            Ok(GenerationEvent::Begun(_) | GenerationEvent::Tokens(_)) => return,
            Ok(GenerationEvent::Finished(completion)) if completion.reason == FinishReason::Stop => |e| &mut e.stop,
            Ok(GenerationEvent::Finished(_)) => |ended| &mut ended.length,
            Err(fault) if fault.kind == FaultKind::Cancelled => |ended| &mut ended.abandoned,
            Err(_) => |ended| &mut ended.failed,
        };
        self.end(end);
    }

    fn end(&mut self, end: fn(&mut EndCounts) -> &mut u64) {
        if !std::mem::replace(&mut self.has_ended, true) {
            *end(&mut self.counts.ended.lock()) += 1;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end(|ended| &mut ended.abandoned);
    }
}

async fn verifier(peer: &Peer<TargetInfo>) -> ServiceState<VerifierStatus> {
    let mut client = VerifierClient::new(peer.channel());
    let answer =
        timeout(SURVEY_STATUS_MAX, client.status(within(SURVEY_STATUS_MAX, pb::VerifierStatusRequest {}))).await;
    ServiceState {
        url: peer.url().to_owned(),
        name: peer.card().map(|info| info.card.name.clone()),
        up: peer.standing() == Standing::Up,
        // Why there is none, the watch over services finds out and tells.
        status: answer.ok().and_then(Result::ok).and_then(|answer| answer.into_inner().try_into().ok()),
    }
}

async fn drafter(peer: &Peer<DrafterCard>) -> ServiceState<DrafterStatus> {
    let mut client = DrafterClient::new(peer.channel());
    let answer =
        timeout(SURVEY_STATUS_MAX, client.status(within(SURVEY_STATUS_MAX, pb::DrafterStatusRequest {}))).await;
    ServiceState {
        url: peer.url().to_owned(),
        name: peer.card().map(|card| card.name.clone()),
        up: peer.standing() == Standing::Up,
        // Why there is none, the watch over services finds out and tells.
        status: answer.ok().and_then(Result::ok).and_then(|answer| answer.into_inner().try_into().ok()),
    }
}
