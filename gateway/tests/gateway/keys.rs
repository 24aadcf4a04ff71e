//! API keys over gRPC: who is let in, for how much, and what becomes of both when the file changes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::*;
use clap::Parser;
use espalier_gateway::{Args, Config, Gateway, Occupancy, Profiles};
use espalier_proto::{API_KEY_HEADER, ApiKey, CLIENT_NAME_KEY, EndCounts, GenerationRequest, SystemStatus, pb};
use espalier_service_kit::channel;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Within this time a key that is removed is refused, and one that is added let in.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// A gateway of one slot more than it needs, with a file of keys.
struct Keyed {
    url: String,
    gateway: Gateway,
    folder: TempDir,
    _toy: Toy,
}

/// The key of a client; all of it is in its name.
fn secret(name: &str) -> ApiKey {
    ApiKey::new(&format!("esp_secret_of_{name}")).unwrap()
}

/// A file's entry, with these limits.
fn key(name: &str, limits: &Value) -> Value {
    let mut key = json!({"name": name, "sha256": secret(name).hash().to_string()});
    key.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    key
}

/// An entry without limits.
fn free(name: &str) -> Value {
    key(name, &json!({}))
}

impl Keyed {
    async fn start(keys: &[Value]) -> Self {
        Self::start_with(keys, &[]).await
    }

    async fn start_with(keys: &[Value], more: &[&str]) -> Self {
        let (folder, toy) = (tempfile::tempdir().unwrap(), verifier("toy").await);
        write(&folder, keys);
        let path = path(&folder);
        let fixed = ["gateway", "--verifier", &toy.url, "--keys", path.to_str().unwrap()];
        let args = Args::parse_from(fixed.iter().chain(more));
        let (url, gateway) = start_and_watch(Config::from_args(&args, Profiles::read).unwrap()).await;
        Self { url, gateway, folder, _toy: toy }
    }

    /// Puts another file in the place of the one there is.
    fn replace(&self, keys: &[Value]) {
        write(&self.folder, keys);
    }

    async fn ask(&self, call: Request<pb::GenerateRequest>) -> Result<Answer, Status> {
        rest(client(&self.url).generate(call).await?.into_inner()).await
    }

    /// Has a client of this name ask for so many tokens.
    async fn ask_as(&self, name: &str, max_tokens: usize) -> Result<Answer, Status> {
        self.ask(shown(name, plain(max_tokens))).await
    }

    /// A request that keeps its slot until it is dropped.
    async fn hold(&self, name: &str) -> Streaming<pb::GenerateResponse> {
        let call = shown(name, plain(500));
        narrow_client(&self.url).generate(call).await.unwrap().into_inner()
    }

    async fn status_as(&self, name: &str) -> Result<SystemStatus, Status> {
        let call = with_key(name, Request::new(pb::SystemStatusRequest {}));
        Ok(client(&self.url).status(call).await?.into_inner().try_into().unwrap())
    }

