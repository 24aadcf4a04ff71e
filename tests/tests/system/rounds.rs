//! The rounds of an answer, for whoever asks for them: what was drafted, and that it is what was committed and counted.

use espalier_client::Answer;
use espalier_local::Role;
use espalier_proto::{GenerationRequest, NodeFate, RoundTrace};
use espalier_tests::{address, answer, client, prompts, request, sampling, start};
use serde_json::json;

use crate::http::{QUESTION, post};

/// The tokens of nodes of a fate, in the order of their numbers.
fn of_fate(round: &RoundTrace, fate: NodeFate) -> Vec<u32> {
    round.nodes.iter().filter(|node| node.fate == fate).map(|node| node.id).collect()
}

/// Holds an answer's rounds against its tokens and its sums.
fn check(answer: &Answer) {
    let (mut tokens, mut at) = (answer.tokens.as_slice(), std::time::Duration::ZERO);
    for round in &answer.rounds {
        let (own, rest) = tokens.split_at(round.tokens);
        tokens = rest;
        let drafted: Vec<u32> = own.iter().filter(|token| token.drafted).map(|token| token.id).collect();
        assert_eq!(of_fate(round, NodeFate::Accepted), drafted);
        let accepted = round.nodes.iter().filter(|node| node.fate == NodeFate::Accepted);
        assert!(accepted.map(|node| node.parent).is_sorted(), "a path leads down");
        assert!(round.at >= at, "rounds come one after the other");
        at = round.at;
    }
    assert!(tokens.is_empty());
    let summary = &answer.completion.speculation;
    let count = |fate| answer.rounds.iter().map(|round| of_fate(round, fate).len() as u64).sum::<u64>();
    let sent = count(NodeFate::Accepted) + count(NodeFate::Rejected);
    assert_eq!(
        (answer.rounds.len() as u64, sent, count(NodeFate::Accepted)),
        (summary.rounds, summary.verified, summary.accepted)
    );
    assert_eq!(sent + count(NodeFate::Pruned), summary.drafted);
}

#[tokio::test]
async fn they_are_what_was_committed_and_counted_whoever_drafts() {
    let system = start(&["small", "medium"], Some(1), 1).await;
    let client = client(&system);
    let (prompt, _) = prompts("medium").remove(0);
    for (drafter, policy) in [(None, "pct,gate=off"), (None, "svip,gate=off"), (Some("ngram"), ""), (Some("none"), "")]
    {
        let plain = GenerationRequest {
            drafter: drafter.map(str::to_owned),
            policy: Some(policy.to_owned()).filter(|policy| !policy.is_empty()),
            ..request("medium", &prompt, 32, sampling(0.8, 3))
        };
        let untold = answer(&client, plain.clone()).await;
        assert!(untold.rounds.is_empty());
        let told = answer(&client, GenerationRequest { rounds: true, ..plain }).await;
        assert_eq!(told.text(), untold.text());
        check(&told);
        let drafts = told.rounds.iter().any(|round| !round.nodes.is_empty());
        assert_eq!(drafts, drafter != Some("none"), "{drafter:?}");
        if drafter.is_none() {
            let pruned = told.rounds.iter().any(|round| round.nodes.iter().any(|node| node.fate == NodeFate::Pruned));
            assert!(pruned || policy != "pct,gate=off", "a tree is pruned now and then");
            assert!(told.rounds.iter().all(|round| round.nodes.is_empty() || !round.levels.is_empty()));
        }
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn over_http_each_piece_comes_with_its_round() {
    let system = start(&["medium"], Some(1), 1).await;
    let gateway = address(&system, Role::Gateway);
    let said = json!([{"role": "user", "content": QUESTION}]);
    let mut body = json!({"model": "medium", "messages": said, "max_tokens": 24, "temperature": 0,
        "espalier": {"rounds": true, "policy": "pct,gate=off"}});
    let whole = post(gateway, "/v1/chat/completions", &body).await.json();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let tokens = |round: &serde_json::Value| {
        let texts = round["tokens"].as_array().unwrap().iter().map(|token| token["text"].as_str().unwrap());
        texts.collect::<String>()
    };
    let rounds = whole["espalier"]["rounds"][0].as_array().unwrap();
    assert_eq!(rounds.iter().map(tokens).collect::<String>(), text);
    body["stream"] = true.into();
    let events = post(gateway, "/v1/chat/completions", &body).await.events();
    let streamed: Vec<_> =
        events.iter().map(|event| &event["espalier"]["round"]).filter(|round| !round.is_null()).collect();
    assert_eq!(streamed.iter().map(|round| tokens(round)).collect::<String>(), text);
    assert!(streamed.iter().any(|round| round["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty())));
    system.stop().await.unwrap();
}
