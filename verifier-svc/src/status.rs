//! What the verifier tells of its work.

use espalier_model::BlockPool;
use espalier_proto::{KvMemory, Process, VerifierStatus};
use espalier_service_kit::Bytes;
use tokio::time::Instant;

use crate::engine::Engine;

/// The status of a target that computes in `arithmetic` and whose service began at `started`.
pub(crate) fn status(started: Instant, arithmetic: &str, engine: &Engine, blocks: &BlockPool) -> VerifierStatus {
    let resident_bytes = Bytes::resident().map(|Bytes(bytes)| bytes as u64);
    let counts = engine.counts();
    VerifierStatus {
        process: Process { uptime: started.elapsed(), resident_bytes },
        sequences: engine.slots(),
        trees_waiting: counts.waiting.read(),
        passes: counts.passes.read(),
        rounds: counts.rounds.read(),
        kv: kv(blocks),
        arithmetic: arithmetic.to_owned(),
    }
}

fn kv(pool: &BlockPool) -> KvMemory {
    let counts = pool.counts();
    let [blocks, held, promised, lingering] =
        [counts.total, counts.held, counts.promised, counts.lingering].map(|count| count as u64);
    KvMemory { blocks, held, promised, lingering, block_bytes: pool.block_bytes() as u64 }
}
