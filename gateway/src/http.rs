//! OpenAI's HTTP API, beside gRPC on the same address.
//!
//! A request becomes one call of `Generate` for each choice, with the same keys, the same door and the same checks, so its
//! texts are those of gRPC.

mod asking;
mod body;
mod playground;
mod rates;
mod reply;
mod telling;
mod tokens;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use espalier_openai::{ErrorReply, Kind};
use espalier_proto::{Fault, TargetCard};
use espalier_service_kit::Monitor;
use serde_json::{Value, json};

use self::reply::Refused;
use crate::error::GatewayError;
use crate::intake::Intake;
use crate::keys::{Holder, Keys};
use crate::service::Gateway;

/// What answers.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) gateway: Gateway,
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) intake: Intake,
    /// What is measured of the process, if anybody watches it.
    pub(crate) monitor: Option<Monitor>,
}

/// All that can be asked.
pub(crate) fn routes(http: Http) -> Router {
    let page = match http.gateway.has_playground() {
        true => playground::routes(http.keys.is_some()),
        // What is at no route is taken for gRPC.
        false => Router::new().route("/", any(nothing)).route("/playground/{*path}", any(nothing)),
    };
    page.route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/tokenize", post(tokenize))
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/v1/{*path}", any(nothing))
        .method_not_allowed_fallback(not_allowed)
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "the gateway is at work\n" }))
        .route("/readyz", get(ready))
        .with_state(http)
}

async fn chat(State(http): State<Http>, request: Request<Body>) -> Result<Response, Refused> {
    http.generate(Kind::Chat, request).await
}

async fn completion(State(http): State<Http>, request: Request<Body>) -> Result<Response, Refused> {
    http.generate(Kind::Completion, request).await
}

async fn tokenize(State(http): State<Http>, request: Request<Body>) -> Result<Response, Refused> {
    http.tokenize(request).await
}

/// What scrapers read, for who may ask for the status of all services.
async fn metrics(State(http): State<Http>, headers: HeaderMap) -> Result<Response, Refused> {
    let holder = http.holder(&headers)?;
    holder.as_ref().map_or(Ok(()), Holder::check_status).map_err(|error| Fault::from(GatewayError::from(error)))?;
    let Some(monitor) = &http.monitor else { return Err(ErrorReply::no_route("GET", "/metrics").into()) };
    let (text, kind) = monitor.metrics(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

async fn models(State(http): State<Http>, headers: HeaderMap) -> Result<Response, Refused> {
    http.holder(&headers)?;
    let models: Vec<Value> = http.gateway.targets().iter().map(described).collect();
    Ok(reply::json(&json!({"object": "list", "data": models})))
}

async fn model(State(http): State<Http>, Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Refused> {
    http.holder(&headers)?;
    let found = http.gateway.targets().into_iter().find(|target| target.name == name);
    let found = found.ok_or_else(|| ErrorReply::no_model(format_args!("there is no target `{name}`")))?;
    Ok(reply::json(&described(&found)))
}

async fn nothing(request: Request<Body>) -> Refused {
    ErrorReply::no_route(request.method(), request.uri().path()).into()
}

async fn not_allowed(request: Request<Body>) -> Refused {
    ErrorReply::no_method(request.method(), request.uri().path()).into()
}

/// Whether there is a target to ask.
async fn ready(State(http): State<Http>) -> Response {
    match http.gateway.targets().len() {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "no target answers\n").into_response(),
        count => (StatusCode::OK, format!("targets that answer: {count}\n")).into_response(),
    }
}

/// A target as the API lists it.
fn described(target: &TargetCard) -> Value {
    let TargetCard { name, context, drafters, .. } = target;
    json!({
        "id": name, "object": "model", "created": 0, "owned_by": "espalier",
        "espalier": {"context": context, "drafters": drafters},
    })
}

impl Http {
    /// Who calls, where keys are shown.
    fn holder(&self, headers: &HeaderMap) -> Result<Option<Holder>, Refused> {
        let holder = self.keys.as_ref().map(|keys| keys.holder(headers)).transpose();
        holder.map_err(|error| Fault::from(GatewayError::from(error)).into())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
