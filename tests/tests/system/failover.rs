//! Promise 2: losing a drafter or a verifier changes latency, never text.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use espalier_client::{Answer, Client};
use espalier_drafter::Config as DrafterConfig;
use espalier_gateway::{Config, Gateway, serve};
use espalier_local::{ANY_PORT, Plan, Profiles, Role, System};
use espalier_model::Arithmetic;
use espalier_proto::GenerationRequest;
use espalier_service_kit::{Bytes, MemoryBudget, bind};
use espalier_speculation::{Penalties, Shaping};
use espalier_tests::{Proxy, address, answer, client, model, plan, plan_in, prompts, request, sampling, socket, start};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio::sync::oneshot;
use tokio::time::timeout;

const TOKENS: usize = 64;

/// How long a client asks again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway that reaches a system's services only through proxies: the verifier through several, as if there were so many.
struct Fragile {
    drafters: Vec<(String, Proxy)>,
    verifiers: Vec<Proxy>,
    client: Client,
}

impl Fragile {
    async fn around(system: &System, verifiers: usize) -> Self {
        let drafters = system.addresses().iter().filter(|service| service.role == Role::Drafter);
        let drafters = drafters.map(async |service| (service.name.clone(), Proxy::start(socket(service)).await));
        let drafters = join_all(drafters).await;
        let verifiers = join_all((0..verifiers).map(|_| Proxy::start(address(system, Role::Verifier)))).await;
        let urls: Vec<String> = verifiers.iter().map(|proxy| proxy.url().to_owned()).collect();
        let drafter_urls: Vec<String> = drafters.iter().map(|(_, proxy)| proxy.url().to_owned()).collect();
        let config = Config::new(&urls, &drafter_urls).unwrap();
        let bound = bind(ANY_PORT).await.unwrap();
        let client = Client::new(&bound.url()).unwrap();
        tokio::spawn(serve(Gateway::start(config).await, bound, std::future::pending()));
        Self { drafters, verifiers, client }
    }

    /// All proxies.
    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.drafters.iter().map(|(_, proxy)| proxy).chain(&self.verifiers)
    }

    /// Asks, and has `after` tokens come before `lose` happens, which moves the sequence.
    async fn ask_and_lose(
        &mut self,
        request: GenerationRequest,
        after: usize,
        lose: impl AsyncFnOnce(&mut Self),
    ) -> Answer {
        let answer = self.ask_and_suffer(request, after, lose).await;
        assert!(answer.completion.speculation.failovers > 0, "the loss came too late to matter");
        answer
    }

    /// Asks, and has `after` tokens come before `suffer` happens.
    async fn ask_and_suffer(
        &mut self,
        request: GenerationRequest,
        after: usize,
        suffer: impl AsyncFnOnce(&mut Self),
    ) -> Answer {
        let (begun, wait) = oneshot::channel();
        let (mut begun, mut seen) = (Some(begun), 0);
        let mut client = self.client.clone();
        let asking = client.generate(request, |tokens| {
            seen += tokens.len();
            if seen >= after
                && let Some(begun) = begun.take()
            {
                begun.send(()).unwrap();
            }
        });
        let suffering = async {
            wait.await.unwrap();
            suffer(self).await;
        };
        let (answer, ()) = tokio::join!(asking, suffering);
        answer.unwrap()
    }
}

/// With penalties, so that prompt and answer must be told apart after a failover too.
fn ask(prompt: &[u32], temperature: f64) -> GenerationRequest {
    let penalties = Penalties { repetition: 1.1, presence: 1.5, frequency: 0.5 };
    let sampling = sampling(temperature, 5).with_shaping(Shaping::new(penalties, []).unwrap());
    let policy = Some("constant,k=3,gate=off".to_owned());
    GenerationRequest { policy, ..request("medium", prompt, TOKENS, sampling) }
}

async fn lose_drafter(fragile: &mut Fragile) {
    fragile.drafters.remove(0).1.cut().await;
}

async fn restart_verifier(fragile: &mut Fragile) {
    fragile.verifiers[0].reset();
}

