//! Whatever is lost on the way, the text is the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::*;
use espalier_proto::GenerationRequest;
use tokio::time::timeout;
use tonic::Code;

fn breaks_after(toy: &Toy, rounds: usize) {
    toy.life.breaks_after.store(rounds, Ordering::SeqCst);
}

#[tokio::test]
async fn a_drafter_that_is_lost_at_any_round_changes_no_token() {
    for rounds in [1, 2, 5, 20] {
        let (toy, small) = (verifier("toy").await, drafter("small", None).await);
        breaks_after(&small, rounds);
        let url = gateway(&[&toy], &[&small]).await;
        let answer = generate(&url, request(200)).await.unwrap();
        assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
        let speculation = answer.completion.speculation;
        assert_eq!((speculation.drafter.as_str(), speculation.failovers), ("ngram", 1));
    }
}

#[tokio::test]
async fn another_drafter_takes_over_from_one_that_is_lost() {
    for rounds in [1, 2, 5, 20] {
        let (toy, one, other) = (verifier("toy").await, drafter("one", None).await, drafter("other", None).await);
        let url = gateway(&[&toy], &[&one, &other]).await;
        let whole = generate(&url, request(200)).await.unwrap();
        let [first, second] = if one.life.rounds() > 0 { [&one, &other] } else { [&other, &one] };
        assert_eq!(second.life.rounds(), 0, "one drafter had the whole sequence");
        let before = whole.completion.speculation.drafter;
        breaks_after(first, first.life.rounds() + rounds);
        let answer = generate(&url, request(200)).await.unwrap();
        assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
        let speculation = answer.completion.speculation;
        assert_eq!(speculation.failovers, 1);
        assert!(speculation.drafter != before && speculation.drafter != "ngram", "{speculation:?}");
        assert!(second.life.rounds() > 0);
    }
}

#[tokio::test]
async fn when_all_drafters_are_lost_n_grams_go_on() {
    let (toy, one, other) = (verifier("toy").await, drafter("one", None).await, drafter("other", None).await);
    let url = gateway(&[&toy], &[&one, &other]).await;
    breaks_after(&one, 3);
    breaks_after(&other, 3);
    let answer = generate(&url, request(200)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
    assert_eq!((answer.completion.speculation.drafter.as_str(), answer.completion.speculation.failovers), ("ngram", 2));
}

#[tokio::test]
async fn a_drafter_that_was_asked_for_by_name_is_replaced_by_its_like_alone() {
    let (toy, other) = (verifier("toy").await, drafter("other", None).await);
    let (one, two) = (drafter("small", None).await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&one, &two, &other]).await;
    breaks_after(&one, 3);
    breaks_after(&two, 3);
    let named = GenerationRequest { drafter: Some("small".to_owned()), ..request(200) };
    let answer = generate(&url, named).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
    assert_eq!([one.life.rounds(), two.life.rounds(), other.life.rounds()], [3, 3, 0]);
    assert_eq!(answer.completion.speculation.drafter, "ngram");
}

#[tokio::test]
async fn a_verifier_that_is_lost_at_any_round_changes_no_token() {
    for rounds in [1, 2, 5, 20] {
        for drafter_name in [None, Some("ngram".to_owned())] {
            let (toy, small) = (verifier("toy").await, drafter("small", None).await);
            breaks_after(&toy, rounds);
            let url = gateway(&[&toy], &[&small]).await;
            let answer = generate(&url, GenerationRequest { drafter: drafter_name, ..request(200) }).await.unwrap();
            assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
            assert_eq!(answer.completion.speculation.failovers, 1);
        }
    }
}

#[tokio::test]
async fn a_verifier_may_be_lost_as_often_as_it_likes_if_the_text_comes_further() {
    let toy = verifier("toy").await;
    toy.life.breaks_every.store(3, Ordering::SeqCst);
    let url = gateway(&[&toy], &[]).await;
    let answer = generate(&url, GenerationRequest { speculate: false, ..request(8) }).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 8));
    // Of three rounds the last is lost.
    assert_eq!(answer.completion.speculation.failovers, 3);
}

