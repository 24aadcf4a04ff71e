//! One text, whatever way it takes: random requests over gRPC and HTTP, with and without speculation, have the same tokens
//! and logprobs.

use espalier_client::Answer;
use espalier_local::Role;
use espalier_proto::{GenerationRequest, Prompt};
use espalier_speculation::{Sampling, StopStrings};
use espalier_tests::{address, answer, client, prompts, request, sampling, start};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::http::post;

/// How many requests, unless `ESPALIER_REQUESTS` says otherwise.
const REQUESTS: usize = 40;

/// How far two logprobs of a token may be apart: rows of a pass may be summed in another order than one by one.
const TOLERANCE: f64 = 1e-5;

/// What is drawn of a request.
#[derive(Debug, Clone)]
struct Drawn {
    target: &'static str,
    prompt: usize,
    max_tokens: usize,
    temperature: f64,
    top_p: f64,
    seed: u64,
    stop: Vec<String>,
    logprobs: Option<usize>,
    policy: &'static str,
}

fn any_request() -> impl Strategy<Value = Drawn> {
    let stop = prop::collection::vec(prop::sample::select(vec![".", "=", " so", "\n", "dollars", "the "]), 0..3);
    let policy = prop::sample::select(vec!["pct,gate=off", "constant,k=3,gate=off", "opt-tree,gate=off", "svip"]);
    let places = (prop::sample::select(vec!["small", "medium"]), 0..20usize, 1..32usize, policy);
    let drawing = (prop::sample::select(vec![0.0, 0.4, 0.8, 1.2]), prop::sample::select(vec![1.0, 0.9]), 0..1u64 << 62);
    (places, drawing, stop, prop::option::of(0..5usize)).prop_map(|(places, drawing, stop, logprobs)| {
        let ((target, prompt, max_tokens, policy), (temperature, top_p, seed)) = (places, drawing);
        let stop = stop.into_iter().map(str::to_owned).collect();
        Drawn { target, prompt, max_tokens, temperature, top_p, seed, stop, logprobs, policy }
    })
}

impl Drawn {
    fn over_grpc(&self, prompt: &[u32], speculate: bool) -> GenerationRequest {
        let plain = request(self.target, prompt, self.max_tokens, sampling(0.0, 0));
        GenerationRequest {
            prompt: Prompt::Tokens(prompt.to_vec()),
            sampling: Sampling::new(self.temperature, 0, self.top_p, self.seed).unwrap(),
            stop_strings: StopStrings::new(self.stop.clone()).unwrap(),
            logprobs: self.logprobs,
            policy: Some(self.policy.to_owned()),
            speculate,
            ..plain
        }
    }

    fn over_http(&self, prompt: &[u32], speculate: bool) -> Value {
        json!({
            "model": self.target, "prompt": prompt, "max_tokens": self.max_tokens, "temperature": self.temperature,
            "top_p": self.top_p, "seed": self.seed, "stop": self.stop, "logprobs": self.logprobs,
            "espalier": {"policy": self.policy, "speculate": speculate},
        })
    }
}

/// What must be the same.
#[derive(Debug)]
struct Said {
    text: String,
    logprobs: Vec<f64>,
}

impl Said {
    fn over_grpc(answer: &Answer) -> Self {
        let logprobs = answer.tokens.iter().filter_map(|token| token.logprob).collect();
        Self { text: answer.text(), logprobs }
    }

    fn over_http(body: &Value) -> Self {
        let choice = &body["choices"][0];
        let logprobs = choice["logprobs"]["token_logprobs"].as_array().into_iter().flatten();
        let text = choice["text"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned();
        Self { text, logprobs: logprobs.map(|one| one.as_f64().unwrap()).collect() }
    }

    fn agrees(&self, other: &Self) -> bool {
        let near = |(one, another): (&f64, &f64)| (one - another).abs() <= TOLERANCE;
        let logprobs = self.logprobs.iter().zip(&other.logprobs).all(near);
        self.text == other.text && self.logprobs.len() == other.logprobs.len() && logprobs
    }
}

#[tokio::test]
async fn random_requests_have_one_text_whatever_way_they_take() {
    let count = std::env::var("ESPALIER_REQUESTS").map_or(REQUESTS, |count| count.parse().unwrap());
    let system = start(&["small", "medium"], Some(1), 1).await;
    let (gateway, client) = (address(&system, Role::Gateway), client(&system));
    let mut runner = TestRunner::deterministic();
    let (mut drafted, mut stopped) = (0, 0);
    for _ in 0..count {
        let drawn = any_request().new_tree(&mut runner).unwrap().current();
        let all = prompts(drawn.target);
        let (prompt, _) = &all[drawn.prompt % all.len()];
        let speculative = answer(&client, drawn.over_grpc(prompt, true)).await;
        drafted += speculative.completion.speculation.accepted;
        stopped += usize::from(speculative.completion.stop_string.is_some());
        let expected = Said::over_grpc(&speculative);
        let plain = Said::over_grpc(&answer(&client, drawn.over_grpc(prompt, false)).await);
        assert!(expected.agrees(&plain), "{drawn:?}\n{expected:?}\n{plain:?}");
        for speculate in [true, false] {
            let heard = post(gateway, "/v1/completions", &drawn.over_http(prompt, speculate)).await;
            let found = Said::over_http(&heard.json());
            assert!(expected.agrees(&found), "{drawn:?}, speculation: {speculate}\n{expected:?}\n{found:?}");
        }
    }
    assert!(drafted > count as u64 && stopped > count / 10, "{drafted} tokens drafted, {stopped} texts stopped");
    system.stop().await.unwrap();
}
