//! Promise 2: losing a drafter or a verifier changes latency, never text.
#![allow(clippy::unwrap_used)]

use espalier_client::Client;
use espalier_gateway::{Config, Gateway, serve};
use espalier_local::{ANY_PORT, Role, System};
use espalier_proto::GenerationRequest;
use espalier_service_kit::bind;
use espalier_speculation::{Penalties, Shaping};
use espalier_tests::{Proxy, address, answer, client, prompts, request, sampling, start};
use tokio::sync::oneshot;

const TOKENS: usize = 64;

/// A system, and a second gateway that reaches its services only through proxies.
struct Fragile {
    system: System,
    drafter: Option<Proxy>,
    verifier: Proxy,
    client: Client,
}

impl Fragile {
    async fn start() -> Self {
        let system = start(&["medium"], None, 2).await;
        let drafter = Proxy::start(address(&system, Role::Drafter)).await;
        let verifier = Proxy::start(address(&system, Role::Verifier)).await;
        let config = Config::new(&[verifier.url().to_owned()], &[drafter.url().to_owned()]).unwrap();
        let bound = bind(ANY_PORT).await.unwrap();
        let client = Client::new(&bound.url()).unwrap();
        tokio::spawn(serve(Gateway::start(config).await, bound, std::future::pending()));
        Self { system, drafter: Some(drafter), verifier, client }
    }

    /// Asks, and has `after` tokens come before `lose` happens.
    async fn ask_and_lose(
        &mut self,
        request: GenerationRequest,
        after: usize,
        lose: impl AsyncFnOnce(&mut Self),
    ) -> Vec<u32> {
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
        let losing = async {
            wait.await.unwrap();
            lose(self).await;
        };
        let (answer, ()) = tokio::join!(asking, losing);
        let answer = answer.unwrap();
        assert!(answer.completion.speculation.failovers > 0, "the loss came too late to matter");
        answer.ids()
    }
}

/// With penalties, so that prompt and answer must be told apart after a failover too.
impl Fragile {
    async fn stop(self) {
        let Self { system, drafter, verifier, client } = self;
        drop((drafter, verifier, client));
        system.stop().await.unwrap();
    }
}

fn ask(prompt: &[u32], temperature: f64) -> GenerationRequest {
    let penalties = Penalties { repetition: 1.1, presence: 1.5, frequency: 0.5 };
    let sampling = sampling(temperature, 5).with_shaping(Shaping::new(penalties, []).unwrap());
    let policy = Some("constant,k=3".to_owned());
    GenerationRequest { policy, ..request("medium", prompt, TOKENS, sampling) }
}

#[tokio::test]
async fn a_drafter_lost_in_mid_stream_changes_no_token() {
    for (temperature, after) in [(0.0, 1), (0.8, 20)] {
        let mut fragile = Fragile::start().await;
        let (prompt, _) = prompts("medium").remove(2);
        let whole = answer(&client(&fragile.system), ask(&prompt, temperature)).await;
        let lose = async |fragile: &mut Fragile| fragile.drafter.take().unwrap().cut().await;
        assert_eq!(fragile.ask_and_lose(ask(&prompt, temperature), after, lose).await, whole.ids());
        // And the next request does without it from the start.
        assert_eq!(answer(&fragile.client, ask(&prompt, temperature)).await.ids(), whole.ids());
        fragile.stop().await;
    }
}

#[tokio::test]
async fn a_verifier_that_restarts_in_mid_stream_changes_no_token() {
    for temperature in [0.0, 0.8] {
        let mut fragile = Fragile::start().await;
        let (prompt, _) = prompts("medium").remove(3);
        let whole = answer(&client(&fragile.system), ask(&prompt, temperature)).await;
        let restart = async |fragile: &mut Fragile| fragile.verifier.reset();
        assert_eq!(fragile.ask_and_lose(ask(&prompt, temperature), 10, restart).await, whole.ids());
        fragile.stop().await;
    }
}
