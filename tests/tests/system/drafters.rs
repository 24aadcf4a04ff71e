//! Drafters of every kind, trained here for `small`: the text is the target's own whoever drafts, and a drafter that was
//! made for one target serves no other.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use espalier_client::{Answer, Client, ClientError};
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{Profiles, Role, System};
use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::{Fault, FaultKind, GenerationRequest, Party, SequenceId, SequenceSpec, Start};
use espalier_service_kit::channel;
use espalier_speculation::Sampling;
use espalier_tests::{address, answer, client, model, plan, prompts, request, sampling};
use espalier_text::Tokenizer;
use espalier_trainer::{
    Blind, DataOptions, EarlyExitMethod, EddMethod, Method, OptimiserOptions, Options, Recipe, Sight, SortedMethod,
    train,
};
use futures::future::join_all;
use tempfile::TempDir;

const TARGET: &str = "small";
const OTHER: &str = "medium";
const TOKENS: usize = 32;

/// Chains and trees, cautious and bold; the first rests when drafting does not pay.
const POLICIES: [&str; 4] = ["expected-gain", "constant,k=4", "vanilla-tree,depth=3", "eagle2"];

/// Drafters trained for a few steps on what the target says.
struct Workshop(TempDir);

impl Workshop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::open(&model(TARGET)).unwrap();
        let line = |(prompt, greedy): (Vec<u32>, Vec<u32>)| {
            let text = tokenizer.decode(&[prompt, greedy].concat()).unwrap();
            format!("{}\n", serde_json::json!({ "text": text }))
        };
        fs::write(folder.path().join("text.jsonl"), prompts(TARGET).into_iter().take(2).map(line).collect::<String>())
            .unwrap();
        Self(folder)
    }

    fn train(&self, name: &str, method: Method, steps: usize) -> DrafterConfig {
        let data = DataOptions {
            files: vec![self.0.path().join("text.jsonl")],
            validation_share: 0.0,
            length: 64,
            batch: 2,
            epochs: 1000,
            steps_max: Some(steps),
            ..DataOptions::default()
        };
        let optimiser = OptimiserOptions { learning_rate: 3e-3, ..OptimiserOptions::default() };
        let options = Options { optimiser, threads: 2, ..Options::default() };
        let folder = self.0.path().join(name);
        train(&Recipe { method, data, options }, &folder, &mut Blind, &AtomicBool::new(false)).unwrap();
        DrafterConfig::new(folder, None, NonZeroUsize::new(2).unwrap())
    }

    fn edd(&self, name: &str, sight: Sight) -> DrafterConfig {
        self.train(name, Method::Edd(EddMethod { sight, ..EddMethod::new(model(TARGET)) }), 8)
    }

    fn sorted(&self) -> DrafterConfig {
        let method = SortedMethod::new(model(TARGET), vec![2, 5, 8]);
        DrafterConfig { thresholds: Some("0.5,0.6".to_owned()), ..self.train("sorted", Method::Sorted(method), 2) }
    }

    fn early_exit(&self) -> DrafterConfig {
        let method = EarlyExitMethod { target: model(TARGET), shared_layers: 4 };
        DrafterConfig { target_model: Some(model(TARGET)), ..self.train("early-exit", Method::EarlyExit(method), 6) }
    }
}

/// A system of both targets and these drafters.
async fn start(drafters: Vec<DrafterConfig>) -> System {
    let plan = espalier_local::Plan { drafters, ..plan(&[TARGET, OTHER], None, 2) };
    System::start(plan, |_: &str, _, _| {}).await.unwrap()
}

fn ask(target: &str, drafter: &str, sampling: Sampling) -> GenerationRequest {
    let (prompt, _) = prompts(TARGET).remove(0);
    GenerationRequest { drafter: Some(drafter.to_owned()), ..request(target, &prompt, TOKENS, sampling) }
}

/// Asks under all policies at once, greedily and not; the text must be that of plain decoding, and some of it drafted.
async fn gives_the_plain_text(client: &Client, drafter: &str) {
    for sampling in [sampling(0.0, 0), sampling(0.8, 7)] {
        let request = ask(TARGET, drafter, sampling);
        let plain = GenerationRequest { speculate: false, drafter: None, ..request.clone() };
        let plain = answer(client, plain).await;
        let by_policy =
            |policy: &&str| GenerationRequest { policy: Some(format!("{policy},gate=off")), ..request.clone() };
        let drafted = join_all(POLICIES.iter().map(by_policy).map(|request| answer(client, request))).await;
        for answer in &drafted {
            let what = format!("{:?}", answer.completion.speculation);
            assert_eq!(answer.completion.speculation.drafter, drafter, "{what}");
            assert_eq!((answer.ids(), answer.text()), (plain.ids(), plain.text()), "{what}");
        }
        let accepted: u64 = drafted.iter().map(|answer| answer.completion.speculation.accepted).sum();
        assert!(accepted > 0, "{drafter} was never of use");
    }
}

