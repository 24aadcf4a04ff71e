//! How services are kept an eye on.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::peers::{Card, Peer};

/// How often a service that answers is asked whether it is there, and what it is.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause between two tries of a service that does not answer.
const REFRESH_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Asks a peer again and again what it is, until it leaves.
pub(crate) async fn keep_asking<T: Card>(peer: Arc<Peer<T>>) {
    let mut failures = 0;
    while !peer.has_left() {
        failures = if peer.refresh().await { 0 } else { failures + 1 };
        sleep(jittered(pause(failures))).await;
    }
}

/// How long to leave a peer alone that failed to answer so many times in a row.
fn pause(failures: u32) -> Duration {
    let doubled = REFRESH_INTERVAL.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(REFRESH_INTERVAL_MAX)
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
    fn who_does_not_answer_is_asked_less_and_less_often_but_never_forgotten() {
        let pauses: Vec<u64> = [0, 1, 2, 3, 4, 100].map(|failures| pause(failures).as_secs()).to_vec();
        assert_eq!(pauses, [1, 1, 2, 4, 5, 5]);
    }

    #[test]
    fn a_pause_varies_by_a_tenth() {
        let pauses: Vec<u128> = (0..200).map(|_| jittered(Duration::from_secs(1)).as_millis()).collect();
        assert!(pauses.iter().all(|pause| (900..1100).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
