//! A verifier over real gRPC, with a real model.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use espalier_model::fingerprint;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{Credit, FaultKind, Party, Submission, TokenizerCollector, VerifierCard, pb};
use espalier_round::{Plain, Verifier};
use espalier_speculation::{FinishReason, Sampling, Token, Tree};
use espalier_text::{Parts, Tokenizer};

mod rejection;
mod states;
mod support;

use support::*;

#[tokio::test]
async fn plain_decoding_says_what_another_implementation_says() {
    let channel = start(&[]).await;
    for (id, golden) in (0..).zip(golden(4)) {
        let (text, _) = text_of(&channel, open(id, &golden.prompt, golden.answer.len()), Plain).await;
        assert_eq!(text, golden.answer);
    }
}

#[tokio::test]
async fn the_text_is_the_same_whatever_is_proposed() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    for depth in [1, 3, 8] {
        let open = open(depth as u128, &prompt, answer.len());
        assert_eq!(text_of(&channel, open, prophet(&prompt, &answer, depth)).await.0, answer);
    }
    let open = open(99, &prompt, answer.len());
    assert_eq!(text_of(&channel, open, ngram()).await.0, answer);
}

#[tokio::test]
async fn a_seed_decides_the_text_whatever_is_proposed() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let sampling = |seed| Sampling::new(0.8, 50, 0.95, seed).unwrap();
    let seeded = |id, seed| sampled(sampling(seed), open(id, &prompt, 40));
    let (text, _) = text_of(&channel, seeded(1, 7), Plain).await;
    assert_eq!(text_of(&channel, seeded(2, 7), ngram()).await.0, text);
    assert_eq!(text_of(&channel, seeded(3, 7), prophet(&prompt, &text, 5)).await.0, text);
    assert_ne!(text_of(&channel, seeded(4, 8), Plain).await.0, text);
}

#[tokio::test]
async fn sequences_do_not_disturb_each_other() {
    let channel = start(&[]).await;
    let golden = golden(6);
    let run = |id: usize| {
        let (channel, Golden { prompt, answer }) = (channel.clone(), &golden[id]);
        async move {
            let open = open(id as u128, prompt, answer.len());
            match id % 3 {
                0 => text_of(&channel, open, Plain).await.0,
                1 => text_of(&channel, open, ngram()).await.0,
                _ => text_of(&channel, open, prophet(prompt, answer, id)).await.0,
            }
        }
    };
    let texts = futures::future::join_all((0..golden.len()).map(run)).await;
    for (text, golden) in texts.iter().zip(&golden) {
        assert_eq!(text, &golden.answer);
    }
}

#[tokio::test]
async fn a_sequence_is_taken_over_where_all_places_are_taken() {
    let channel = start(&["--sequences-max", "1"]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    // Its stream stays open, as that of a peer that was stopped does.
    let stale = opened(&channel, open(1, &prompt, answer.len())).await.unwrap();
    let other = opened(&channel, open(2, &prompt, answer.len())).await.err().unwrap();
    assert_eq!((other.party, other.kind), (Party::Verifier, FaultKind::Overloaded));
    assert_eq!(text_of(&channel, open(1, &prompt, answer.len()), Plain).await.0, answer);
    drop(stale);
}

#[tokio::test]
async fn a_long_prompt_is_read_in_pieces() {
    let channel = start(&[]).await;
    let prompt = long_prompt(1500);
    let (text, _) = text_of(&channel, open(1, &prompt, 16), Plain).await;
    let grown: Vec<Token> = prompt.iter().chain(&text[..8]).copied().collect();
    assert_eq!(text_of(&channel, open(2, &grown, 8), ngram()).await.0, text[8..]);
}

#[tokio::test]
async fn a_stop_token_ends_the_text_exactly_there() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let stop = answer[10];
    let end = answer.iter().position(|token| *token == stop).unwrap();
    let mut open = open(1, &prompt, answer.len());
    open.sequence.stop_tokens = vec![stop];
    let (text, reason) = text_of(&channel, open, prophet(&prompt, &answer, 8)).await;
    assert_eq!((text.as_slice(), reason), (&answer[..=end], FinishReason::Stop));
}

#[tokio::test]
async fn the_last_tokens_of_the_context_can_be_used() {
    let channel = start(&[]).await;
    let prompt = long_prompt(2040);
    let (text, reason) = text_of(&channel, open(1, &prompt, 8), Plain).await;
    assert_eq!((text.len(), reason), (8, FinishReason::Length));
    assert_eq!(text_of(&channel, open(2, &prompt, 8), prophet(&prompt, &text, 8)).await.0, text);
}