#[tokio::test]
async fn a_replica_takes_what_fails_of_a_verifier_s_own_fault() {
    let (one, other) = (verifier("toy").await, verifier("toy").await);
    one.life.broken.store(true, Ordering::SeqCst);
    let url = gateway(&[&one, &other], &[]).await;
    for _ in 0..4 {
        assert_eq!(generate(&url, request(20)).await.unwrap().ids(), plain_text(&PROMPT, 20));
    }
    other.life.broken.store(true, Ordering::SeqCst);
    assert_eq!(generate(&url, request(20)).await.err().unwrap().code(), Code::Internal);
}

#[tokio::test]
async fn a_verifier_whose_texts_may_be_others_does_not_take_over() {
    let ends_elsewhere = |life: &Life| life.ends_more.store(true, Ordering::SeqCst);
    let is_of_another_version = |life: &Life| life.revision.store(1, Ordering::SeqCst);
    for changes in [&ends_elsewhere as &dyn Fn(&Life), &is_of_another_version] {
        let (one, other) = (verifier("toy").await, verifier("toy").await);
        let url = gateway(&[&one, &other], &[]).await;
        generate(&url, request(20)).await.unwrap();
        let [first, second] = if one.life.rounds() > 0 { [&one, &other] } else { [&other, &one] };
        changes(&second.life);
        breaks_after(first, first.life.rounds() + 2);
        let url = gateway(&[first, second], &[]).await;
        let answer = generate(&url, request(20)).await.unwrap();
        assert_eq!((answer.ids(), second.life.rounds()), (plain_text(&PROMPT, 20), 0));
    }
}

/// What comes of a long text at whose beginning a drafter was as `state` says, and no longer when it is offered again.
async fn after_a_moment(small: &Toy, state: &AtomicBool) -> Answer {
    let toy = verifier("toy").await;
    state.store(true, Ordering::SeqCst);
    let url = gateway(&[&toy], &[small]).await;
    // It stands still until it is read.
    let stream = begin(&url, request(500)).await;
    state.store(false, Ordering::SeqCst);
    let begun = Instant::now();
    eventually(|| begun.elapsed() > Duration::from_millis(1200)).await;
    let answer = rest(stream).await.unwrap();
    let whole = plain_text(&PROMPT, 500);
    assert_eq!(answer.ids(), whole[500 - answer.ids().len()..]);
    answer
}

#[tokio::test]
async fn a_drafter_that_was_full_for_a_moment_drafts_before_the_text_is_over() {
    let small = drafter("small", None).await;
    let answer = after_a_moment(&small, &small.life.full).await;
    assert_eq!(answer.completion.speculation.drafter, "small");
    assert!(small.life.rounds() > 0);
}

#[tokio::test]
async fn a_drafter_that_would_fail_again_is_not_asked_again() {
    let small = drafter("small", None).await;
    let speculation = after_a_moment(&small, &small.life.broken).await.completion.speculation;
    assert_eq!((speculation.drafter.as_str(), speculation.failovers, small.life.rounds()), ("ngram", 1, 0));
}

#[tokio::test]
async fn no_tree_is_larger_than_the_verifier_takes() {
    let toy = verifier("toy").await;
    toy.life.tree_nodes_max.store(2, Ordering::SeqCst);
    let url = gateway(&[&toy], &[]).await;
    let answer = generate(&url, request(100)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 100));
    assert_eq!(answer.completion.speculation.failovers, 0);
}

#[tokio::test]
async fn a_verifier_that_stalls_with_its_tokenizer_does_not_keep_a_gateway_from_serving() {
    let (stalling, toy) = (verifier("other").await, verifier("toy").await);
    stalling.life.stalls.store(true, Ordering::SeqCst);
    let url = timeout(Duration::from_secs(10), gateway(&[&stalling, &toy], &[])).await.unwrap();
    assert_eq!(generate(&url, request(20)).await.unwrap().ids(), plain_text(&PROMPT, 20));
}