/// The one in use: the gateway has a connection to each, the drafter to that one only.
async fn lose_verifier(fragile: &mut Fragile) {
    let in_use = (0..fragile.verifiers.len()).max_by_key(|&i| fragile.verifiers[i].accepted()).unwrap();
    fragile.verifiers.remove(in_use).cut().await;
}

/// What a stopped process costs: less than this beside the text, whose time varies with the machine.
const STOPPED_MAX: Duration = Duration::from_secs(3);

async fn stop_drafter(fragile: &mut Fragile) {
    fragile.drafters[0].1.stall();
}

async fn stop_verifier(fragile: &mut Fragile) {
    let in_use = (0..fragile.verifiers.len()).max_by_key(|&i| fragile.verifiers[i].accepted()).unwrap();
    fragile.verifiers[in_use].stall();
}

/// The one in use, and all others but one.
async fn stop_verifiers_but_one(fragile: &mut Fragile) {
    fragile.verifiers.sort_by_key(Proxy::accepted);
    fragile.verifiers.iter().skip(1).for_each(Proxy::stall);
}

#[tokio::test]
async fn a_client_goes_on_at_another_gateway_when_its_own_is_lost_and_the_text_is_the_same() {
    let system = start(&["medium"], None, 2).await;
    let other = system.side_gateway(Profiles::default()).await.unwrap();
    let (prompt, _) = prompts("medium").remove(2);
    for temperature in [0.0, 0.8] {
        let mut asked = ask(&prompt, temperature);
        asked.logprobs = Some(1);
        let whole = answer(&client(&system), asked.clone()).await;
        // An address behind which one gateway is, and after its loss another.
        let address = Proxy::start(address(&system, Role::Gateway)).await;
        let client = Client::new(address.url()).unwrap().resuming(PATIENCE);
        let mut seen = 0;
        let (lost, losing) = oneshot::channel();
        let (mut lost, elsewhere) = (Some(lost), other.url().strip_prefix("http://").unwrap().parse().unwrap());
        let moving = async {
            losing.await.unwrap();
            address.move_to(elsewhere);
        };
        let mut asking = client.clone();
        let asking = asking.generate(asked, |tokens| {
            seen += tokens.len();
            if seen >= 8
                && let Some(lost) = lost.take()
            {
                lost.send(()).unwrap();
            }
        });
        let (found, ()) = tokio::join!(asking, moving);
        let found = found.unwrap();
        assert!(found.resumed > 0, "the loss came too late to matter");
        assert_eq!(found.ids(), whole.ids());
        assert_eq!((found.text(), found.completion.reason), (whole.text(), whole.completion.reason));
        let logprobs = |answer: &Answer| answer.tokens.iter().map(|token| token.logprob).collect::<Vec<_>>();
        assert_eq!(logprobs(&found), logprobs(&whole));
    }
    drop(other);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn who_is_stopped_in_mid_stream_costs_a_second_and_changes_no_token() {
    let system = start(&["medium"], None, 2).await;
    let (prompt, _) = prompts("medium").remove(2);
    let asked = Instant::now();
    let whole = answer(&client(&system), ask(&prompt, 0.0)).await;
    let usual = asked.elapsed();
    for stop in [0, 1] {
        let mut fragile = Fragile::around(&system, 2).await;
        let asked = Instant::now();
        let found = match stop {
            0 => fragile.ask_and_lose(ask(&prompt, 0.0), 8, stop_drafter).await,
            _ => fragile.ask_and_lose(ask(&prompt, 0.0), 8, stop_verifier).await,
        };
        assert_eq!(found.ids(), whole.ids());
        let took = asked.elapsed();
        assert!(took < usual + STOPPED_MAX, "{took:?} where {usual:?} is usual");
        println!("who was stopped cost {:?}", took.saturating_sub(usual));
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn several_that_are_stopped_at_once_cost_little_more_than_one() {
    let system = start(&["medium"], None, 2).await;
    let (prompt, _) = prompts("medium").remove(2);
    let asked = Instant::now();
    let whole = answer(&client(&system), ask(&prompt, 0.0)).await;
    let usual = asked.elapsed();
    let mut fragile = Fragile::around(&system, 4).await;
    let asked = Instant::now();
    let found = fragile.ask_and_lose(ask(&prompt, 0.0), 8, stop_verifiers_but_one).await;
    assert_eq!(found.ids(), whole.ids());
    let took = asked.elapsed();
    let failovers = found.completion.speculation.failovers;
    println!("three verifiers that were stopped cost {:?}, in {failovers} moves", took.saturating_sub(usual));
    assert!(took < usual + STOPPED_MAX, "{took:?} where {usual:?} is usual");
    system.stop().await.unwrap();
}

/// What all that is said between services comes later by, where the network is slow.
const SLOW_BY: Duration = Duration::from_millis(15);

#[tokio::test]
async fn a_network_that_turns_slow_in_mid_stream_changes_no_token() {
    let system = start(&["medium"], None, 2).await;
    let (prompt, _) = prompts("medium").remove(2);
    for temperature in [0.0, 0.8] {
        let mut fragile = Fragile::around(&system, 2).await;
        let whole = answer(&fragile.client, ask(&prompt, temperature)).await;
        let turn_slow = async |fragile: &mut Fragile| fragile.proxies().for_each(|proxy| proxy.slow(SLOW_BY));
        let found = fragile.ask_and_suffer(ask(&prompt, temperature), 8, turn_slow).await;
        assert_eq!(found.ids(), whole.ids());
        assert!(found.elapsed > whole.elapsed, "nothing was slow");
    }
    system.stop().await.unwrap();
}

/// Where the network changes bytes in the clear, one of so many.
const GARBLED_ONE_OF: usize = 499;

/// How many ask then, one after the other, at the least. More do until the way to each service has changed some: services
/// of which the first answer is a changed one are asked nothing until they are looked at again.
const GARBLED_QUESTIONS: usize = 10;

#[tokio::test]
async fn bytes_that_are_changed_in_the_clear_end_no_service_and_hold_nobody_up() {
    let system = start(&["small"], None, 2).await;
    let fragile = Fragile::around(&system, 2).await;
    let (prompt, greedy) = prompts("small").remove(0);
    let asked = request("small", &prompt, TOKENS, sampling(0.0, 0));
    fragile.proxies().for_each(|proxy| proxy.garble(GARBLED_ONE_OF));
    let begun = Instant::now();
    for question in 0.. {
        let garbled: Vec<usize> = fragile.proxies().map(Proxy::garbled).collect();
        if question >= GARBLED_QUESTIONS && garbled.iter().all(|&bytes| bytes > 0) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "bytes changed on the way to drafter and verifiers: {garbled:?}");
        // Whatever it is told: nothing in the clear can know a token's number from another's.
        let _ = timeout(PATIENCE, fragile.client.clone().generate(asked.clone(), |_| {})).await.unwrap();
    }

    fragile.proxies().for_each(Proxy::mend);
    let begun = Instant::now();
    while !fragile
        .client
        .clone()
        .generate(asked.clone(), |_| {})
        .await
        .is_ok_and(|found| found.ids() == greedy[..TOKENS])
    {
        assert!(begun.elapsed() < PATIENCE, "no right answer any more");
    }
    assert_eq!(answer(&client(&system), asked).await.ids(), greedy[..TOKENS]);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_lost_in_mid_stream_changes_no_token() {
    let system = start(&["medium"], None, 2).await;
    for (temperature, after) in [(0.0, 1), (0.8, 20)] {
        let mut fragile = Fragile::around(&system, 1).await;
        let (prompt, _) = prompts("medium").remove(2);
        let whole = answer(&client(&system), ask(&prompt, temperature)).await;
        let found = fragile.ask_and_lose(ask(&prompt, temperature), after, lose_drafter).await;
        assert_eq!(found.ids(), whole.ids());
        // And the next request does without it from the start.
        assert_eq!(answer(&fragile.client, ask(&prompt, temperature)).await.ids(), whole.ids());
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_drafter_takes_over_in_mid_stream_and_changes_no_token() {
    let mut plan = plan(&["medium"], None, 2);
    plan.drafters.push(DrafterConfig { name: "second".to_owned(), ..plan.drafters[0].clone() });
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let (prompt, _) = prompts("medium").remove(2);
    for temperature in [0.0, 0.8] {
        let mut fragile = Fragile::around(&system, 1).await;
        let whole = answer(&fragile.client, ask(&prompt, temperature)).await;
        let first = whole.completion.speculation.drafter.clone();
        let in_use = fragile.drafters.iter().position(|(name, _)| *name == first).unwrap();
        fragile.drafters.swap(0, in_use);
        let found = fragile.ask_and_lose(ask(&prompt, temperature), 10, lose_drafter).await;
        assert_eq!(found.ids(), whole.ids());
        let speculation = found.completion.speculation;
        assert_eq!((speculation.drafter, speculation.failovers), (fragile.drafters[0].0.clone(), 1));
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_verifier_that_restarts_in_mid_stream_changes_no_token() {
    for arithmetic in Arithmetic::ALL {
        let plan = plan_in(arithmetic, plan(&["medium"], None, 2));
        let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
        for temperature in [0.0, 0.8] {
            let mut fragile = Fragile::around(&system, 1).await;
            let (prompt, _) = prompts("medium").remove(3);
            let whole = answer(&client(&system), ask(&prompt, temperature)).await;
            let found = fragile.ask_and_lose(ask(&prompt, temperature), 10, restart_verifier).await;
            assert_eq!(found.ids(), whole.ids(), "{arithmetic}, temperature {temperature}");
        }
        system.stop().await.unwrap();
    }
}

/// A system whose drafter reads the target's hidden states.
async fn start_with_edd() -> System {
    let drafters = vec![DrafterConfig::new(model("medium-edd"), None, NonZeroUsize::new(2).unwrap())];
    let plan = Plan { drafters, ..plan(&["medium"], None, 2) };
    System::start(plan, |_: &str, _, _| {}).await.unwrap()
}

#[tokio::test]
async fn a_drafter_that_reads_hidden_states_is_done_without_or_gets_them_all_again() {
    let system = start_with_edd().await;
    let (prompt, _) = prompts("medium").remove(2);
    let plain = GenerationRequest { speculate: false, ..ask(&prompt, 0.0) };
    let whole = answer(&client(&system), plain).await;
    let lost = async |verifiers: usize, lose: fn(&mut Fragile) -> BoxFuture<'_, ()>| {
        let mut fragile = Fragile::around(&system, verifiers).await;
        let found = fragile.ask_and_lose(ask(&prompt, 0.0), 1, lose).await;
        assert_eq!((found.ids(), found.text()), (whole.ids(), whole.text()));
        found.completion.speculation
    };
    let drafter_lost = lost(1, |fragile| lose_drafter(fragile).boxed()).await;
    assert_eq!(drafter_lost.drafter, "ngram");
    let restarted = lost(1, |fragile| restart_verifier(fragile).boxed()).await;
    let replaced = lost(2, |fragile| lose_verifier(fragile).boxed()).await;
    for speculation in [restarted, replaced] {
        assert_eq!((speculation.drafter.as_str(), speculation.failovers), ("medium-edd", 1));
        // Three nodes in every round but the first of each opening, before which the target has told nothing, and the last.
        assert!(speculation.drafted >= 3 * (speculation.rounds - 3), "{speculation:?}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_that_may_not_send_trees_to_a_verifier_is_done_without() {
    let mut plan = plan(&["small"], None, 2);
    plan.drafters[0].allow_verifiers = vec!["10.0.0.0/8".parse().unwrap(), "verifier".parse().unwrap()];
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let (prompt, expected) = prompts("small").remove(0);
    let whole = answer(&client(&system), request("small", &prompt, expected.len(), sampling(0.0, 5))).await;
    assert_eq!((whole.ids(), whole.completion.speculation.drafter.as_str()), (expected, "ngram"));
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_drafter_without_memory_for_a_sequence_is_done_without() {
    let mut plan = plan(&["small"], None, 2);
    plan.drafters[0].kv_memory = Some(MemoryBudget::Bytes(Bytes(1 << 20)));
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let (prompt, expected) = prompts("small").remove(0);
    let whole = answer(&client(&system), request("small", &prompt, expected.len(), sampling(0.0, 5))).await;
    assert_eq!(whole.ids(), expected);
    let speculation = whole.completion.speculation;
    assert_eq!((speculation.drafter.as_str(), speculation.failovers), ("ngram", 1));
    system.stop().await.unwrap();
}