    /// Waits until a client is answered with this code; tells how long that took.
    async fn until(&self, name: &str, code: Code) -> Duration {
        let begun = Instant::now();
        while self.ask_as(name, 1).await.err().map_or(Code::Ok, |status| status.code()) != code {
            assert!(begun.elapsed() < CHANGE_MAX, "{name} is not answered with {code:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed()
    }
}

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("keys.json")
}

/// What a call of OpenAI's API is answered with, and the status.
async fn over_http(url: &str, key: Option<&str>, max_tokens: usize) -> (u16, Value) {
    let response = call_over_http(url, key, max_tokens).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn call_over_http(url: &str, key: Option<&str>, max_tokens: usize) -> hyper::Response<Incoming> {
    let address = url.strip_prefix("http://").unwrap();
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut call = hyper::Request::post("/v1/completions").header("host", address);
    if let Some(name) = key {
        call = call.header("authorization", format!("Bearer {}", secret(name).reveal()));
    }
    let body = json!({"model": "toy", "prompt": PROMPT, "max_tokens": max_tokens, "temperature": 0});
    sender.send_request(call.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await.unwrap()
}

/// Beside the file and then in its place, so that nobody reads half of it.
fn write(folder: &TempDir, keys: &[Value]) {
    let new = folder.path().join("new.json");
    std::fs::write(&new, json!({ "keys": keys }).to_string()).unwrap();
    std::fs::rename(new, path(folder)).unwrap();
}

fn plain(max_tokens: usize) -> GenerationRequest {
    GenerationRequest { speculate: false, ..request(max_tokens) }
}

fn with_key<T>(name: &str, mut call: Request<T>) -> Request<T> {
    call.metadata_mut().insert(API_KEY_HEADER, secret(name).to_header());
    call
}

fn shown(name: &str, request: GenerationRequest) -> Request<pb::GenerateRequest> {
    with_key(name, Request::new(request.into()))
}

fn has(running: usize, queued: usize) -> Occupancy {
    Occupancy { running, queued }
}

/// When the refusal says to come again.
fn retry_after(status: &Status) -> Duration {
    let millis = status.metadata().get("retry-after-ms").unwrap().to_str().unwrap().parse().unwrap();
    Duration::from_millis(millis)
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn who_shows_a_key_is_let_in_and_all_others_hear_one_and_the_same_sentence() {
    let keyed = Keyed::start(&[key("a", &json!({"status": true}))]).await;
    assert_eq!(keyed.ask_as("a", 20).await.unwrap().ids(), plain_text(&PROMPT, 20));
    let mut refusals = vec![generate(&keyed.url, request(1)).await.err().unwrap()];
    let wrong = ["Bearer esp_secret_of_b", "Bearer ", "Basic esp_secret_of_a", "esp_secret_of_a"];
    for header in wrong {
        let mut call = Request::new(pb::GenerateRequest::from(request(1)));
        call.metadata_mut().insert(API_KEY_HEADER, header.parse().unwrap());
        refusals.push(keyed.ask(call).await.err().unwrap());
    }
    for refusal in &refusals {
        let words = "no valid API key: `authorization` must be `Bearer` and a key of this gateway";
        assert_eq!((refusal.code(), refusal.message()), (Code::Unauthenticated, words));
        assert!(!format!("{refusal:?}").contains("secret"), "{refusal:?}");
    }
    let ended = keyed.status_as("a").await.unwrap().gateway.ended;
    assert_eq!(ended, EndCounts { length: 1, refused: refusals.len() as u64, ..EndCounts::default() });
}

#[tokio::test]
async fn whatever_the_gateway_serves_needs_a_key_but_health() {
    let keyed = Keyed::start(&[free("a")]).await;
    let list = || Request::new(pb::ListTargetsRequest {});
    assert_eq!(code(client(&keyed.url).list_targets(list()).await), Code::Unauthenticated);
    let targets = client(&keyed.url).list_targets(with_key("a", list())).await.unwrap().into_inner().targets;
    assert_eq!(targets.len(), 1);
    let status = Request::new(pb::SystemStatusRequest {});
    assert_eq!(code(client(&keyed.url).status(status).await), Code::Unauthenticated);
    let mut health = HealthClient::new(channel(&keyed.url).unwrap());
    let answer = health.check(HealthCheckRequest { service: String::new() }).await.unwrap();
    assert_eq!(answer.into_inner().status, 1);
}

#[tokio::test]
async fn only_a_key_that_has_the_right_may_ask_for_the_status() {
    let keyed = Keyed::start(&[free("a"), key("operator", &json!({"status": true}))]).await;
    let refusal = keyed.status_as("a").await.unwrap_err();
    let words = "this API key may not ask what the services do";
    assert_eq!((refusal.code(), refusal.message()), (Code::PermissionDenied, words));
    assert_eq!(keyed.status_as("operator").await.unwrap().verifiers.len(), 1);
}

#[tokio::test]
async fn requests_a_minute_are_limited() {
    let keyed = Keyed::start(&[key("a", &json!({"requests_per_minute": 2})), free("b")]).await;
    for _ in 0..2 {
        keyed.ask_as("a", 1).await.unwrap();
    }
    let refusal = keyed.ask_as("a", 1).await.err().unwrap();
    let words = "this client has asked as often as it may, 2 times a minute";
    assert_eq!((refusal.code(), refusal.message()), (Code::ResourceExhausted, words));
    let wait = retry_after(&refusal);
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_secs(30), "{wait:?}");
    keyed.ask_as("b", 1).await.unwrap();
}

#[tokio::test]
async fn tokens_a_minute_are_limited_prompts_and_answers_together() {
    let keyed = Keyed::start(&[key("a", &json!({"tokens_per_minute": 60}))]).await;
    // It uses four tokens of prompt, and more than it may: how many, nobody knew before.
    keyed.ask_as("a", 76).await.unwrap();
    let refusal = keyed.ask_as("a", 1).await.err().unwrap();
    let words = "this client has used all tokens that it may use, 60 a minute";
    assert_eq!((refusal.code(), refusal.message()), (Code::ResourceExhausted, words));
    let wait = retry_after(&refusal);
    assert!(wait > Duration::from_secs(10) && wait <= Duration::from_millis(20_001), "20 are owed: {wait:?}");
}

#[tokio::test]
async fn what_a_client_says_was_generated_before_is_charged_as_what_is_read() {
    let keyed = Keyed::start(&[key("a", &json!({"tokens_per_minute": 60}))]).await;
    let generated = plain_text(&PROMPT, 70);
    let resumed = GenerationRequest { generated, seeded: true, ..plain(71) };
    keyed.ask(shown("a", resumed)).await.unwrap();
    assert_eq!(code(keyed.ask_as("a", 1).await), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_key_may_have_requests_of_its_own_number_or_else_of_the_usual_one() {
    let more = ["--client-requests-max", "1"];
    let keyed = Keyed::start_with(&[key("two", &json!({"requests_max": 2})), free("usual")], &more).await;
    let _held = [keyed.hold("two").await, keyed.hold("two").await, keyed.hold("usual").await];
    for (name, limit) in [("two", 2), ("usual", 1)] {
        let refusal = keyed.ask_as(name, 1).await.err().unwrap();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        let words =
            format!("{limit} requests of this client are being served or wait, and one client may have {limit}");
        assert_eq!(refusal.message(), words);
        assert!(retry_after(&refusal) > Duration::ZERO);
    }
}

#[tokio::test]
async fn a_name_that_is_given_on_trust_changes_nothing() {
    let keyed = Keyed::start_with(&[key("a", &json!({"requests_max": 1})), free("b")], &[]).await;
    let _held = keyed.hold("a").await;
    // Too long for a name: with keys nobody looks at it.
    for name in ["b", &"x".repeat(65)] {
        let mut call = shown("a", plain(1));
        call.metadata_mut().insert(CLIENT_NAME_KEY, name.parse().unwrap());
        assert_eq!(code(keyed.ask(call).await), Code::ResourceExhausted, "{name}");
    }
    let mut call = shown("b", plain(1));
    call.metadata_mut().insert(CLIENT_NAME_KEY, "a".parse().unwrap());
    keyed.ask(call).await.unwrap();
}

#[test]
fn names_of_the_command_line_have_no_weights_beside_keys() {
    let args = ["gateway", "--verifier", "http://127.0.0.1:1", "--keys", "keys.json", "--client-weight", "light=9"];
    assert_eq!(Args::try_parse_from(args).unwrap_err().kind(), clap::error::ErrorKind::ArgumentConflict);
}

#[tokio::test]
async fn a_key_has_its_own_weight() {
    let more = ["--requests-max", "1"];
    let keyed = Keyed::start_with(&[free("light"), key("heavy", &json!({"weight": 3}))], &more).await;
    let held = keyed.hold("heavy").await;
    let (url, mut asking) = (keyed.url.clone(), tokio::task::JoinSet::new());
    let served = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for (waiting, name) in ["light", "light", "light", "heavy", "heavy", "heavy"].into_iter().enumerate() {
        let (url, served) = (url.clone(), std::sync::Arc::clone(&served));
        asking.spawn(async move {
            rest(client(&url).generate(shown(name, plain(1))).await.unwrap().into_inner()).await.unwrap();
            served.lock().unwrap().push(name);
        });
        eventually(|| keyed.gateway.occupancy() == has(1, waiting + 1)).await;
    }
    drop(held);
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
    let served = served.lock().unwrap();
    let last = served.iter().rposition(|name| *name == "heavy").unwrap();
    assert!(last <= 4, "three of the heavy one come after one of the light one: {served:?}");
}

#[tokio::test]
async fn keys_are_added_and_removed_while_answers_run() {
    let keyed = Keyed::start(&[free("old"), key("stays", &json!({"requests_per_minute": 1}))]).await;
    keyed.ask_as("stays", 1).await.unwrap();
    let running = keyed.hold("old").await;
    assert_eq!(code(keyed.ask_as("new", 1).await), Code::Unauthenticated);

    keyed.replace(&[free("new"), key("stays", &json!({"requests_per_minute": 2}))]);
    let took = keyed.until("old", Code::Unauthenticated).await;
    println!("a key that was removed was refused after {took:?}");
    keyed.ask_as("new", 1).await.unwrap();
    assert_eq!(code(keyed.ask_as("stays", 1).await), Code::ResourceExhausted, "what was used stays used");
    assert_eq!(rest(running).await.unwrap().ids(), plain_text(&PROMPT, 500), "its key was good when it began");

    std::fs::write(path(&keyed.folder), "{\"keys\": [").unwrap();
    tokio::time::sleep(CHANGE_MAX).await;
    keyed.ask_as("new", 1).await.unwrap();
    keyed.replace(&[]);
    keyed.until("new", Code::Unauthenticated).await;
}

#[tokio::test]
async fn a_message_of_a_stranger_is_not_read() {
    let keyed = Keyed::start(&[free("a")]).await;
    // Longer than a message may be: whoever reads it says so.
    let long = GenerationRequest { stop_tokens: vec![1 << 30; 1 << 20], ..plain(1) };
    assert_eq!(code(keyed.ask(Request::new(long.clone().into())).await), Code::Unauthenticated);
    assert_eq!(code(keyed.ask(shown("a", long)).await), Code::OutOfRange);
}

#[tokio::test]
async fn without_keys_a_header_of_any_kind_is_let_in() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let mut call = Request::new(pb::GenerateRequest::from(plain(3)));
    *call.metadata_mut() = MetadataMap::new();
    call.metadata_mut().insert(API_KEY_HEADER, "Basic Zm9v".parse().unwrap());
    let answer = rest(client(&url).generate(call).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 3));
    status(&url).await;
}

#[tokio::test]
async fn over_http_answers_tell_what_is_left_of_a_keys_limits() {
    let limits = json!({"requests_per_minute": 60, "tokens_per_minute": 6000});
    let keyed = Keyed::start(&[key("anna", &limits), free("otto")]).await;
    let told = async |name: &str| {
        let response = call_over_http(&keyed.url, Some(name), 3).await;
        let header = |of: &str| {
            response.headers().get(format!("x-ratelimit-{of}")).map(|value| value.to_str().unwrap().to_owned())
        };
        ["limit-requests", "remaining-requests", "limit-tokens"].map(header)
    };
    let [limit, left, tokens] = told("anna").await.map(Option::unwrap);
    assert_eq!([limit.as_str(), left.as_str(), tokens.as_str()], ["60", "59", "6000"]);
    assert_eq!(told("otto").await, [None, None, None], "what has no limit has none to tell");
}

#[tokio::test]
async fn over_http_keys_are_what_they_are_over_grpc() {
    let keyed = Keyed::start(&[key("anna", &json!({"requests_per_minute": 1}))]).await;
    let (status, body) = over_http(&keyed.url, None, 3).await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!("invalid_api_key")), "{body}");
    assert_eq!(over_http(&keyed.url, Some("otto"), 3).await.0, 401);
    let (status, body) = over_http(&keyed.url, Some("anna"), 3).await;
    assert_eq!((status, &body["usage"]["completion_tokens"]), (200, &json!(3)), "{body}");
    let (status, body) = over_http(&keyed.url, Some("anna"), 3).await;
    assert_eq!((status, &body["error"]["type"]), (429, &json!("rate_limit_error")), "{body}");
}
