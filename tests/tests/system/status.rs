//! What services tell of their work is what they did: the shipped models over gRPC.

use std::time::Duration;

use espalier_client::{Answer, Client};
use espalier_proto::{DrafterStatus, GenerationRequest, RoundCounts, SystemStatus, VerifierStatus};
use espalier_tests::{answer, client, prompts, request, sampling, start};

/// Asks for the status until nobody has a sequence any more; fails after ten seconds.
async fn idle(client: &mut Client) -> SystemStatus {
    let asked = async {
        loop {
            let status = client.status().await.unwrap();
            let verifiers = status.verifiers.iter().map(|state| state.status.as_ref().unwrap());
            let drafters = status.drafters.iter().map(|state| state.status.as_ref().unwrap());
            let verifying = verifiers.map(|told| (told.sequences.open as u64, told.kv.held + told.kv.promised));
            let drafting = drafters.map(|told| (told.sequences.open as u64, told.kv.held + told.kv.promised));
            if verifying.chain(drafting).all(|held| held == (0, 0)) {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap()
}

/// What answers came to by what their clients were told.
fn counted<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> RoundCounts {
    let mut sum = RoundCounts::default();
    for answer in answers {
        let told = &answer.completion.speculation;
        sum.rounds += told.rounds;
        sum.drafted += told.drafted;
        sum.verified += told.verified;
        sum.accepted += told.accepted;
        sum.tokens += answer.tokens.len() as u64;
    }
    sum
}

fn verifier<'a>(status: &'a SystemStatus, name: &str) -> &'a VerifierStatus {
    let state = status.verifiers.iter().find(|state| state.name.as_deref() == Some(name)).unwrap();
    assert!(state.up);
    state.status.as_ref().unwrap()
}

fn drafter(status: &SystemStatus) -> &DrafterStatus {
    status.drafters[0].status.as_ref().unwrap()
}

#[tokio::test]
async fn counts_are_exactly_what_was_done_and_everything_comes_back() {
    let system = start(&["small", "medium"], Some(2), 2).await;
    let mut client = client(&system);
    let fresh = client.status().await.unwrap();
    assert_eq!(verifier(&fresh, "small").rounds, RoundCounts::default());
    assert!(fresh.gateway.process.resident_bytes > Some(0));

    let ask = |target: &str, case: usize, speculate| {
        let (prompt, _) = prompts(target).swap_remove(case);
        let policy = Some("constant,k=3".to_owned());
        GenerationRequest { speculate, policy, ..request(target, &prompt, 24, sampling(0.0, 0)) }
    };
    let drafted = [("small", 0), ("medium", 1), ("small", 2)].map(|(target, case)| ask(target, case, true));
    let drafted = futures::future::join_all(drafted.into_iter().map(|request| answer(&client, request))).await;
    let plain = answer(&client, ask("medium", 3, false)).await;

    let told = idle(&mut client).await;
    assert_eq!(told.gateway.rounds, counted(drafted.iter().chain([&plain])));
    assert_eq!(told.gateway.ended.stop + told.gateway.ended.length, 4);
    assert_eq!(told.gateway.requests.open, 0);

    assert_eq!(drafter(&told).rounds, counted(&drafted));
    let by_target: Vec<_> = drafter(&told).targets.iter().map(|target| (target.name.as_str(), target.rounds)).collect();
    assert_eq!(by_target, [("medium", counted([&drafted[1]])), ("small", counted([&drafted[0], &drafted[2]]))]);
    assert_eq!(drafter(&told).trees_growing, 0);
    let passes = drafter(&told).passes;
    assert!(passes.passes > 0 && passes.rows >= counted(&drafted).drafted && passes.sequences >= passes.passes);

    for (target, answers) in [("small", vec![&drafted[0], &drafted[2]]), ("medium", vec![&drafted[1], &plain])] {
        let (told, expected) = (verifier(&told, target), counted(answers));
        // What was drafted before pruning, a verifier cannot know.
        assert_eq!(told.rounds, RoundCounts { drafted: 0, ..expected });
        assert_eq!((told.trees_waiting, told.sequences.open), (0, 0));
        // Every round has its root; prompts come on top.
        assert!(told.passes.rows > expected.verified + expected.rounds);
        assert!(told.kv.blocks > 0 && told.kv.lingering > 0 && told.kv.block_bytes > 0);
    }
    system.stop().await.unwrap();
}
