//! How services are kept an eye on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::peers::{Card, Peer};
use crate::surroundings::Surroundings;

/// How often a service that answers is asked whether it is there, and what it is.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before a service that does not answer is asked again: requests may be waiting for it.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Asks a peer again and again what it is, until it leaves.
pub(crate) async fn keep_asking<T: Card>(peer: Arc<Peer<T>>, surroundings: Surroundings) {
    while !peer.has_left() {
        let pause = if peer.refresh(surroundings.workplace).await { REFRESH_INTERVAL } else { RETRY_INTERVAL };
        sleep(surroundings.chance.jittered(pause)).await;
    }
}
