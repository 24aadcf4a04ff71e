//! Promise 2: losing a drafter or a verifier changes latency, never text.
#![allow(clippy::unwrap_used)]

use espalier_client::Client;
use espalier_gateway::{Config, Gateway, serve};
use espalier_local::{ANY_PORT, Role, System};
use espalier_proto::GenerationRequest;
use espalier_service_kit::bind;
use espalier_tests::{Proxy, address, answer, client, prompts, request, sampling, start};
use tokio::sync::oneshot;

const TOKENS: usize = 64;

/// A system, and a second gateway that reaches its services only through proxies.
struct Fragile {
    system: System,
    drafter: Option<Proxy>,
    verifier: Option<Proxy>,
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
        Self { system, drafter: Some(drafter), verifier: Some(verifier), client }
    }

    /// Asks, and has `after` tokens come before `lose` happens.
    async fn ask_and_lose(&mut self, request: GenerationRequest, after: usize, lose: Option<Proxy>) -> Vec<u32> {
        let (begun, wait) = oneshot::channel();
        let (mut begun, mut seen) = (Some(begun), 0);
        let mut client = self.client.clone();
        let asking = client.generate(request, |tokens| {
            seen += tokens.len();
            if seen >= after && let Some(begun) = begun.take() {
                begun.send(()).unwrap();
            }
        });
        let losing = async {
            wait.await.unwrap();
            if let Some(proxy) = lose {
                proxy.cut().await;
            }
        };
        let (answer, ()) = tokio::join!(asking, losing);
        let answer = answer.unwrap();
        assert!(answer.completion.speculation.failovers > 0, "the loss came too late to matter");
        answer.ids()
    }
}

fn ask(prompt: &[u32], temperature: f64) -> GenerationRequest {
    let policy = Some("constant,k=3".to_owned());
    GenerationRequest { policy, ..request("medium", prompt, TOKENS, sampling(temperature, 5)) }
}

#[tokio::test]
async fn a_drafter_lost_in_mid_stream_changes_no_token() {
    for (temperature, after) in [(0.0, 1), (0.8, 20)] {
        let mut fragile = Fragile::start().await;
        let (prompt, _) = prompts("medium").remove(2);
        let whole = answer(&client(&fragile.system), ask(&prompt, temperature)).await;
        let drafter = fragile.drafter.take();
        assert_eq!(fragile.ask_and_lose(ask(&prompt, temperature), after, drafter).await, whole.ids());
        // And the next request does without it from the start.
        assert_eq!(answer(&fragile.client, ask(&prompt, temperature)).await.ids(), whole.ids());
        drop(fragile.verifier.take());
        fragile.system.stop().await.unwrap();
    }
}
