//! What services tell of their work, and of their faults.

use std::time::Duration;

use espalier_proto::{DrafterStatus, Fault, Party, SystemStatus, VerifierStatus, pb};
use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::Status;

use crate::target::Target;
use crate::targets::wire::{MESSAGE, encoded, survives};

pub(crate) const VERIFIER: Target = Target {
    name: "verifier-status",
    about: "What a verifier tells of its work is refused, or is the same after it was sent on.",
    run: survives::<pb::VerifierStatusResponse, VerifierStatus>,
    seeds: || encoded([verifier()]),
    ..MESSAGE
};

pub(crate) const DRAFTER: Target = Target {
    name: "drafter-status",
    about: "What a drafter tells of its work is refused, or is the same after it was sent on.",
    run: survives::<pb::DrafterStatusResponse, DrafterStatus>,
    seeds: || encoded([drafter()]),
    ..MESSAGE
};

pub(crate) const SYSTEM: Target = Target {
    name: "system-status",
    about: "What a gateway tells of a system is refused, or is the same after it was sent on.",
    run: survives::<pb::SystemStatusResponse, SystemStatus>,
    seeds: || encoded([system()]),
    ..MESSAGE
};

pub(crate) const FAULT: Target = Target {
    name: "fault",
    about: "Whatever a call ends with, it is somebody's fault, and still that of the same after it was sent on.",
    run: |bytes| {
        let Some(status) = ending(bytes) else { return false };
        for fault in [Fault::from_status(Party::Verifier, &status), Fault::from_caller(Party::Client, &status)] {
            assert_eq!(Fault::from_status(Party::Gateway, &Status::from(fault.clone())), fault);
        }
        true
    },
    seeds: || {
        let trailers = ["grpc-status: 8", "grpc-message: no%20room", "espalier-party: drafter", "retry-after-ms: 250"];
        let sent = [trailers.join("\n"), "grpc-status: 14\ngrpc-message: gone".to_owned()];
        sent.map(String::into_bytes).into()
    },
    ..MESSAGE
};

/// What the trailers of a call say, a line each.
fn ending(trailers: &[u8]) -> Option<Status> {
    let mut map = HeaderMap::new();
    for line in trailers.split(|&byte| byte == b'\n') {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(line[..colon].trim_ascii()).ok()?;
        map.try_append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?).ok()?;
    }
    Status::from_header_map(&map)
}

fn process() -> Option<pb::Process> {
    let uptime_ms = Duration::from_secs(3).as_millis() as u64;
    Some(pb::Process { uptime_ms, resident_bytes: Some(1 << 30) })
}

fn slots() -> Option<pb::Slots> {
    Some(pb::Slots { open: 2, max: 8 })
}

fn passes() -> Option<pb::PassCounts> {
    Some(pb::PassCounts { passes: 5, rows: 90, sequences: 9, missed: 2 })
}

fn rounds() -> Option<pb::RoundCounts> {
    Some(pb::RoundCounts { rounds: 7, drafted: 40, verified: 30, accepted: 12, tokens: 19 })
}

fn kv() -> Option<pb::KvMemory> {
    Some(pb::KvMemory { blocks: 32, held: 4, promised: 6, lingering: 20, block_bytes: 1 << 20 })
}

fn verifier() -> pb::VerifierStatusResponse {
    pb::VerifierStatusResponse {
        process: process(),
        sequences: slots(),
        trees_waiting: 2,
        passes: passes(),
        rounds: rounds(),
        kv: kv(),
        arithmetic: "int8".to_owned(),
    }
}

fn drafter() -> pb::DrafterStatusResponse {
    let target = pb::TargetStatus { name: "medium".to_owned(), sequences_open: 1, rounds: rounds() };
    pb::DrafterStatusResponse {
        process: process(),
        sequences: slots(),
        trees_growing: 1,
        passes: passes(),
        rounds: rounds(),
        kv: kv(),
        targets: vec![target],
        arithmetic: String::new(),
    }
}

fn system() -> pb::SystemStatusResponse {
    let ended = pb::EndCounts { stop: 1, length: 2, failed: 3, abandoned: 4, refused: 5, invalid: 6 };
    let gateway = pb::GatewayStatus {
        process: process(),
        requests: slots(),
        requests_queued: 2,
        ended: Some(ended),
        rounds: rounds(),
    };
    let url = || "http://127.0.0.1:50052".to_owned();
    let name = "medium".to_owned();
    let up = pb::VerifierState { url: url(), name, up: true, status: Some(verifier()) };
    let down = pb::VerifierState { url: url(), name: String::new(), up: false, status: None };
    let name = "sorted".to_owned();
    let drafter = pb::DrafterState { url: url(), name, up: true, status: Some(drafter()) };
    pb::SystemStatusResponse { gateway: Some(gateway), verifiers: vec![up, down], drafters: vec![drafter] }
}
