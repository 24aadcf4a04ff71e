//! A system to show.

use std::time::Duration;

use espalier_proto::{
    DrafterStatus, EndCounts, GatewayStatus, KvMemory, PassCounts, Process, RoundCounts, ServiceState, Slots,
    SystemStatus, TargetStatus, VerifierStatus,
};

/// What so many rounds come to.
pub(super) fn counted(rounds: u64) -> RoundCounts {
    RoundCounts { rounds, drafted: 5 * rounds, verified: 4 * rounds, accepted: 2 * rounds, tokens: 3 * rounds }
}

/// A gateway, a target and a drafter that have been up for so long and have run so many rounds.
pub(super) fn system(uptime_ms: u64, rounds: u64) -> SystemStatus {
    let process = Process { uptime: Duration::from_millis(uptime_ms), resident_bytes: Some(3 << 29) };
    let sequences = Slots { open: 3, max: 8 };
    let passes = PassCounts { passes: rounds, rows: 12 * rounds, sequences: 2 * rounds, missed: 0 };
    let kv = KvMemory { blocks: 32, held: 8, promised: 4, lingering: 16, block_bytes: 1 << 20 };
    let targets = vec![TargetStatus { name: "medium".to_owned(), sequences_open: 3, rounds: counted(rounds) }];
    let rounds = counted(rounds);
    let gateway = GatewayStatus {
        process,
        requests: Slots { open: 3, max: 64 },
        requests_queued: 1,
        ended: EndCounts { stop: 20, ..EndCounts::default() },
        rounds,
    };
    let arithmetic = "f32".to_owned();
    let verifier = VerifierStatus { process, sequences, trees_waiting: 2, passes, rounds, kv, arithmetic };
    let arithmetic = "int8".to_owned();
    let drafter = DrafterStatus { process, sequences, trees_growing: 2, passes, rounds, kv, targets, arithmetic };
    SystemStatus {
        gateway,
        verifiers: vec![state("http://127.0.0.1:50071", "medium", verifier)],
        drafters: vec![state("http://127.0.0.1:50061", "sorted", drafter)],
    }
}

fn state<S>(url: &str, name: &str, status: S) -> ServiceState<S> {
    ServiceState { url: url.to_owned(), name: Some(name.to_owned()), up: true, status: Some(status) }
}
