//! Whatever is lost on the way, the text is the same.

use std::sync::atomic::Ordering;

use crate::support::*;
use espalier_proto::GenerationRequest;
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
async fn a_target_that_never_answered_is_unknown() {
    let url = gateway(&[&Toy::gone().await], &[]).await;
    let status = generate(&url, request(5)).await.err().unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "unknown target `toy`; known targets are none at present");
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
