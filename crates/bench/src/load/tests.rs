//! A whole system under load.

use std::io::Write;

use super::*;
use crate::testing::{parsed, shipped};

fn load(flags: &[&str]) -> Load {
    parsed(&[&["--prompts", "p.jsonl", "--targets", "small", "--drafter", "small:2"], flags].concat())
}

/// What a system with the shipped models finds.
async fn found(args: &Load) -> Vec<Figures> {
    let Compared { plan, targets, arms } = Compared::new(args, slots(args), &shipped()).unwrap();
    let prompts = ["What is 2 + 3?", "How old is Ann?"].map(str::to_owned);
    let requests = requests(&targets, &prompts, &Decoding::of(args.answers)).unwrap();
    let texts = texts(&plan, &requests).await.unwrap();
    let questions = arms.iter().map(|arm| questions(arm, &requests, &texts)).collect();
    let running = start(plan).await.unwrap();
    let client = Client::new(running.gateway()).unwrap();
    let bench = Bench { client, args, arms, targets, questions, asked: AtomicUsize::new(0) };
    let found = bench.run(&levels(args)).await.unwrap();
    running.stop().await.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_is_measured_at_every_level_and_all_texts_are_those_of_plain_decoding() {
    let args = load(&["--drafters-each", "small:3", "--concurrency", "1,4", "--requests", "6", "--max-tokens", "10"]);
    let found = found(&args).await;
    let measured: Vec<_> = found.iter().map(|figures| (figures.arm, figures.concurrency)).collect();
    let arms = |count| ["plain", "shared", "each"].map(|arm| (arm, Some(count)));
    assert_eq!(measured, [arms(1), arms(4)].concat());
    for figures in &found {
        // Two turns of six requests; as many clients as slots, and nobody is refused.
        assert_eq!((figures.requests, figures.finished, figures.refused), (12, 12, 0), "{figures:?}");
        assert!(figures.is_sound() && figures.ratio.is_some() && figures.first_token_ms.is_some(), "{figures:?}");
    }
    for figures in &found {
        assert_eq!(figures.to_each.is_some(), figures.arm == "shared", "{figures:?}");
    }
    assert_eq!(found[0].ratio, Some(1.0));
    assert_eq!(found[0].tau, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_slots_are_refused_with_a_hint() {
    let args = load(&["--rate", "10000", "--slots", "1", "--requests", "8", "--repeats", "1", "--max-tokens", "24"]);
    let found = found(&args).await;
    assert_eq!(found.iter().map(|figures| figures.rate).collect::<Vec<_>>(), [Some(10_000.0); 2]);
    for figures in &found {
        assert!(figures.refused > 0 && figures.finished > 0 && figures.finished + figures.refused == 8, "{figures:?}");
        assert_eq!(figures.unhinted, 0);
        assert!(figures.is_sound(), "{figures:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_text_than_plain_decoding_s_is_counted() {
    let args = load(&["--max-tokens", "6"]);
    let Compared { plan, targets, arms } = Compared::new(&args, 4, &shipped()).unwrap();
    let running = start(plan).await.unwrap();
    let client = Client::new(running.gateway()).unwrap();
    let asked = requests(&targets, &["What is 2 + 3?".to_owned()], &Decoding::of(args.answers)).unwrap();
    let other =
        client.clone().generate(GenerationRequest { max_tokens: 5, ..asked[0].request.clone() }, |_| {}).await.unwrap();
    let questions = vec![questions(&arms[0], &asked, &[Text::from(&other)])];
    let bench = Bench { client, args: &args, arms, targets, questions, asked: AtomicUsize::new(0) };
    let step = Step { arm: 0, level: Level::Concurrency(2), requests: 3, repeat: 0 };
    let turn = bench.turn(step, &ProgressBar::hidden()).await.unwrap();
    running.stop().await.unwrap();
    let figures = Figures::new(&bench.arms[0], Level::Concurrency(2), &[&turn], &[&turn]);
    assert_eq!((figures.finished, figures.different), (3, 3));
    assert!(!figures.is_sound());
}

#[test]
fn prompts_of_several_files_are_asked_in_turns() {
    let file = |lines: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        file
    };
    let (long, short) =
        (file("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n{\"prompt\": \"c\"}\n"), file("{\"prompt\": \"x\"}\n"));
    let args = Load { prompts: vec![long.path().to_owned(), short.path().to_owned()], ..load(&[]) };
    assert_eq!(mixed(&args).unwrap(), ["a", "x", "b", "c"]);
}

#[test]
fn there_are_slots_for_all_clients_unless_told_otherwise() {
    assert_eq!(slots(&load(&["--concurrency", "3,12,5"])), 12);
    let two = ["--targets", "medium"];
    assert_eq!(slots(&load(&[&two[..], &["--concurrency", "3"]].concat())), 4);
    assert_eq!(slots(&load(&[&two[..], &["--concurrency", "256"]].concat())), 256);
    assert_eq!(slots(&load(&["--rate", "4"])), OPEN_SLOTS);
    assert_eq!(slots(&load(&["--slots", "7"])), 7);
}
