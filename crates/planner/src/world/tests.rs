#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tokio::time::Instant;

use crate::{Report, Scenario, simulate};

/// A target of one verifier, without a drafter, whose messages take no time.
fn scenario(changes: &[(&str, serde_json::Value)]) -> Scenario {
    let mut json = serde_json::json!({
        "targets": [{
            "name": "t",
            "curve": [[1, 10.0], [8, 10.0], [64, 80.0]],
            "acceptance": {"model": {"favourite": 0.8, "spread": 1.5, "persistence": 0.4, "runner_up": 0.5}},
            "prompt": {"fixed": 9},
            "answer": {"fixed": 21},
        }],
        "load": {"closed": {"clients": 1, "requests": 4}},
        "network": {"round_trip_ms": 0.0},
        "machine": {"own": {"message_us": 0.0, "intake_us": 0.0, "sequence_us": 0.0}},
    });
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value.clone());
    }
    Scenario::parse(&json.to_string()).unwrap()
}

fn run(scenario: &Scenario, seed: u64) -> Report {
    simulate(scenario, seed, Instant::now()).unwrap()
}

#[test]
fn plain_decoding_is_what_arithmetic_by_hand_says() {
    let report = run(&scenario(&[]), 1);
    let target = &report.targets[0];
    // The prompt's 8 tokens are read at once, and the first credit comes while they are: 10 ms, and 10 ms for each token.
    assert!((target.first_token_ms.unwrap().p50 - 20.0).abs() < 1e-3, "{target:?}");
    assert!((target.token_ms.unwrap().p95 - 10.0).abs() < 1e-3, "{target:?}");
    assert!((report.seconds - 4.0 * 0.22).abs() < 1e-6, "{report:?}");
    assert!((report.tokens_per_second - 84.0 / 0.88).abs() < 1e-3);
    assert_eq!((target.tau, target.verifiers.passes, report.unfinished), (Some(1.0), 88, 0));
    assert!((target.verifiers.utilisation - 1.0).abs() < 1e-6);
}

#[test]
fn sequences_of_a_verifier_share_its_passes_and_contexts_cost() {
    let clients = ("/load/closed", serde_json::json!({"clients": 4, "requests": 4, "start_seconds": 0.0}));
    let report = run(&scenario(std::slice::from_ref(&clients)), 1);
    // The first prompt alone is 10 ms; then come three prompts and four tokens, 28 rows in 35 ms; then 20 passes of 10 ms.
    assert!((report.seconds - 0.245).abs() < 1e-6, "{report:?}");
    let with_context = run(&scenario(&[clients, ("/targets/0/context_us", 100.0.into())]), 1);
    // 8 and 4 * 8 tokens lie behind the first two, and 4 (8 + k) behind the k-th of the others: 0.1 ms each.
    assert!((with_context.seconds - 0.245 - 0.004 - 0.148).abs() < 1e-6, "{with_context:?}");
}

#[test]
fn the_network_is_paid_for_by_first_tokens_and_not_by_those_that_have_credit() {
    let report = run(&scenario(&[("/network/round_trip_ms", 4.0.into())]), 1);
    let target = &report.targets[0];
    // Ask, open, opened and credit, then outcome (at the gateway) and tokens: five ways of 2 ms besides the prompt, which is
    // read while the credit is on its way.
    assert!((target.first_token_ms.unwrap().p50 - (2.0 + 2.0 + 10.0 + 10.0 + 2.0 + 2.0)).abs() < 1e-3, "{target:?}");
    assert!((target.token_ms.unwrap().p50 - 10.0).abs() < 0.2, "{target:?}");
}

#[test]
fn passes_that_vary_take_as_long_as_others_on_average() {
    let many = ("/load/closed", serde_json::json!({"clients": 1, "requests": 100}));
    let run_with = |jitter: f64| run(&scenario(&[many.clone(), ("/targets/0/jitter", jitter.into())]), 1);
    let (even, varied) = (run_with(0.0), run_with(0.1));
    assert!((varied.seconds / even.seconds - 1.0).abs() < 0.01, "{} {}", varied.seconds, even.seconds);
    let tokens = varied.targets[0].token_ms.unwrap();
    // Each gap is the mean of 20 passes, so 95 of 100 are no further off than 1.64 of a standard deviation.
    assert!((tokens.p95 - 10.0 * (1.0 + 1.64 * 0.1 / 20_f64.sqrt())).abs() < 0.2, "{tokens:?}");
}

fn drafted(clients: usize, slots: usize, policy: &str) -> Scenario {
    scenario(&[
        ("/load/closed", serde_json::json!({"clients": clients, "requests": 40})),
        ("/targets/0/policy", policy.into()),
        ("/drafters", serde_json::json!([{"name": "d", "curve": [[1, 0.5], [64, 4.0]], "slots": slots}])),
        ("/targets/0/answer", serde_json::json!({"uniform": [10, 80]})),
        ("/targets/0/prompt", serde_json::json!({"uniform": [10, 300]})),
        ("/network/round_trip_ms", 0.4.into()),
    ])
}

#[test]
fn a_chain_that_is_always_accepted_makes_a_token_a_node_and_one_more() {
    let acceptance =
        serde_json::json!({"model": {"favourite": 0.999, "spread": 0.0, "persistence": 0.0, "runner_up": 0.0}});
    let mut scenario = drafted(1, 8, "constant,k=4,gate=off");
    scenario.targets[0].acceptance = serde_json::from_value(acceptance).unwrap();
    let report = run(&scenario, 3);
    assert!(report.targets[0].tau.is_some_and(|tau| tau > 4.3 && tau <= 5.0), "{report:?}");
    assert_eq!(report.targets[0].drafted.map(|share| share > 0.9), Some(true));
}

