//! The page at `/`, from files that the program holds.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::Response;
use axum::routing::get;
use espalier_speculation::policy_names;
use espalier_trace::page::{DRAWING, STYLE};
use serde_json::json;

use super::reply;

/// The page asks this gateway, and nobody else.
const ALLOWED: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                       base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const PAGE: &str = include_str!("../../assets/index.html");
const APP: &str = include_str!("../../assets/app.js");
const LOOK: &str = include_str!("../../assets/style.css");

/// The page and its files. `keys`: whether requests have to show one.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(keys: bool) -> Router<S> {
    let look: Arc<str> = [LOOK, STYLE].concat().into();
    let about = json!({"policies": policy_names().collect::<Vec<_>>(), "keys": keys});
    Router::new()
        .route("/", get(|| async { file("text/html; charset=utf-8", PAGE) }))
        .route("/playground/app.js", get(|| async { file("text/javascript", APP) }))
        .route("/playground/trees.js", get(|| async { file("text/javascript", DRAWING) }))
        .route("/playground/style.css", get(|| async move { file("text/css", &look) }))
        .route("/playground/about.json", get(|| async move { reply::json(&about) }))
}

fn file(kind: &'static str, content: &str) -> Response {
    let mut response = Response::new(Body::from(content.to_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(ALLOWED));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Another version may be served at the same address later.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
