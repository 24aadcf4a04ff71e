//! What a client gets when all goes well.

use std::time::Duration;

use crate::support::*;
use espalier_gateway::{Config, Profiles};
use espalier_proto::{GenerationEvent, GenerationRequest, Message, Prompt, TargetCard, pb};
use espalier_speculation::{FinishReason, Sampling, StopStrings};
use tonic::{Code, Request};

#[tokio::test]
async fn the_text_is_the_target_s_whoever_drafts() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&small]).await;
    let plain = GenerationRequest { speculate: false, ..request(200) };
    let ngram = GenerationRequest { drafter: Some("ngram".to_owned()), ..request(200) };
    for (request, drafter) in [(request(200), "small"), (ngram, "ngram"), (plain, "none")] {
        let answer = generate(&url, request).await.unwrap();
        assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
        let speculation = &answer.completion.speculation;
        assert_eq!((speculation.drafter.as_str(), speculation.failovers), (drafter, 0));
        assert_eq!(answer.completion.reason, FinishReason::Length);
    }
}

#[tokio::test]
async fn a_profile_is_sent_to_the_drafter_and_for_the_target_that_it_names() {
    let (toy, other) = (verifier("toy").await, verifier("other").await);
    let (sorted, plain) = (drafter("sorted", None).await, drafter("plain", None).await);
    let [verifiers, drafters] = [[&toy, &other], [&sorted, &plain]].map(|toys| toys.map(|toy| toy.url.clone()));
    let profiles =
        Profiles::parse(r#"{"toy": {"sorted": [0.75, 0.5], "plain": [0.5]}, "other": {"absent": [0.9]}}"#).unwrap();
    let url = start(Config::new(&verifiers, &drafters).unwrap().with_profiles(profiles)).await;
    for (target, name, drafter, expected) in [
        ("toy", "sorted", &sorted, Some("0.75,0.5")),
        // It has three exits, and one threshold is for two.
        ("toy", "plain", &plain, None),
        ("other", "sorted", &sorted, None),
    ] {
        let asked = GenerationRequest { target: target.to_owned(), drafter: Some(name.to_owned()), ..request(20) };
        assert_eq!(generate(&url, asked).await.unwrap().ids(), plain_text(&PROMPT, 20));
        let sent = drafter.life.thresholds.lock().unwrap().as_ref().map(ToString::to_string);
        assert_eq!(sent.as_deref(), expected, "{name} for {target}");
    }
}

#[tokio::test]
async fn the_policy_is_the_request_s_or_the_profile_s_or_the_usual_one() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let profiles =
        Profiles::parse(r#"{"toy": {"small": {"policy": "constant,k=2"}, "*": {"policy": "cape"}}}"#).unwrap();
    let config = Config::new(&[toy.url], &[small.url]).unwrap();
    let [usual, url] = [start(config.clone()).await, start(config.with_profiles(profiles)).await];
    let named = GenerationRequest { policy: Some("svip".to_owned()), ..request(5) };
    let ngram = GenerationRequest { drafter: Some("ngram".to_owned()), ..request(5) };
    for (url, asked, policy) in [
        (&usual, request(5), "expected-gain"),
        (&url, request(5), "constant,k=2"),
        (&url, named, "svip"),
        (&url, ngram, "cape"),
    ] {
        assert_eq!(generate(url, asked).await.unwrap().completion.speculation.policy, policy);
    }
}

#[tokio::test]
async fn the_end_tells_how_it_went() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let answer = generate(&url, request(200)).await.unwrap();
    let (completion, speculation) = (&answer.completion, &answer.completion.speculation);
    assert_eq!((completion.prompt_tokens, completion.completion_tokens), (PROMPT.len(), 200));
    let drafted = answer.tokens.iter().filter(|token| token.drafted).count();
    assert_eq!(speculation.accepted, drafted as u64);
    assert!(drafted > 0, "a periodic text has n-grams that come true");
    assert_eq!(speculation.rounds, toy.life.rounds() as u64);
    assert_eq!(speculation.tau, Some(200.0 / speculation.rounds as f64));
    assert_eq!(speculation.accepted_by_depth.iter().sum::<u64>(), speculation.accepted);
    assert_eq!(speculation.policy, "expected-gain");
}

