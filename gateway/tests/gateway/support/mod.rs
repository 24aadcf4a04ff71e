//! A verifier and a drafter that speak real gRPC over a target that is a plain
//! function, and a gateway in front of them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod black_hole;
mod life;
mod program;
mod target;
mod toys;

use std::time::Duration;

use espalier_gateway::{Config, Gateway, serve};
use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{Completion, GeneratedToken, GenerationEvent, GenerationRequest, Prompt, SystemStatus, pb};
use espalier_service_kit::{bind, channel};
use espalier_speculation::{Sampling, StopStrings, Token};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

pub use black_hole::*;
pub use life::Life;
pub use program::Program;
pub use target::*;
pub use toys::*;

/// Starts a gateway and returns where it is.
pub async fn gateway(verifiers: &[&Toy], drafters: &[&Toy]) -> String {
    let urls = |toys: &[&Toy]| toys.iter().map(|toy| toy.url.clone()).collect::<Vec<_>>();
    let config = Config::new(&urls(verifiers), &urls(drafters)).unwrap();
    start(config).await
}

pub async fn start(config: Config) -> String {
    start_and_watch(config).await.0
}

/// Starts a gateway and returns where it is, and itself.
pub async fn start_and_watch(config: Config) -> (String, Gateway) {
    let (bound, gateway) = (bind(ANY_PORT).await.unwrap(), Gateway::start(config).await);
    let url = bound.url();
    tokio::spawn(serve(gateway.clone(), bound, std::future::pending()));
    (url, gateway)
}

pub fn client(url: &str) -> GenerationClient<Channel> {
    GenerationClient::new(channel(url).unwrap())
}

/// A client whose answers do not fit into the network: what it does not read is not even sent.
pub fn narrow_client(url: &str) -> GenerationClient<Channel> {
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
    GenerationClient::new(endpoint.initial_stream_window_size(256).connect_lazy())
}

pub const PROMPT: [Token; 4] = [1, 300, 301, 302];

pub fn request(max_tokens: usize) -> GenerationRequest {
    GenerationRequest {
        target: "toy".to_owned(),
        prompt: Prompt::Tokens(PROMPT.to_vec()),
        max_tokens,
        sampling: Sampling::greedy(),
        seeded: false,
        stop_tokens: vec![],
        stop_strings: StopStrings::default(),
        logprobs: None,
        policy: None,
        drafter: None,
        speculate: true,
        generated: vec![],
        cut_to_context: false,
        rounds: false,
        constraint: None,
    }
}

/// A whole answer.
pub struct Answer {
    pub tokens: Vec<GeneratedToken>,
    pub completion: Completion,
}

impl Answer {
    pub fn ids(&self) -> Vec<Token> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    pub fn text(&self) -> String {
        self.tokens.iter().map(|token| token.text.as_str()).chain([self.completion.text.as_str()]).collect()
    }
}

pub async fn generate(url: &str, request: GenerationRequest) -> Result<Answer, Status> {
    rest(client(url).generate(pb::GenerateRequest::from(request)).await?.into_inner()).await
}

/// An answer to a request of a session.
pub async fn generate_in_session(url: &str, session: &str, asked: GenerationRequest) -> Result<Answer, Status> {
    let mut asked = Request::new(pb::GenerateRequest::from(asked));
    asked.metadata_mut().insert("x-espalier-session", session.parse().unwrap());
    rest(client(url).generate(asked).await?.into_inner()).await
}

/// A long answer whose first tokens have come, and whose others come only when they are read.
pub async fn begin(url: &str, request: GenerationRequest) -> Streaming<pb::GenerateResponse> {
    let narrow = Endpoint::from_shared(url.to_owned()).unwrap().initial_stream_window_size(256);
    let mut client = GenerationClient::new(narrow.connect_lazy());
    let mut stream = client.generate(pb::GenerateRequest::from(request)).await.unwrap().into_inner();
    for _ in ["that it has begun", "a round"] {
        stream.message().await.unwrap().unwrap();
    }
    stream
}

/// What of an answer has not been read yet.
pub async fn rest(mut stream: Streaming<pb::GenerateResponse>) -> Result<Answer, Status> {
    let mut tokens = Vec::new();
    while let Some(message) = stream.message().await? {
        match GenerationEvent::try_from(message).unwrap() {
            GenerationEvent::Begun(_) => {}
            GenerationEvent::Tokens(more) => tokens.extend(more.tokens),
            GenerationEvent::Finished(completion) => return Ok(Answer { tokens, completion: *completion }),
        }
    }
    panic!("the stream ended without a completion");
}

/// Waits until `what` holds; fails after half a minute, for a machine may have much else to do.
pub async fn eventually(what: impl Fn() -> bool) {
    let holds = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), holds).await.unwrap();
}

/// What the gateway tells of the system.
pub async fn status(url: &str) -> SystemStatus {
    let answer = client(url).status(pb::SystemStatusRequest {}).await.unwrap();
    answer.into_inner().try_into().unwrap()
}
