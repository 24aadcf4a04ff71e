//! Promise 1: the text is the target's own, to the byte, whoever drafts, by whatever policy, at any temperature, with any
//! number of threads, alone or among others.

use espalier_client::{Answer, Client};
use espalier_local::{Plan, System};
use espalier_model::{Arithmetic, DeviceKind, Parallel};
use espalier_proto::{GenerationRequest, SpeculationSummary};
use espalier_tests::{Oracle, answer, client, plan, plan_in, plan_on, prompts, request, sampling, start};
use futures::future::join_all;

const TARGETS: [&str; 2] = ["small", "medium"];

/// Chains and trees, cautious and bold, and a full-size one.
const POLICIES: [&str; 11] = [
    "constant,k=1",
    "constant,k=5",
    "svip",
    "beta-ts",
    "cape,depth=3",
    "pct",
    "pct,width=3,leaf_threshold=0.1",
    "eagle2",
    "opt-tree,n=16,stop=svip",
    "vanilla-tree,width=2",
    "expected-gain",
];

/// Those whose trees depend on nothing measured.
const REPRODUCIBLE: [&str; 9] = [
    "constant,k=4",
    "heuristic",
    "svip",
    "beta-ts",
    "cali-ts",
    "eagle2,total=12",
    "opt-tree,n=12",
    "pct,ratio=0.3",
    "expected-gain,ratio=0.3",
];

#[tokio::test]
async fn plain_decoding_through_all_services_is_the_target_alone() {
    let asked = |arithmetic| if arithmetic == Arithmetic::F32 { 3 } else { 1 };
    for (arithmetic, asked) in Arithmetic::ALL.map(|arithmetic| (arithmetic, asked(arithmetic))) {
        let system = start_in(arithmetic, None, 2).await;
        let client = client(&system);
        for target in TARGETS {
            let oracle = Oracle::load(target, arithmetic).await;
            for (i, (prompt, greedy)) in prompts(target).into_iter().enumerate().take(asked) {
                for sampling in [sampling(0.0, 0), sampling(0.8, i as u64)] {
                    let request = request(target, &prompt, greedy.len(), sampling.clone());
                    let plain = answer(&client, GenerationRequest { speculate: false, ..request }).await;
                    if sampling.is_greedy() && arithmetic == Arithmetic::F32 {
                        assert_eq!(plain.ids(), greedy, "{target}: as transformers decodes");
                    }
                    let alone = oracle.continuation(&prompt, greedy.len(), sampling).await;
                    assert_eq!(plain.ids(), alone, "{target} in {arithmetic}");
                    assert_eq!(plain.completion.speculation.tau, Some(1.0));
                }
            }
        }
        system.stop().await.unwrap();
    }
}

/// Both targets, and the first `layers` layers of `small` as a drafter in f32.
async fn start_in(arithmetic: Arithmetic, layers: Option<usize>, threads: usize) -> System {
    started(plan_in(arithmetic, plan(&TARGETS, layers, threads))).await
}

async fn started(plan: Plan) -> System {
    System::start(plan, |_: &str, _, _| {}).await.unwrap()
}

/// All policies on a few prompts, or one in `step` of them.
async fn policies_give_the_plain_text(arithmetic: Arithmetic, step: usize, layers: Option<usize>, threads: usize) {
    let system = start_in(arithmetic, layers, threads).await;
    these_give_the_plain_text(&system, &TARGETS, step).await;
    system.stop().await.unwrap();
}

/// The same of a running system with these targets.
async fn these_give_the_plain_text(system: &System, targets: &[&str], step: usize) {
    const TOKENS: usize = 24;
    let client = client(system);
    for &target in targets {
        for (i, (prompt, _)) in prompts(target).into_iter().enumerate().skip(3).take(2) {
            for sampling in [sampling(0.0, 0), sampling(0.8, 7 + i as u64)] {
                let request = request(target, &prompt, TOKENS, sampling);
                let plain = answer(&client, GenerationRequest { speculate: false, ..request.clone() }).await;
                for policy in POLICIES.into_iter().step_by(step) {
                    let policy = Some(policy.to_owned());
                    let drafted = answer(&client, GenerationRequest { policy, ..request.clone() }).await;
                    let what = format!("{target}, {:?}", drafted.completion.speculation);
                    assert_eq!(drafted.ids(), plain.ids(), "{what}");
                    assert_eq!(drafted.text(), plain.text(), "{what}");
                    assert_eq!(drafted.completion.reason, plain.completion.reason, "{what}");
                }
                let drafter = Some("ngram".to_owned());
                let copied = answer(&client, GenerationRequest { drafter, ..request }).await;
                assert_eq!(copied.ids(), plain.ids(), "{target}, n-grams");
            }
        }
    }
}

#[tokio::test]
async fn every_policy_gives_the_plain_text_on_one_thread() {
    policies_give_the_plain_text(Arithmetic::F32, 1, None, 1).await;
}