#[tokio::test]
async fn the_pieces_of_text_make_the_whole() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let answer = generate(&url, request(100)).await.unwrap();
    assert_eq!(answer.text(), tokenizer().decode(&answer.ids()).unwrap());
}

#[tokio::test]
async fn prompts_come_as_text_as_conversation_or_as_tokens() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let tokenizer = tokenizer();
    let said = vec![Message::new("user", "How many?")].into();
    let chat = tokenizer.encode_chat(&espalier_text::Message::user("How many?").into()).unwrap();
    let text = tokenizer.encode("How many?", true).unwrap();
    for (prompt, tokens) in [
        (Prompt::Conversation(said), chat),
        (Prompt::Text("How many?".to_owned()), text),
        (Prompt::Tokens(vec![5, 6]), vec![5, 6]),
    ] {
        let answer = generate(&url, GenerationRequest { prompt, ..request(20) }).await.unwrap();
        assert_eq!(answer.completion.prompt_tokens, tokens.len());
        assert_eq!(answer.ids(), plain_text(&tokens, 20));
    }
}

#[tokio::test]
async fn a_stop_token_ends_the_text() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let text = plain_text(&PROMPT, 20);
    let answer = generate(&url, GenerationRequest { stop_tokens: vec![text[6]], ..request(20) }).await.unwrap();
    let end = text.iter().position(|token| *token == text[6]).unwrap();
    assert_eq!(answer.ids(), text[..=end]);
    assert_eq!(answer.completion.reason, FinishReason::Stop);
}

#[tokio::test]
async fn a_stop_string_ends_the_text_before_it_and_frees_everything() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&small]).await;
    let whole = generate(&url, request(200)).await.unwrap();
    let stop: String = whole.text().chars().skip(100).take(5).collect();
    let begin = whole.text().find(&stop).unwrap();
    let stop_strings = StopStrings::new(vec![stop.clone()]).unwrap();
    for speculate in [true, false] {
        let request = GenerationRequest { stop_strings: stop_strings.clone(), speculate, ..request(200) };
        let answer = generate(&url, request).await.unwrap();
        assert_eq!(answer.text(), whole.text()[..begin]);
        let completion = &answer.completion;
        assert_eq!((completion.reason, completion.completion_tokens), (FinishReason::Stop, answer.tokens.len()));
        assert_eq!(completion.stop_string.as_ref(), Some(&stop));
        assert_eq!(answer.ids(), whole.ids()[..answer.tokens.len()]);
        let drafted = answer.tokens.iter().filter(|token| token.drafted).count();
        assert_eq!(completion.speculation.accepted, drafted as u64);
    }
    eventually(|| toy.life.open() == 0 && small.life.open() == 0).await;
}

#[tokio::test]
async fn logprobs_that_a_service_owes_are_missed() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let asked = GenerationRequest { logprobs: Some(1), speculate: false, ..request(5) };
    let status = generate(&url, asked).await.err().unwrap();
    assert_eq!((status.code(), status.message()), (Code::Internal, "a round committed 1 tokens with 0 logprobs"));
}

#[tokio::test]
async fn a_seed_that_was_not_given_is_drawn_and_told() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let sampled = |seed| GenerationRequest { sampling: Sampling::new(0.8, 0, 1.0, seed).unwrap(), ..request(5) };
    let drawn = generate(&url, sampled(0)).await.unwrap().completion.seed;
    assert_ne!(drawn, generate(&url, sampled(0)).await.unwrap().completion.seed);
    let given = GenerationRequest { seeded: true, ..sampled(77) };
    assert_eq!(generate(&url, given).await.unwrap().completion.seed, 77);
}

