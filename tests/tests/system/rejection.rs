//! Acceptance by rejection: the text has the target's distribution, whoever drafts and by whatever policy, and a run
//! with the same seed is the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use espalier_client::{Answer, Client, ClientError};
use espalier_gateway::{Config, Gateway, serve};
use espalier_local::{ANY_PORT, Role, System};
use espalier_model::Arithmetic;
use espalier_proto::{FaultKind, GenerationRequest, SpeculationSummary};
use espalier_service_kit::bind;
use espalier_speculation::{Acceptance, Penalties, Sampling, Shaping, Token, drawn_policy_names};
use espalier_tests::{Proxy, address, answer, client, plan, prompts, request, start};
use futures::{StreamExt, stream};

fn rejection(temperature: f64, top_k: usize, seed: u64) -> Sampling {
    Sampling::new(temperature, top_k, 1.0, seed).unwrap().with_acceptance(Acceptance::Rejection)
}

fn by_policy(policy: &str, request: GenerationRequest) -> GenerationRequest {
    GenerationRequest { policy: Some(policy.to_owned()), ..request }
}

/// What a run counted, without what it measured.
fn counts(answer: &Answer) -> SpeculationSummary {
    let (draft, verify, wait) = Default::default();
    SpeculationSummary { draft, verify, wait, ..answer.completion.speculation.clone() }
}

