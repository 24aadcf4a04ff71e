//! What the gateway counts, as metrics.

use std::sync::Arc;

use espalier_metrics::catalogue::{QUEUE_TIME, REQUESTS_LIMIT, REQUESTS_QUEUED, REQUESTS_RUNNING, SERVICE_UP};
use espalier_metrics::{Snapshot, Source};
use espalier_service_kit::Role;

use super::Counts;
use crate::admission::{Door, Occupancy};
use crate::directory::Directory;
use crate::peers::Standing;

/// All that a gateway measures.
pub(crate) struct GatewaySource {
    pub(crate) counts: Arc<Counts>,
    pub(crate) door: Arc<Door>,
    pub(crate) directory: Arc<Directory>,
}

impl Source for GatewaySource {
    fn tell(&self, to: &mut Snapshot) {
        let Occupancy { running, queued } = self.door.occupancy();
        to.tell(&REQUESTS_RUNNING, &[], running);
        to.tell(&REQUESTS_QUEUED, &[], queued);
        to.tell(&REQUESTS_LIMIT, &[], self.door.running_max());
        let Counts { outcomes, failovers, latencies, queue_time, speculation, .. } = &*self.counts;
        to.tell(&QUEUE_TIME, &[], queue_time);
        outcomes.tell(to);
        failovers.tell(to);
        latencies.tell(to);
        speculation.tell(to);
        for peer in self.directory.all_verifiers() {
            let name = peer.card().map(|info| info.card.name.clone()).unwrap_or_default();
            tell_service(Role::Verifier, &name, peer.url(), peer.standing(), to);
        }
        for peer in self.directory.all_drafters() {
            let name = peer.card().map(|card| card.name.clone()).unwrap_or_default();
            tell_service(Role::Drafter, &name, peer.url(), peer.standing(), to);
        }
    }
}

fn tell_service(role: Role, name: &str, url: &str, standing: Standing, to: &mut Snapshot) {
    to.tell(&SERVICE_UP, &[role.name(), name, url], standing == Standing::Up);
}
