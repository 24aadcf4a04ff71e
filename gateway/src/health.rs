//! How services are kept an eye on.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::peers::{Card, Peer};

/// How often a service that answers is asked whether it is there, and what it is.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before a service is asked again that does not answer, or that a sequence has lost: others wait for it.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Asks a peer again and again what it is, until it leaves.
pub(crate) async fn keep_asking<T: Card>(peer: Arc<Peer<T>>) {
    while !peer.has_left() {
        let answers = peer.refresh().await;
        let soonest = Instant::now() + jittered(RETRY_INTERVAL);
        if answers {
            // Its time being over is as good.
            let _ = timeout(jittered(REFRESH_INTERVAL), peer.until_lost()).await;
        }
        sleep_until(soonest).await;
    }
}

/// Between nine and eleven tenths of a pause, so that many who wait do not come all at once.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let thousandth = RandomState::new().build_hasher().finish() % 200;
    pause * (900 + thousandth as u32) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_varies_by_a_tenth() {
        let pauses: Vec<u128> = (0..200).map(|_| jittered(Duration::from_secs(1)).as_millis()).collect();
        assert!(pauses.iter().all(|pause| (900..1100).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