#[tokio::test]
async fn an_answer_that_broke_off_anywhere_goes_on_with_what_was_missing() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let [url, other] = [gateway(&[&toy], &[&small]).await, gateway(&[&toy], &[&small]).await];
    let uncut = generate(&url, request(40)).await.unwrap();
    let stop: String = uncut.text().chars().skip(uncut.text().chars().count() / 2).take(4).collect();
    let stopped = GenerationRequest { stop_strings: StopStrings::new(vec![stop]).unwrap(), ..request(40) };
    for asked in [request(40), stopped] {
        let whole = generate(&url, asked.clone()).await.unwrap();
        for came in 0..=whole.tokens.len() {
            let generated = whole.ids()[..came].to_vec();
            let missing = generate(&other, GenerationRequest { generated, ..asked.clone() }).await.unwrap();
            assert_eq!(missing.tokens.len(), whole.tokens.len() - came);
            let told = whole.tokens[..came].iter().chain(&missing.tokens);
            let (ids, texts): (Vec<_>, Vec<_>) = told.map(|token| (token.id, token.text.as_str())).unzip();
            assert_eq!(ids, whole.ids());
            assert_eq!(texts.concat() + &missing.completion.text, whole.text());
            let (found, expected) = (&missing.completion, &whole.completion);
            assert_eq!((found.reason, &found.stop_string), (expected.reason, &expected.stop_string));
            assert_eq!(found.completion_tokens, expected.completion_tokens);
            assert_eq!(found.prompt_tokens, expected.prompt_tokens);
        }
    }
}

#[tokio::test]
async fn that_a_request_was_let_in_is_told_first_with_its_seed() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let sampling = Sampling::new(0.8, 0, 1.0, 77).unwrap();
    let asked = GenerationRequest { sampling, seeded: true, ..request(5) };
    let mut stream = client(&url).generate(pb::GenerateRequest::from(asked)).await.unwrap().into_inner();
    let first = GenerationEvent::try_from(stream.message().await.unwrap().unwrap()).unwrap();
    let GenerationEvent::Begun(begun) = first else { panic!("{first:?}") };
    assert_eq!((begun.seed, begun.prompt_tokens), (77, PROMPT.len()));
}

#[tokio::test]
async fn targets_are_listed_with_the_drafters_that_suit_them() {
    let (toy, other) = (verifier("toy").await, verifier("other").await);
    let (small, alien) = (drafter("small", None).await, drafter("alien", Some("another")).await);
    let url = gateway(&[&toy, &other, &Toy::gone().await], &[&small, &alien]).await;
    let listed = client(&url).list_targets(pb::ListTargetsRequest {}).await.unwrap().into_inner();
    let listed: Vec<TargetCard> =
        listed.targets.into_iter().map(|target| TargetCard::try_from(target).unwrap()).collect();
    assert_eq!(listed.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), ["other", "toy"]);
    assert!(listed.iter().all(|target| target.drafters == ["small"] && target.context == CONTEXT));
}

#[tokio::test]
async fn a_client_that_goes_away_frees_everything() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&small]).await;
    let mut stream = client(&url).generate(pb::GenerateRequest::from(request(500))).await.unwrap().into_inner();
    for _ in ["that it has begun", "a round"] {
        stream.message().await.unwrap().unwrap();
    }
    drop(stream);
    eventually(|| toy.life.open() == 0 && small.life.open() == 0).await;
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_cut_and_called_late() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let mut client = narrow_client(&url);
    let mut due = Request::new(pb::GenerateRequest::from(GenerationRequest { speculate: false, ..request(500) }));
    due.set_timeout(Duration::from_millis(200));
    let mut stream = client.generate(due).await.unwrap().into_inner();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the whole text came in time"),
            Err(status) => break status,
        }
    };
    assert_eq!(end.code(), Code::DeadlineExceeded);
    eventually(|| toy.life.open() == 0).await;
}