#[tokio::test]
async fn policies_give_the_plain_text_in_other_arithmetics_on_two_threads_with_a_poor_drafter() {
    for (arithmetic, step) in
        [(Arithmetic::Bf16, 5), (Arithmetic::Bf16Dot, 5), (Arithmetic::Int8, 1), (Arithmetic::Int8Q4, 5)]
    {
        policies_give_the_plain_text(arithmetic, step, Some(3), 2).await;
    }
}

/// Four devices share the target.
#[tokio::test]
async fn policies_give_the_plain_text_on_devices() {
    policies_give_the_plain_text_spread(Parallel::tensor("4".parse().unwrap())).await;
}

/// Three devices, a number that divides none of its heads, have some of the target's layers each.
#[tokio::test]
async fn policies_give_the_plain_text_in_stages() {
    policies_give_the_plain_text_spread(Parallel::pipeline("3".parse().unwrap())).await;
}

/// The text of transformers, too, as its sums are off by as little as those of kernels. The drafter is on one device.
async fn policies_give_the_plain_text_spread(parallel: Parallel) {
    let system = started(plan_on(DeviceKind::Candle, parallel, plan(&["small"], Some(3), 1))).await;
    let (prompt, greedy) = prompts("small").remove(0);
    let asked = GenerationRequest { speculate: false, ..request("small", &prompt, greedy.len(), sampling(0.0, 0)) };
    assert_eq!(answer(&client(&system), asked).await.ids(), greedy);
    these_give_the_plain_text(&system, &["small"], 5).await;
    system.stop().await.unwrap();
}

#[tokio::test]
async fn sixty_four_sequences_of_two_targets_that_share_all_services_do_not_change_each_other() {
    const SEQUENCES: usize = 64;
    const TOKENS: usize = 20;
    let system = start(&TARGETS, None, 2).await;
    let client = client(&system);
    let prompts = TARGETS.map(prompts);
    let requests = (0..SEQUENCES).map(|i| {
        let (target, turn) = (i % TARGETS.len(), i / TARGETS.len());
        let (prompt, _) = &prompts[target][turn % prompts[target].len()];
        let policy = Some(POLICIES[i % POLICIES.len()].to_owned());
        let sampling = sampling(if turn % 2 == 0 { 0.0 } else { 0.8 }, i as u64);
        GenerationRequest { policy, ..request(TARGETS[target], prompt, TOKENS, sampling) }
    });
    let requests: Vec<GenerationRequest> = requests.collect();
    let together = join_all(requests.iter().map(|request| answer(&client, request.clone()))).await;
    for (request, shared) in requests.into_iter().zip(together) {
        let alone = answer(&client, GenerationRequest { speculate: false, ..request }).await;
        assert_eq!(shared.ids(), alone.ids());
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_seed_decides_the_text_and_nothing_else_does() {
    let system = start(&["small"], None, 2).await;
    let client = client(&system);
    let (prompt, _) = prompts("small").remove(0);
    let ask = async |client: &Client, seed| answer(client, request("small", &prompt, 24, sampling(1.0, seed))).await;
    let (one, again, other) = (ask(&client, 1).await, ask(&client, 1).await, ask(&client, 2).await);
    assert_eq!(one.ids(), again.ids());
    assert_ne!(one.ids(), other.ids());
    assert_eq!(one.completion.seed, 1);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_seed_reproduces_text_and_statistics() {
    let system = start(&["small"], Some(3), 2).await;
    let client = client(&system);
    let (prompt, _) = prompts("small").remove(1);
    for policy in REPRODUCIBLE {
        let asked = GenerationRequest {
            policy: Some(format!("{policy},gate=off")),
            ..request("small", &prompt, 40, sampling(0.8, 5))
        };
        let (once, again) = (answer(&client, asked.clone()).await, answer(&client, asked).await);
        assert_eq!(once.ids(), again.ids(), "{policy}");
        let counts = |answer: &Answer| {
            let SpeculationSummary { rounds, drafted, verified, accepted, ref accepted_by_depth, tau, .. } =
                answer.completion.speculation;
            (rounds, drafted, verified, accepted, accepted_by_depth.clone(), tau)
        };
        assert_eq!(counts(&once), counts(&again), "{policy}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn stop_tokens_cut_accepted_runs_exactly() {
    let system = start(&["medium"], None, 2).await;
    let client = client(&system);
    let (prompt, greedy) = prompts("medium").remove(1);
    for stop in greedy[2..20].iter().copied() {
        let asked = GenerationRequest {
            stop_tokens: vec![stop],
            policy: Some("constant,k=8,gate=off".to_owned()),
            ..request("medium", &prompt, 64, sampling(0.0, 0))
        };
        let cut = answer(&client, asked).await;
        let end = greedy.iter().position(|&token| token == stop).unwrap() + 1;
        assert_eq!(cut.ids(), greedy[..end]);
        let speculation = &cut.completion.speculation;
        assert_eq!(speculation.accepted, cut.tokens.iter().filter(|token| token.drafted).count() as u64);
    }
    system.stop().await.unwrap();
}