#[tokio::test]
async fn every_kind_gives_the_plain_text() {
    let workshop = Workshop::new();
    let independent = DrafterConfig::new(model(TARGET), None, NonZeroUsize::new(2).unwrap());
    let edds = [workshop.edd("edd", Sight::TokensAndStates), workshop.edd("edd-of-states", Sight::States)];
    let drafters = [&edds[..], &[workshop.sorted(), workshop.early_exit(), independent]].concat();
    let system = start(drafters).await;
    let client = client(&system);
    for drafter in ["edd", "edd-of-states", "sorted", "early-exit", TARGET] {
        gives_the_plain_text(&client, drafter).await;
    }
    system.stop().await.unwrap();
}

/// `small` itself with exits after layers 2 and 5, in `folder`.
fn exits_of_small(folder: &Path) -> DrafterConfig {
    for entry in fs::read_dir(model(TARGET)).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let config = folder.join("config.json");
    let mut read: serde_json::Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    read["espalier_exits"] = serde_json::json!([2, 5, read["num_hidden_layers"]]);
    fs::write(config, read.to_string()).unwrap();
    let drafter = DrafterConfig::new(folder.to_owned(), None, NonZeroUsize::new(2).unwrap());
    DrafterConfig { name: "sorted".to_owned(), ..drafter }
}

/// Asks through a gateway with these thresholds for [`TARGET`], or with none.
async fn with_thresholds(system: &System, thresholds: Option<&str>) -> Answer {
    let json = thresholds.map_or_else(|| "{}".to_owned(), |list| format!(r#"{{"{TARGET}": {{"sorted": [{list}]}}}}"#));
    let gateway = system.side_gateway(Profiles::parse(&json).unwrap()).await.unwrap();
    let request = GenerationRequest {
        policy: Some("constant,k=4,gate=off".to_owned()),
        ..ask(TARGET, "sorted", sampling(0.0, 0))
    };
    answer(&Client::new(gateway.url()).unwrap(), request).await
}

#[tokio::test]
async fn thresholds_of_a_profile_reach_the_drafter_and_leave_the_text_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let system = start(vec![exits_of_small(folder.path())]).await;
    let [bold, cautious, tuned, wrong] = [Some("0, 0"), Some("1, 1"), None, Some("0.5")];
    let [bold, cautious] = [with_thresholds(&system, bold).await, with_thresholds(&system, cautious).await];
    let tau = |answer: &Answer| answer.completion.speculation.tau.unwrap();
    assert!(tau(&cautious) > 4.0, "all layers are the target itself: {}", tau(&cautious));
    assert!(tau(&bold) < 3.0, "two layers know little: {}", tau(&bold));
    let [tuned, wrong] = [with_thresholds(&system, tuned).await, with_thresholds(&system, wrong).await];
    // Thresholds for another number of exits are not used.
    let speculation = &wrong.completion.speculation;
    assert_eq!((speculation.drafter.as_str(), speculation.failovers), ("sorted", 0));
    for answer in [&bold, &tuned, &wrong] {
        assert_eq!(answer.ids(), cautious.ids());
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_for_one_target_serves_no_other() {
    let workshop = Workshop::new();
    let system = start(vec![workshop.train("edd", Method::Edd(EddMethod::new(model(TARGET))), 1)]).await;
    let mut client = client(&system);

    let targets = client.targets().await.unwrap();
    let drafters: Vec<_> = targets.iter().map(|target| (target.name.as_str(), target.drafters.clone())).collect();
    assert_eq!(drafters, [(OTHER, vec![]), (TARGET, vec!["edd".to_owned()])]);

    let refused = client.generate(ask(OTHER, "edd", sampling(0.0, 0)), |_| {}).await;
    let Err(ClientError::Fault(fault)) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!((fault.party, fault.kind), (Party::Client, FaultKind::BadInput));
    assert!(fault.message.starts_with("drafter `edd` was made for `small` of fingerprint "), "{fault}");
    assert!(fault.message.contains("not for `medium` of "), "{fault}");

    let any = GenerationRequest { drafter: None, ..ask(OTHER, "", sampling(0.0, 0)) };
    assert_eq!(answer(&client, any).await.completion.speculation.drafter, "ngram");

    let fault = speculate(&system).await;
    assert_eq!((fault.party, fault.kind), (Party::Gateway, FaultKind::BadInput));
    assert!(fault.message.contains("not for `medium` of "), "{fault}");
    system.stop().await.unwrap();
}

/// What the drafter itself says to a sequence for the other target.
async fn speculate(system: &System) -> Fault {
    let verifier = system.addresses().iter().find(|service| service.name == OTHER).unwrap();
    let start = Start {
        sequence: SequenceSpec::new(SequenceId::from(1), vec![1, 300], 4),
        target: OTHER.to_owned(),
        verifier: verifier.url.clone(),
        policy: "svip".to_owned(),
        exit_thresholds: None,
        trees: false,
    };
    let drafter = channel(&format!("http://{}", address(system, Role::Drafter))).unwrap();
    let messages = futures::stream::iter([start.into()]);
    let status = DrafterClient::new(drafter).speculate(messages).await.unwrap_err();
    Fault::from_status(Party::Drafter, &status)
}