#[tokio::test]
async fn the_same_seed_is_the_same_run_under_every_policy_alone_or_among_others() {
    let system = start(&["small"], Some(3), 2).await;
    let client = client(&system);
    let (prompt, _) = prompts("small").remove(0);
    let ask = |policy, seed| by_policy(policy, request("small", &prompt, 24, rejection(0.8, 0, seed)));
    let policies: Vec<&str> = drawn_policy_names().collect();
    let together =
        stream::iter(policies.clone()).map(|policy| answer(&client, ask(policy, 3))).buffered(policies.len());
    for (policy, among_others) in policies.iter().zip(together.collect::<Vec<_>>().await) {
        let alone = answer(&client, ask(policy, 3)).await;
        assert_eq!((alone.ids(), counts(&alone)), (among_others.ids(), counts(&among_others)), "{policy}");
        assert!(alone.completion.speculation.drafted > 0, "{policy}");
        assert_ne!(answer(&client, ask(policy, 4)).await.ids(), alone.ids(), "{policy}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_that_is_the_target_is_never_rejected_whatever_shapes_the_tokens() {
    let mut plan = plan(&["small"], None, 2);
    // Unless told otherwise it would multiply in bytes, and be another model by a little.
    plan.drafters[0].compute = Arithmetic::F32.into();
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let client = client(&system);
    let (prompt, _) = prompts("small").remove(0);
    let bias: BTreeMap<Token, f64> = prompt.iter().copied().zip([-100.0, 1.5, -0.5, 3.0]).collect();
    let penalties = Penalties { repetition: 1.3, presence: 0.4, frequency: 0.2 };
    let sampling = Sampling::new(0.9, 50, 0.95, 3).unwrap().with_min_p(0.02).unwrap();
    let sampling = sampling.with_shaping(Shaping::new(penalties, bias).unwrap());
    let asked = request("small", &prompt, 40, sampling.with_acceptance(Acceptance::Rejection));
    let answer = answer(&client, by_policy("constant,k=3", GenerationRequest { logprobs: Some(2), ..asked })).await;
    let speculation = &answer.completion.speculation;
    // All three of each round but the last, in which fewer may follow.
    assert!(speculation.accepted >= 3 * (speculation.rounds - 1), "{speculation:?}");
    assert!(answer.tokens.iter().all(|token| token.logprob.is_some() && token.alternatives.len() == 2));
    system.stop().await.unwrap();
}

/// Tokens that may be drawn at each position, so that two tokens have few outcomes.
const TOP_K: usize = 4;
const TEMPERATURE: f64 = 0.9;

/// The probabilities of the token after `text`, from the target's own logprobs.
async fn next(client: &Client, text: &[Token]) -> Vec<(Token, f64)> {
    let asked = request("small", text, 1, Sampling::greedy());
    let asked = GenerationRequest { logprobs: Some(TOP_K), speculate: false, ..asked };
    let best = answer(client, asked).await.tokens.remove(0).alternatives;
    let weights: Vec<f64> = best.iter().map(|token| (token.logprob / TEMPERATURE).exp()).collect();
    let sum: f64 = weights.iter().sum();
    best.iter().zip(weights).map(|(token, weight)| (token.id, weight / sum)).collect()
}

/// The exact distribution of the first two tokens after `prompt`.
async fn next_two(client: &Client, prompt: &[Token]) -> BTreeMap<[Token; 2], f64> {
    let mut exact = BTreeMap::new();
    for (first, prob) in next(client, prompt).await {
        let text = [prompt, &[first]].concat();
        exact.extend(next(client, &text).await.into_iter().map(|(second, share)| ([first, second], prob * share)));
    }
    exact
}

/// Requests that are drawn for each way of drafting.
const SEEDS: u64 = 300;

/// Requests under way at once; a verifier has room for eight, those not yet cleared away included.
const PARALLEL: usize = 3;

/// Chi-square beyond which a fair draw falls once in ten thousand times, with 15 degrees of freedom.
const CHI_SQUARE_MAX: f64 = 44.3;

/// Outcomes expected less often are counted together.
const EXPECTED_MIN: f64 = 5.0;

/// Chi-square of `counts` against the `exact` distribution of [`SEEDS`] outcomes.
fn chi_square(counts: &BTreeMap<[Token; 2], u32>, exact: &BTreeMap<[Token; 2], f64>) -> f64 {
    let (mut sum, mut rare) = (0.0, (0.0, 0.0));
    for (outcome, prob) in exact {
        let (found, expected) = (f64::from(counts.get(outcome).copied().unwrap_or(0)), prob * SEEDS as f64);
        if expected < EXPECTED_MIN {
            rare = (rare.0 + found, rare.1 + expected);
        } else {
            sum += (found - expected).powi(2) / expected;
        }
    }
    if rare.1 > 0.0 { sum + (rare.0 - rare.1).powi(2) / rare.1.max(1.0) } else { sum }
}

#[tokio::test]
async fn the_first_two_tokens_have_the_target_s_distribution_whoever_drafts() {
    let system = start(&["small"], Some(2), 2).await;
    let client = client(&system);
    // The repetition gives n-grams something to propose.
    let (text, _) = prompts("small").remove(0);
    let prompt = [&text[..12], &text[..5]].concat();
    let exact = next_two(&client, &prompt).await;
    let ask = |seed| request("small", &prompt, 3, rejection(TEMPERATURE, TOP_K, seed));
    type Variant = fn(GenerationRequest) -> GenerationRequest;
    let variants: [(&str, Variant); 5] = [
        ("plain", |asked| GenerationRequest { speculate: false, ..asked }),
        ("n-grams", |asked| GenerationRequest { drafter: Some("ngram".to_owned()), ..asked }),
        ("usual", |asked| asked),
        ("chain", |asked| by_policy("constant,k=2", asked)),
        ("tree", |asked| by_policy("vanilla-tree,width=3,depth=2", asked)),
    ];
    for (name, variant) in variants {
        let answers = stream::iter(0..SEEDS).map(|seed| answer(&client, variant(ask(seed)))).buffer_unordered(PARALLEL);
        let answers: Vec<Answer> = answers.collect().await;
        let mut counts = BTreeMap::new();
        for answer in &answers {
            *counts.entry([answer.tokens[0].id, answer.tokens[1].id]).or_default() += 1;
        }
        assert!(counts.keys().all(|outcome| exact.contains_key(outcome)), "{name}: {counts:?}");
        let found = chi_square(&counts, &exact);
        assert!(found < CHI_SQUARE_MAX, "{name}: {found}, {counts:?} for {exact:?}");
        let total = |count: fn(&SpeculationSummary) -> u64| -> u64 {
            answers.iter().map(|answer| count(&answer.completion.speculation)).sum()
        };
        let (drafted, accepted) = (total(|speculation| speculation.drafted), total(|speculation| speculation.accepted));
        assert!(name == "plain" || (0 < accepted && accepted < drafted), "{name}: {accepted} of {drafted}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_policy_that_chooses_among_drawn_tokens_is_refused_and_another_is_the_default() {
    let system = start(&["small"], Some(2), 1).await;
    let mut client = client(&system);
    let (prompt, greedy) = prompts("small").remove(0);
    let asked = request("small", &prompt, 8, rejection(0.8, 0, 1));
    for policy in ["eagle2", "opt-tree", "pct", "expected-gain"] {
        let refused = client.generate(by_policy(policy, asked.clone()), |_| {}).await;
        let Err(ClientError::Fault(fault)) = refused else { panic!("{refused:?}") };
        assert_eq!(fault.kind, FaultKind::BadInput);
        assert!(fault.message.contains(policy) && fault.message.contains("constant"), "{fault}");
    }
    assert_eq!(answer(&client, asked).await.completion.speculation.policy, Config::DRAWN_POLICY);
    // At temperature 0 nothing is drawn: every policy will do, and the text is the greedy one.
    let greedily = answer(&client, by_policy("eagle2", request("small", &prompt, 8, rejection(0.0, 0, 1)))).await;
    assert_eq!(greedily.ids(), greedy[..8]);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_lost_in_mid_stream_is_done_without() {
    const TOKENS: usize = 48;
    let system = start(&["small"], Some(2), 1).await;
    let proxy = Proxy::start(address(&system, Role::Drafter)).await;
    let verifier = format!("http://{}", address(&system, Role::Verifier));
    let config = Config::new(&[verifier], &[proxy.url().to_owned()]).unwrap();
    let bound = bind(ANY_PORT).await.unwrap();
    let mut client = Client::new(&bound.url()).unwrap();
    tokio::spawn(serve(Gateway::start(config).await, bound, std::future::pending()));

    let (prompt, _) = prompts("small").remove(0);
    let sampling = rejection(0.8, 0, 5).with_shaping(Shaping::new(Penalties::NONE, [(2, -100.0)]).unwrap());
    let (begun, wait) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let asking = client.generate(request("small", &prompt, TOKENS, sampling), |_| {
        begun.take().map(|begun| begun.send(()));
    });
    let losing = async {
        wait.await.unwrap();
        proxy.cut().await;
    };
    let (answer, ()) = tokio::join!(asking, losing);
    let answer = answer.unwrap();
    let speculation = &answer.completion.speculation;
    assert_eq!((answer.tokens.len(), speculation.drafter.as_str(), speculation.failovers), (TOKENS, "ngram", 1));
    assert!(answer.elapsed < Duration::from_secs(30));
    system.stop().await.unwrap();
}
