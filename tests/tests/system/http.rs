//! OpenAI's API over HTTP: the same texts as over gRPC, whole and piece by piece; what is wrong is refused by name.

use std::net::SocketAddr;

use espalier_client::Client;
use espalier_local::{Plan, Role, System};
use espalier_proto::{GenerationRequest, Message, Prompt};
use espalier_service_kit::{Monitor, Program};
use espalier_speculation::StopStrings;
use espalier_tests::{address, answer, client, plan, request, sampling, start};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub(crate) const QUESTION: &str = "Ann has 3 dogs and 2 cats. How many pets has she?";

pub(crate) struct Heard {
    pub(crate) status: StatusCode,
    headers: hyper::HeaderMap,
    body: Bytes,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The objects of a stream, up to the word that it is done.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        let mut events: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"));
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

async fn send(gateway: SocketAddr, method: Method, path: &str, body: String) -> Heard {
    let stream = TokioIo::new(TcpStream::connect(gateway).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", gateway.to_string());
    let response = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    Heard { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

pub(crate) async fn post(gateway: SocketAddr, path: &str, body: &Value) -> Heard {
    send(gateway, Method::POST, path, body.to_string()).await
}

pub(crate) async fn started() -> (System, SocketAddr, Client) {
    let system = start(&["small", "medium"], Some(1), 1).await;
    let (gateway, client) = (address(&system, Role::Gateway), client(&system));
    (system, gateway, client)
}

pub(crate) fn chat(more: &Value) -> Value {
    let mut body = json!({"model": "medium", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The same over gRPC.
fn asked(temperature: f64, seed: u64) -> GenerationRequest {
    let prompt = Prompt::Conversation(vec![Message::new("user", QUESTION)].into());
    GenerationRequest { prompt, ..request("medium", &[], 24, sampling(temperature, seed)) }
}

fn said(choice: &Value) -> &str {
    choice["message"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn texts_are_those_of_grpc_whole_and_piece_by_piece() {
    let (system, gateway, client) = started().await;
    for (temperature, seed) in [(0.0, 0), (0.8, 5)] {
        let expected = answer(&client, asked(temperature, seed)).await.text();
        let body = json!({"temperature": temperature, "seed": seed});
        let whole = post(gateway, "/v1/chat/completions", &chat(&body)).await;
        assert_eq!((whole.status, said(&whole.json()["choices"][0])), (StatusCode::OK, expected.as_str()));
        let id = whole.json()["id"].as_str().unwrap().to_owned();
        assert!(id.ends_with(whole.headers["x-request-id"].to_str().unwrap()), "{id}");

        let streamed = json!({"stream": true, "stream_options": {"include_usage": true}});
        let mut body = chat(&body);
        body.as_object_mut().unwrap().extend(streamed.as_object().unwrap().clone());
        let events = post(gateway, "/v1/chat/completions", &body).await.events();
        let (usage, pieces) = events.split_last().unwrap();
        let text: String = pieces.iter().filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!((text, &pieces[0]["choices"][0]["delta"]["role"]), (expected, &json!("assistant")));
        assert_eq!(usage["usage"]["completion_tokens"], whole.json()["usage"]["completion_tokens"]);
        assert!(usage["usage"]["espalier"]["tau"].as_f64().unwrap() >= 1.0, "{usage}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn each_choice_has_the_text_of_its_own_seed() {
    let (system, gateway, client) = started().await;
    let body = chat(&json!({"temperature": 0.9, "seed": 40, "n": 3}));
    let heard = post(gateway, "/v1/chat/completions", &body).await.json();
    for (i, choice) in heard["choices"].as_array().unwrap().iter().enumerate() {
        let expected = answer(&client, asked(0.9, 40 + i as u64)).await;
        assert_eq!((choice["index"].as_u64(), said(choice)), (Some(i as u64), expected.text().as_str()));
    }
    let one = answer(&client, asked(0.9, 40)).await.completion.prompt_tokens;
    assert_eq!(heard["usage"]["prompt_tokens"], one, "the prompt counts once");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn choices_that_need_each_others_place_come_all_the_same() {
    let plan = Plan { requests_max: 1, ..plan(&["medium"], Some(1), 1) };
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let gateway = address(&system, Role::Gateway);
    for stream in [false, true] {
        let body = chat(&json!({"temperature": 0, "n": 3, "stream": stream}));
        let heard = post(gateway, "/v1/chat/completions", &body).await;
        let ends = |object: &Value| {
            let choices = object["choices"].as_array().unwrap().clone();
            choices.iter().filter(|choice| choice["finish_reason"] == "length").count()
        };
        let ended: usize = if stream { heard.events().iter().map(ends).sum() } else { ends(&heard.json()) };
        assert_eq!(ended, 3, "stream: {stream}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn completions_know_stops_and_logprobs() {
    let (system, gateway, client) = started().await;
    let text = "Q: 2 + 3 = ?\nA:";
    let stop_strings = StopStrings::new(vec![".".to_owned()]).unwrap();
    let plain = request("small", &[], 20, sampling(0.0, 0));
    let request = GenerationRequest { prompt: Prompt::Text(text.to_owned()), stop_strings, logprobs: Some(2), ..plain };
    let expected = answer(&client, request).await;
    let body = json!({
        "model": "small", "prompt": [text, text], "max_tokens": 20, "temperature": 0, "stop": ".", "logprobs": 2,
    });
    let heard = post(gateway, "/v1/completions", &body).await.json();
    for choice in heard["choices"].as_array().unwrap() {
        assert_eq!(choice["text"], expected.text());
        let logprobs: Vec<f64> = expected.tokens.iter().map(|token| token.logprob.unwrap()).collect();
        assert_eq!(choice["logprobs"]["token_logprobs"], json!(logprobs));
        assert_eq!(choice["logprobs"]["top_logprobs"][0].as_object().unwrap().len(), 2);
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_chat_that_names_no_length_goes_on_to_its_end() {
    let (system, gateway, _) = started().await;
    let body = json!({"model": "medium", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0});
    let heard = post(gateway, "/v1/chat/completions", &body).await.json();
    assert_eq!(heard["choices"][0]["finish_reason"], "stop", "{heard}");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name() {
    let (system, gateway, _) = started().await;
    let cases = [
        (chat(&json!({"model": "huge"})), 404, Some("model"), "unknown target `huge`"),
        (chat(&json!({"frobnicate": 1})), 400, Some("frobnicate"), "`frobnicate` is not supported"),
        (chat(&json!({"temperature": -1})), 400, None, "temperature"),
        (chat(&json!({"max_tokens": 100_000})), 400, None, "max_tokens is 100000"),
        (chat(&json!({"espalier": {"drafter": "nobody"}})), 400, None, "unknown drafter `nobody`"),
    ];
    for (body, status, param, words) in cases {
        let heard = post(gateway, "/v1/chat/completions", &body).await;
        let error = &heard.json()["error"];
        assert_eq!((heard.status.as_u16(), error["param"].as_str()), (status, param), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    let lost = send(gateway, Method::GET, "/v1/embeddings", String::new()).await;
    assert_eq!((lost.status.as_u16(), lost.json()["error"]["code"].as_str()), (404, Some("not_found")));
    let lost = send(gateway, Method::GET, "/v1/completions", String::new()).await;
    assert_eq!((lost.status.as_u16(), lost.json()["error"]["code"].as_str()), (405, Some("method_not_allowed")));
    system.stop().await.unwrap();
}

#[tokio::test]
async fn prompts_are_told_in_tokens_and_those_of_a_chat_are_those_that_it_is_charged_for() {
    let (system, gateway, _) = started().await;
    let said = json!([{"role": "user", "content": QUESTION}]);
    let told = post(gateway, "/v1/tokenize", &json!({"model": "medium", "messages": said})).await.json();
    let used = post(gateway, "/v1/chat/completions", &chat(&json!({}))).await.json()["usage"]["prompt_tokens"].clone();
    assert_eq!((&told["count"], &told["max_model_len"]), (&used, &json!(2048)), "{told}");
    let text = post(gateway, "/v1/tokenize", &json!({"model": "medium", "prompt": QUESTION})).await.json();
    let pieces: String = text["token_strs"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
    assert!(pieces.ends_with(QUESTION), "{pieces}");
    assert_eq!(text["tokens"].as_array().unwrap().len() as u64, text["count"].as_u64().unwrap());
    let lost = post(gateway, "/v1/tokenize", &json!({"model": "huge", "prompt": "Hi"})).await;
    assert_eq!((lost.status.as_u16(), lost.json()["error"]["param"].as_str()), (404, Some("model")));
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_the_gateway_measures_is_at_its_address_too() {
    let monitor = Some(Monitor::new(Program { name: "test", version: "1" }));
    let plan = Plan { monitor, ..plan(&["medium"], Some(1), 1) };
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let gateway = address(&system, Role::Gateway);
    post(gateway, "/v1/chat/completions", &chat(&json!({}))).await;
    let heard = send(gateway, Method::GET, "/metrics", String::new()).await;
    let text = std::str::from_utf8(&heard.body).unwrap();
    assert!(heard.status.is_success() && text.contains("espalier_build_info{"), "{text}");
    assert!(text.contains("target=\"medium\""), "{text}");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn models_are_listed_and_probes_answered() {
    let (system, gateway, _) = started().await;
    let models = send(gateway, Method::GET, "/v1/models", String::new()).await.json();
    let names: Vec<&str> = models["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["medium", "small"]);
    let one = send(gateway, Method::GET, "/v1/models/small", String::new()).await.json();
    assert_eq!((&one["object"], &one["espalier"]["drafters"]), (&json!("model"), &json!(["drafter"])));
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/v1/models/huge", 404)] {
        assert_eq!(send(gateway, Method::GET, path, String::new()).await.status.as_u16(), status, "{path}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn answers_have_the_form_that_was_asked_for_and_what_cannot_be_is_refused_by_its_field() {
    let (system, gateway, _) = started().await;
    let schema = json!({
        "type": "object",
        "properties": {"pets": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["dogs", "cats"]}},
        "required": ["pets", "kind"], "additionalProperties": false,
    });
    let format = |schema: &Value| json!({"type": "json_schema", "json_schema": {"name": "pets", "strict": true, "schema": schema}});
    let asked = chat(&json!({"response_format": format(&schema), "max_tokens": 64, "temperature": 0.8, "seed": 7}));
    let whole = post(gateway, "/v1/chat/completions", &asked).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "{whole}");
    let pets: Value = serde_json::from_str(said(choice)).unwrap();
    assert!(pets["pets"].as_u64().unwrap() < 100 && ["dogs", "cats"].contains(&pets["kind"].as_str().unwrap()));

    let held =
        json!({"espalier": {"regex": " [0-9]{2} (dogs|cats)"}, "model": "small", "prompt": QUESTION, "max_tokens": 32});
    let text = post(gateway, "/v1/completions", &held).await.json()["choices"][0]["text"].clone();
    let (number, kind) = text.as_str().unwrap()[1..].split_once(' ').unwrap();
    assert!(number.parse::<u32>().is_ok() && ["dogs", "cats"].contains(&kind), "{text}");

    for (more, field, told) in [
        (
            json!({"response_format": format(&json!({"type": "objekt"}))}),
            "response_format",
            "json_schema cannot be used: Invalid type: objekt",
        ),
        (json!({"espalier": {"regex": ""}}), "espalier.regex", "regex is empty"),
        (
            json!({"espalier": {"grammar": "x: \"a\""}}),
            "espalier.grammar",
            "grammar cannot be used: no start rule found",
        ),
    ] {
        let refused = post(gateway, "/v1/chat/completions", &chat(&more)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let error = &refused.json()["error"];
        assert_eq!((&error["param"], &error["message"]), (&json!(field), &json!(told)));
    }
    system.stop().await.unwrap();
}
