//! The page at `/`: it is there unless it is taken away, asks this gateway alone, and opens no door where there are keys.

use clap::Parser;
use espalier_gateway::{Args, Config, Profiles};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::*;

struct Got {
    status: u16,
    policy: Option<String>,
    body: String,
}

async fn get(url: &str, path: &str) -> Got {
    let address = url.strip_prefix("http://").unwrap();
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let call = hyper::Request::get(path).header("host", address).body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(call).await.unwrap();
    let policy = response.headers().get("content-security-policy").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Got { status, policy, body: String::from_utf8(body.to_vec()).unwrap() }
}

async fn start_with(more: &[&str]) -> (String, Toy) {
    let toy = verifier("toy").await;
    let fixed = ["gateway", "--verifier", &toy.url];
    let args = Args::parse_from(fixed.iter().chain(more));
    (start(Config::from_args(&args, Profiles::read).unwrap()).await, toy)
}

#[tokio::test]
async fn the_page_and_all_that_it_names_are_there() {
    let (url, _toy) = start_with(&[]).await;
    let page = get(&url, "/").await;
    assert_eq!(page.status, 200);
    assert!(page.policy.unwrap().starts_with("default-src 'none'"));
    let named: Vec<&str> = page.body.split('"').filter(|text| text.starts_with("/playground/")).collect();
    assert_eq!(named.len(), 3);
    for path in named {
        let found = get(&url, path).await;
        assert!(found.status == 200 && !found.body.is_empty(), "{path}");
    }
    let about: Value = serde_json::from_str(&get(&url, "/playground/about.json").await.body).unwrap();
    assert_eq!(about["keys"], false);
    assert!(about["policies"].as_array().unwrap().contains(&json!("pct")));
}

#[tokio::test]
async fn where_there_are_keys_it_asks_for_one_and_shows_nothing_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, json!({"keys": []}).to_string()).unwrap();
    let (url, _toy) = start_with(&["--keys", path.to_str().unwrap()]).await;
    let about: Value = serde_json::from_str(&get(&url, "/playground/about.json").await.body).unwrap();
    assert_eq!(about["keys"], true);
    assert_eq!(get(&url, "/v1/models").await.status, 401);
}

#[tokio::test]
async fn it_can_be_taken_away() {
    let (url, _toy) = start_with(&["--no-playground"]).await;
    for path in ["/", "/playground/app.js", "/playground/about.json"] {
        assert_eq!(get(&url, path).await.status, 404, "{path}");
    }
    assert_eq!(get(&url, "/v1/models").await.status, 200);
}