#[test]
fn drafting_pays_for_one_sequence_and_the_gate_finds_out_where_it_does_not() {
    let speed = |scenario: &Scenario| run(scenario, 5).tokens_per_second;
    let mut plain = drafted(1, 8, "expected-gain");
    let drafted = speed(&plain);
    plain.targets[0].drafted = false;
    assert!(drafted > 1.3 * speed(&plain), "{drafted} of {}", speed(&plain));
    let mut dear = plain.clone();
    (dear.targets[0].drafted, dear.drafters[0].curve) = (true, vec![(1, 30.0)]);
    let report = run(&dear, 5);
    assert!(report.targets[0].drafted.is_some_and(|share| share < 0.2), "{report:?}");
}

#[test]
fn who_loses_its_drafter_goes_on_without_and_gets_it_back() {
    let mut scenario = drafted(4, 8, "constant,k=4,gate=off");
    let failure = serde_json::json!([{"drafters": "d", "at_seconds": 1.2, "until_seconds": 1.6}]);
    scenario.failures = serde_json::from_value(failure).unwrap();
    let report = run(&scenario, 7);
    let target = &report.targets[0];
    assert_eq!((target.finished, target.failed, target.refused, report.unfinished), (40, 0, 0, 0));
    assert!(target.failovers >= 4, "{target:?}");
    assert!(target.drafted.is_some_and(|share| share > 0.3 && share < 0.99), "{target:?}");
}

#[test]
fn a_full_door_refuses_and_says_when_to_come_again() {
    let scenario = scenario(&[
        ("/gateways", serde_json::json!({"count": 1, "requests": 2, "queued": 2})),
        ("/load/closed", serde_json::json!({"clients": 8, "requests": 40, "start_seconds": 0.01})),
    ]);
    let target = &run(&scenario, 2).targets[0];
    assert!(target.refused > 0 && target.finished > 8, "{target:?}");
    assert_eq!(target.refused + target.finished, 40);
}

fn machines() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![Just(serde_json::json!({"own": {}})), Just(serde_json::json!({"shared": {}}))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_ends_once_and_its_tokens_are_those_of_its_answer(
        clients in 1_usize..12, slots in 1_usize..6, queued in 0_usize..8, seed: u64, machine in machines(),
        lost in proptest::option::of(0.0_f64..0.5), gated: bool, replicas in 1_usize..3,
    ) {
        let mut scenario = drafted(clients, slots, if gated { "expected-gain" } else { "vanilla-tree,gate=off" });
        scenario.machine = serde_json::from_value(machine).unwrap();
        scenario.gateways.queued = queued;
        scenario.gateways.requests = 6;
        scenario.drafters[0].count = 2;
        (scenario.targets[0].slots, scenario.targets[0].verifiers) = (4, replicas);
        scenario.failures = lost.map(|at| crate::Failure {
            drafters: "d".to_owned(), count: Some(1), at_seconds: at, until_seconds: Some(at + 0.2),
        }).into_iter().collect();
        let report = run(&scenario, seed);
        let target = &report.targets[0];
        prop_assert_eq!(report.unfinished, 0);
        prop_assert_eq!(target.finished + target.refused + target.failed, target.requests);
        prop_assert_eq!(target.requests, 40);
        prop_assert!(target.tokens >= 10 * target.finished && target.tokens <= 80 * target.requests);
        prop_assert_eq!(&report, &run(&scenario, seed));
    }

    #[test]
    fn no_pass_has_more_rows_than_a_turn_may(clients in 1_usize..64, seed: u64) {
        let mut scenario = drafted(clients, 64, "vanilla-tree,width=4,depth=4,gate=off");
        scenario.targets[0].slots = 64;
        let report = run(&scenario, seed);
        // Rounds join while there are fewer than 512 rows, prompts have 256 at the most, and a tree has 363 nodes.
        prop_assert!(report.targets[0].verifiers.most_rows <= 512 + 363 + 256 + 364);
        prop_assert!(report.drafters[0].most_rows < 64 + 364);
        prop_assert!(report.targets[0].verifiers.utilisation <= 1.0 + 1e-9);
    }
}

#[test]
fn whoever_is_alone_wakes_nobody_for_its_trees() {
    let seconds = |pass_ms: f64, wake_us: f64| {
        let drafter = serde_json::json!({"name": "d", "curve": [[1, 1.0]]});
        let machine = serde_json::json!({"shared": {"wake_us": wake_us}});
        run(
            &scenario(&[
                ("/targets/0/curve", serde_json::json!([[1, pass_ms]])),
                ("/targets/0/policy", "constant,k=2,gate=off".into()),
                ("/drafters", serde_json::json!([drafter])),
                ("/machine", machine),
            ]),
            1,
        )
        .seconds
    };
    let lost = |pass_ms: f64| seconds(pass_ms, 1000.0) - seconds(pass_ms, 0.0);
    // Who asks computes passes of 5 ms; for longer ones the engine's thread wakes it once a round.
    assert!(lost(5.0) > 0.0 && lost(5.1) > 1.5 * lost(5.0), "{} {}", lost(5.0), lost(5.1));
}