#[tokio::test]
async fn plain_decoding_survives_a_lost_verifier_too() {
    let toy = verifier("toy").await;
    breaks_after(&toy, 7);
    let url = gateway(&[&toy], &[]).await;
    let answer = generate(&url, GenerationRequest { speculate: false, ..request(50) }).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 50));
    assert_eq!(answer.completion.speculation.drafter, "none");
}

#[tokio::test]
async fn drafter_and_verifier_may_both_be_lost() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    breaks_after(&small, 3);
    breaks_after(&toy, 9);
    let url = gateway(&[&toy], &[&small]).await;
    let answer = generate(&url, request(200)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
    assert_eq!(answer.completion.speculation.failovers, 2);
}

#[tokio::test]
async fn without_a_drafter_that_answers_n_grams_do() {
    let (toy, gone) = (verifier("toy").await, Toy::gone().await);
    let url = gateway(&[&toy], &[&gone]).await;
    let answer = generate(&url, request(50)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 50));
    assert_eq!((answer.completion.speculation.drafter.as_str(), answer.completion.speculation.failovers), ("ngram", 0));
}

#[tokio::test]
async fn a_name_may_be_that_of_a_service_that_never_answered_and_be_asked_for_again() {
    let (toy, gone) = (verifier("toy").await, Toy::gone().await);
    let asked = |target: &str| GenerationRequest { target: target.to_owned(), ..request(5) };
    for (verifiers, target, known) in [(&[&gone][..], "toy", "none at present"), (&[&toy, &gone], "other", "`toy`")] {
        let url = gateway(verifiers, &[]).await;
        let status = generate(&url, asked(target)).await.err().unwrap();
        assert_eq!(status.code(), Code::Unavailable);
        let beside = "beside 1 that never said what they are";
        assert_eq!(status.message(), format!("unknown target `{target}`; known targets are {known}, {beside}"));
    }
    let url = gateway(&[&toy], &[&gone]).await;
    let named = GenerationRequest { drafter: Some("small".to_owned()), ..request(5) };
    assert_eq!(generate(&url, named.clone()).await.err().unwrap().code(), Code::Unavailable);
    let url = gateway(&[&toy], &[]).await;
    assert_eq!(generate(&url, named).await.err().unwrap().code(), Code::InvalidArgument);
    assert_eq!(generate(&url, asked("other")).await.err().unwrap().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_second_verifier_of_a_target_stands_in_for_the_first() {
    let (one, two) = (verifier("toy").await, verifier("toy").await);
    breaks_after(&one, 5);
    breaks_after(&two, 5);
    let url = gateway(&[&one, &two], &[]).await;
    let answer = generate(&url, request(100)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 100));
    assert!(one.life.rounds() >= 5 && two.life.rounds() >= 5);
    assert_eq!(answer.completion.speculation.failovers, 2);
}

#[tokio::test]
async fn a_verifier_without_room_is_passed_over_for_another() {
    let (one, two, small) = (verifier("toy").await, verifier("toy").await, drafter("small", None).await);
    let url = gateway(&[&one, &two], &[&small]).await;
    for (full, free) in [(&one, &two), (&two, &one)] {
        full.life.full.store(true, Ordering::SeqCst);
        free.life.full.store(false, Ordering::SeqCst);
        let answer = generate(&url, request(100)).await.unwrap();
        assert_eq!(answer.ids(), plain_text(&PROMPT, 100));
        assert_eq!(answer.completion.speculation.drafter, "small");
    }
    one.life.full.store(true, Ordering::SeqCst);
    let refusal = generate(&url, request(100)).await.err().unwrap();
    assert_eq!((refusal.code(), refusal.message()), (Code::ResourceExhausted, "full"));
}