#[tokio::test]
async fn a_verifier_describes_itself_and_hands_out_its_tokenizer() {
    let channel = start(&["--name", "tiny", "--tree-nodes-max", "9"]).await;
    let mut client = VerifierClient::new(channel);
    let card = client.describe(pb::DescribeVerifierRequest {}).await.unwrap().into_inner();
    let card = VerifierCard::try_from(card).unwrap();
    assert_eq!((card.name.as_str(), card.context, card.tree_nodes_max), ("tiny", 2048, 9));
    assert_eq!(card.end_tokens, [2]);
    assert_eq!((card.model.layers, card.model.hidden_size), (8, 256));
    assert_eq!(card.model.fingerprint, fingerprint(&model()).unwrap());
    assert_eq!(card.costs.iter().map(|cost| cost.rows).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32]);

    let mut pieces = client.fetch_tokenizer(pb::FetchTokenizerRequest {}).await.unwrap().into_inner();
    let mut collector = TokenizerCollector::default();
    while let Some(piece) = pieces.message().await.unwrap() {
        collector.add(&piece).unwrap();
    }
    let files = collector.finish().unwrap();
    let parts = Parts { tokenizer: files.tokenizer, config: files.config, chat_template: files.chat_template };
    assert_eq!(Tokenizer::from_parts(parts).unwrap().fingerprint(), card.vocabulary.fingerprint);
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_with_the_reason() {
    let channel = start(&[]).await;
    let cases = [
        (open(1, &[], 5), "committed is empty"),
        (open(1, &[1], 0), "max_tokens is 0, below the minimum of 1"),
        (open(1, &[4096], 5), "committed holds token 4096, beyond the vocabulary of 4096"),
        (open(1, &[1], 2048), "1 tokens and 2048 more exceed the context of 2048"),
    ];
    for (open, reason) in cases {
        let fault = opened(&channel, open).await.unwrap_err();
        assert_eq!((fault.party, fault.kind), (Party::Client, FaultKind::BadInput));
        assert_eq!(fault.message, reason);
    }
}

#[tokio::test]
async fn a_tree_out_of_order_or_too_large_ends_the_stream_with_the_reason() {
    let channel = start(&["--tree-nodes-max", "2"]).await;
    let mut verifier = opened(&channel, open(1, &[1, 3], 5)).await.unwrap();
    verifier.submit(round(1, Tree::new())).await.unwrap();
    let fault = verifier.outcome().await.unwrap_err();
    assert_eq!(fault.message, "round 1 came where round 0 is next");

    let mut verifier = opened(&channel, open(2, &[1, 3], 5)).await.unwrap();
    let mut tree = Tree::new();
    for token in 0..3 {
        tree.push(0, token, 0.5).unwrap();
    }
    verifier.submit(round(0, tree)).await.unwrap();
    let fault = verifier.outcome().await.unwrap_err();
    assert_eq!(fault.message, "a tree of 3 nodes exceeds the limit of 2");
    assert_eq!(fault.kind, FaultKind::BadInput);
}

#[tokio::test]
async fn credit_for_more_rounds_than_may_be_under_way_ends_the_stream_with_the_reason() {
    let channel = start(&[]).await;
    let mut verifier = opened(&channel, open(1, &long_prompt(1500), 500)).await.unwrap();
    for round in [0, 64] {
        let credit = Credit { round, tokens: Credit::TOKENS_MAX, states_later: false };
        verifier.submit(Submission::Credit(credit)).await.unwrap();
    }
    let fault = loop {
        if let Err(fault) = verifier.outcome().await {
            break fault;
        }
    };
    assert_eq!(
        (fault.message.as_str(), fault.kind),
        ("more than 64 rounds of a sequence would be under way", FaultKind::BadInput)
    );
}

#[tokio::test]
async fn a_full_verifier_refuses_at_once_and_a_dropped_stream_makes_room() {
    let channel = start(&["--sequences-max", "1"]).await;
    let first = opened(&channel, open(1, &[1, 3], 5)).await.unwrap();
    let fault = opened(&channel, open(2, &[1, 3], 5)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Overloaded);
    assert!(fault.retry_after.is_some());
    drop(first);
    let again = async {
        while opened(&channel, open(2, &[1, 3], 5)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), again).await.unwrap();
}

#[tokio::test]
async fn who_finds_no_memory_is_refused_with_the_figures() {
    // Eight blocks of 64 positions; the largest tree takes 363.
    let channel = start(&["--kv-memory", "4MiB"]).await;
    let first = opened(&channel, open(1, &long_prompt(100), 5)).await.unwrap();
    let fault = opened(&channel, open(2, &long_prompt(101)[1..], 5)).await.unwrap_err();
    assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Overloaded));
    assert_eq!(fault.message, "8 blocks of KV memory are needed, but 0 of 8 are free");
    assert!(fault.retry_after.is_some());
    let fault = opened(&channel, open(3, &long_prompt(1000), 5)).await.unwrap_err();
    assert_eq!((fault.party, fault.kind, fault.retry_after), (Party::Client, FaultKind::BadInput, None));
    assert_eq!(fault.message, "22 blocks of KV memory are needed, but there are only 8");
    drop(first);
}

#[tokio::test]
async fn a_beginning_that_another_sequence_has_read_is_not_read_again() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    assert_eq!(text_of(&channel, open(1, &prompt, answer.len()), ngram()).await.0, answer);
    let open = open(2, &prompt, answer.len());
    assert_eq!(opened(&channel, open.clone()).await.unwrap().reused_prefix().await, Ok(prompt.len() - 1));
    assert_eq!(text_of(&channel, open, prophet(&prompt, &answer, 3)).await.0, answer);
}

#[tokio::test]
async fn a_sequence_that_is_opened_again_goes_on_there() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let mut first = opened(&channel, open(1, &prompt, answer.len())).await.unwrap();
    assert_eq!(first.reused_prefix().await, Ok(0));
    first.submit(round(0, Tree::new())).await.unwrap();
    let token = first.outcome().await.unwrap().tokens[0];
    assert_eq!(token, answer[0]);

    let grown = [prompt.as_slice(), &answer[..1]].concat();
    let mut second = opened(&channel, open(1, &grown, answer.len() - 1)).await.unwrap();
    assert_eq!(second.reused_prefix().await, Ok(prompt.len()));
    let fault = first.outcome().await.unwrap_err();
    assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::LostSequence));
    drop((first, second));
    let text = text_of(&channel, open(1, &grown, answer.len() - 1), Plain).await.0;
    assert_eq!(text, answer[1..]);
}
