//! What a system that is idle holds.

use std::time::Duration;

use espalier_local::{Occupancy, System};
use espalier_service_kit::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

/// A system has so long to come to rest.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// It has when nothing less was seen for so long; once a second the gateway asks all services how they are.
const STILL: Duration = Duration::from_millis(1500);

const LOOK: Duration = Duration::from_millis(20);

/// Tasks, memory and slots of a system, all services and clients together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level {
    /// Tasks of the runtime.
    pub(super) tasks: usize,
    /// Resident memory of the process; none where the system does not tell.
    pub(super) resident: Option<usize>,
    /// Requests that the gateway serves or keeps waiting.
    pub(super) requests: usize,
    /// Blocks of keys and values that sequences hold, or were promised.
    pub(super) blocks: usize,
}

impl Level {
    fn now(system: &System) -> Self {
        let Occupancy { running, queued } = system.occupancy();
        let blocks = |counts: espalier_model::BlockCounts| counts.held + counts.promised;
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            resident: resident(),
            requests: running + queued,
            blocks: system.memory().iter().map(|(_, pool)| blocks(pool.counts())).sum(),
        }
    }

    /// The level that a system comes to when nobody asks anything; it is given time until it is that of `before`.
    pub(super) async fn settled(system: &System, before: Option<&Self>) -> Self {
        let (begun, mut least_since) = (Instant::now(), Instant::now());
        let mut least = Self::now(system);
        while begun.elapsed() < SETTLE_MAX {
            let wanted = before.map_or(0, |before| before.tasks);
            let is_idle = least.requests == 0 && least.blocks == 0;
            if is_idle && (least.tasks <= wanted || (before.is_none() && least_since.elapsed() > STILL)) {
                break;
            }
            sleep(LOOK).await;
            let now = Self::now(system);
            if (now.requests, now.blocks, now.tasks) < (least.requests, least.blocks, least.tasks) {
                (least, least_since) = (now, Instant::now());
            }
        }
        least
    }
}

fn resident() -> Option<usize> {
    let told = std::fs::read_to_string("/proc/self/status").ok()?;
    Bytes::told(&told, "VmRSS:").map(|Bytes(bytes)| bytes)
}
