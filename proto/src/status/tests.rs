#![allow(clippy::unwrap_used)]

use super::*;

const ROUNDS: RoundCounts = RoundCounts { rounds: 7, drafted: 40, verified: 30, accepted: 12, tokens: 19 };
const PASSES: PassCounts = PassCounts { passes: 5, rows: 90, sequences: 9, missed: 2 };
const KV: KvMemory = KvMemory { blocks: 32, held: 4, promised: 6, lingering: 20, block_bytes: 1 << 20 };
const PROCESS: Process = Process { uptime: Duration::from_millis(1234), resident_bytes: Some(1 << 30) };

fn verifier() -> VerifierStatus {
    let sequences = Slots { open: 3, max: 8 };
    let arithmetic = "int8".to_owned();
    VerifierStatus { process: PROCESS, sequences, trees_waiting: 2, passes: PASSES, rounds: ROUNDS, kv: KV, arithmetic }
}

fn drafter() -> DrafterStatus {
    let target = |name: &str| TargetStatus { name: name.to_owned(), sequences_open: 1, rounds: ROUNDS };
    DrafterStatus {
        process: Process { resident_bytes: None, ..PROCESS },
        sequences: Slots { open: 2, max: 2 },
        trees_growing: 1,
        passes: PASSES,
        rounds: ROUNDS,
        kv: KV,
        arithmetic: "f32".to_owned(),
        targets: vec![target("medium"), target("small")],
    }
}

fn system() -> SystemStatus {
    let url = "http://127.0.0.1:50052".to_owned();
    let ended = EndCounts { stop: 1, length: 2, failed: 3, abandoned: 4, refused: 5, invalid: 6 };
    let requests = Slots { open: 1, max: 64 };
    SystemStatus {
        gateway: GatewayStatus { process: PROCESS, requests, requests_queued: 2, ended, rounds: ROUNDS },
        verifiers: vec![
            ServiceState { url: url.clone(), name: Some("medium".to_owned()), up: true, status: Some(verifier()) },
            ServiceState { url: url.clone(), name: None, up: false, status: None },
        ],
        drafters: vec![ServiceState { url, name: Some("sorted".to_owned()), up: true, status: Some(drafter()) }],
    }
}

#[test]
fn a_system_survives_the_wire() {
    assert_eq!(SystemStatus::try_from(pb::SystemStatusResponse::from(system())), Ok(system()));
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let refusal = |spoil: fn(&mut VerifierStatus)| {
        let mut status = verifier();
        spoil(&mut status);
        VerifierStatus::try_from(pb::VerifierStatusResponse::from(status)).unwrap_err().to_string()
    };
    assert_eq!(refusal(|status| status.sequences.open = 9), "slots.open is 9, beyond the limit of 8");
    assert_eq!(refusal(|status| status.kv.held = 13), "kv.held and kv.lingering is 33, beyond the limit of 32");
    let promised = refusal(|status| status.kv.promised = u64::MAX);
    assert_eq!(promised, format!("kv.held and kv.promised is {}, beyond the limit of 32", u64::MAX));
}

#[test]
fn what_is_missing_or_too_much_is_refused() {
    let without = pb::VerifierStatusResponse { kv: None, ..verifier().into() };
    assert_eq!(VerifierStatus::try_from(without), Err(WireError::Missing { field: "kv" }));

    let mut many = drafter();
    many.targets = vec![many.targets[0].clone(); TARGETS_MAX + 1];
    let refusal = DrafterStatus::try_from(pb::DrafterStatusResponse::from(many)).unwrap_err();
    assert_eq!(refusal.to_string(), "targets is 65, beyond the limit of 64");

    let mut many = system();
    many.verifiers = vec![many.verifiers[1].clone(); 257];
    let refusal = SystemStatus::try_from(pb::SystemStatusResponse::from(many)).unwrap_err();
    assert_eq!(refusal.to_string(), "verifiers is 257, beyond the limit of 256");
}

#[test]
fn counters_add_up() {
    let (rounds, passes) = (RoundCounters::default(), PassCounters::default());
    rounds.add(&ROUNDS);
    rounds.add(&RoundCounts { rounds: 1, tokens: 1, ..RoundCounts::default() });
    assert_eq!(rounds.read(), RoundCounts { rounds: 8, tokens: 20, ..ROUNDS });
    passes.add(10, 2, Duration::ZERO);
    passes.add(1, 1, Duration::ZERO);
    passes.miss(4);
    assert_eq!(passes.read(), PassCounts { passes: 2, rows: 11, sequences: 3, missed: 4 });
}
