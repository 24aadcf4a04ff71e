//! How services are kept an eye on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::peers::{Card, Peer};
use crate::surroundings::Surroundings;

/// How often a service that answers is asked whether it is there, and what it is.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before a service is asked again that does not answer, or that a sequence has lost: others wait for it.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Asks a peer again and again what it is, until it leaves.
pub(crate) async fn keep_asking<T: Card>(peer: Arc<Peer<T>>, surroundings: Surroundings) {
    while !peer.has_left() {
        let answers = peer.refresh(surroundings.workplace).await;
        let soonest = Instant::now() + surroundings.chance.jittered(RETRY_INTERVAL);
        if answers {
            // Its time being over is as good.
            let _ = timeout(surroundings.chance.jittered(REFRESH_INTERVAL), peer.until_lost()).await;
        }
        sleep_until(soonest).await;
    }
}
