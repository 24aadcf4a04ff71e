//! What the gateway tells of its work, and of the services behind it.

use std::time::Duration;

use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{
    DrafterCard, DrafterStatus, GatewayStatus, Process, ServiceState, Slots, SystemStatus, VerifierStatus, pb,
};
use espalier_service_kit::Bytes;
use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::admission::{Door, Occupancy};
use crate::counts::Counts;
use crate::directory::Directory;
use crate::error::GatewayError;
use crate::peers::{Peer, Standing, TargetInfo, within};

/// A service that does not tell its status within this time is shown without one.
const SURVEY_STATUS_MAX: Duration = Duration::from_millis(500);

/// Surveys of all services that may be under way at once.
const SURVEYS_MAX: usize = 8;

/// How many may ask for the status of all services at once.
#[derive(Debug)]
pub(crate) struct Surveys(Semaphore);

impl Default for Surveys {
    fn default() -> Self {
        Self(Semaphore::new(SURVEYS_MAX))
    }
}

impl Surveys {
    /// The status of the gateway with this door, and of all services.
    ///
    /// # Errors
    /// [`GatewayError::Surveys`] when too many ask at once.
    pub(crate) async fn survey(
        &self,
        counts: &Counts,
        door: &Door,
        directory: &Directory,
    ) -> Result<SystemStatus, GatewayError> {
        let _survey = self.0.try_acquire().map_err(|_| GatewayError::Surveys { limit: SURVEYS_MAX })?;
        let (verifiers, drafters) = (directory.all_verifiers(), directory.all_drafters());
        let verifiers = join_all(verifiers.iter().map(|peer| verifier(peer)));
        let drafters = join_all(drafters.iter().map(|peer| drafter(peer)));
        let (verifiers, drafters) = tokio::join!(verifiers, drafters);
        Ok(SystemStatus { gateway: own(counts, door), verifiers, drafters })
    }
}

fn own(counts: &Counts, door: &Door) -> GatewayStatus {
    let resident_bytes = Bytes::resident().map(|Bytes(bytes)| bytes as u64);
    let Occupancy { running, queued } = door.occupancy();
    GatewayStatus {
        process: Process { uptime: counts.started().elapsed(), resident_bytes },
        requests: Slots { open: running, max: door.running_max() },
        requests_queued: queued,
        ended: counts.ended(),
        rounds: counts.rounds(),
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
