//! Acceptance by rejection.

use espalier_proto::{FaultKind, Open};
use espalier_round::{Ngram, Plain, Verifier};
use espalier_speculation::{
    Acceptance, CandidateTree, Distribution, DrawnTree, FinishReason, NgramLimits, Sampling, Token, Tree,
};

use crate::support::*;

fn by_rejection(id: u128, seed: u64, prompt: &[Token], max_tokens: usize) -> Open {
    let sampling = Sampling::new(0.8, 50, 0.95, seed).unwrap().with_acceptance(Acceptance::Rejection);
    sampled(sampling, open(id, prompt, max_tokens))
}

#[tokio::test]
async fn by_rejection_seed_and_proposals_decide_the_text() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let plain = |id, seed| text_of(&channel, by_rejection(id, seed, &prompt, 40), Plain);
    let text = plain(1, 7).await.0;
    assert_eq!(plain(2, 7).await.0, text);
    assert_ne!(plain(3, 8).await.0, text);
    let copied = |id| {
        let ngram = Ngram::new(vec![], NgramLimits::default(), Acceptance::Rejection);
        text_of(&channel, by_rejection(id, 7, &prompt, 40), ngram)
    };
    assert_eq!(copied(4).await, copied(5).await);
}

/// Draws one token from a distribution of its own.
fn drawn(token: Token, pairs: &[(Token, f64)]) -> CandidateTree {
    let mut tree = Tree::new();
    tree.push(0, token, 0.5).unwrap();
    let q = Distribution::from_pairs(pairs.to_vec()).unwrap();
    DrawnTree::new(tree, vec![Some(q), None]).unwrap().into()
}

#[tokio::test]
async fn by_rejection_a_tree_is_cut_where_the_context_ends_and_logprobs_come_with_its_tokens() {
    let channel = start(&[]).await;
    let prompt = long_prompt(2040);
    let mut asked = by_rejection(1, 7, &prompt, 8);
    asked.sequence.logprobs = Some(2);
    let mut verifier = opened(&channel, asked).await.unwrap();
    let mut guesses = Tree::new();
    for node in 0..20 {
        guesses.push(node, 5, 1.0).unwrap();
    }
    verifier.submit(round(0, DrawnTree::trunk(&guesses))).await.unwrap();
    let outcome = verifier.outcome().await.unwrap();
    assert!((1..=8).contains(&outcome.tokens.len()));
    assert_eq!(outcome.logprobs.len(), outcome.tokens.len());
}

#[tokio::test]
async fn by_rejection_a_stop_token_ends_the_text_exactly_there() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let (text, _) = text_of(&channel, by_rejection(1, 7, &prompt, 20), Plain).await;
    let end = text.iter().position(|token| *token == text[10]).unwrap();
    let mut stopped = by_rejection(2, 7, &prompt, 20);
    stopped.sequence.stop_tokens = vec![text[10]];
    assert_eq!(text_of(&channel, stopped, Plain).await, (text[..=end].to_vec(), FinishReason::Stop));
}

#[tokio::test]
async fn a_tree_that_does_not_suit_the_acceptance_ends_the_stream_with_the_reason() {
    let channel = start(&[]).await;
    let (ranked, honest) = (drawn(5, &[(5, 1.0)]).tree().clone().into(), drawn(5, &[(5, 0.5), (6, 0.5)]));
    let alien = drawn(5, &[(5, 0.5), (4096, 0.5)]);
    for (open, tree, reason) in [
        (by_rejection(1, 0, &[1, 3], 5), ranked, "node 0 has children, but no draft distribution"),
        (by_rejection(2, 0, &[1, 3], 5), alien, "drawn_from holds token 4096, beyond the vocabulary of 4096"),
        (open(3, &[1, 3], 5), honest, "drawn_from is 1, beyond the limit of 0"),
    ] {
        let mut verifier = opened(&channel, open).await.unwrap();
        verifier.submit(round(0, tree)).await.unwrap();
        let fault = verifier.outcome().await.unwrap_err();
        assert_eq!((fault.message.as_str(), fault.kind), (reason, FaultKind::BadInput));
    }
}
