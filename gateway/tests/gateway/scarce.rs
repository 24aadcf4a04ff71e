//! What a gateway does without when the machine has no more of it.

use std::net::TcpStream;

use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{GenerationRequest, pb};
use espalier_speculation::Token;
use tonic::transport::Channel;

use crate::support::*;

/// A text, over a connection that may be there already.
async fn ask(client: &mut GenerationClient<Channel>) -> Vec<Token> {
    let events = client.generate(pb::GenerateRequest::from(request(5))).await.unwrap();
    rest(events.into_inner()).await.unwrap().ids()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missing_but_the_log_where_the_disk_is_full() {
    let toy = [verifier("toy").await];
    let mut program = Program::start_with(&toy, "ESPALIER_LOG=debug", ">/dev/full 2>&1").await;
    for _ in 0..3 {
        assert_eq!(generate(&program.url, request(5)).await.unwrap().ids().len(), 5);
    }
    // It has something to say of this, and cannot.
    assert!(generate(&program.url, GenerationRequest { target: "none".to_owned(), ..request(5) }).await.is_err());
    assert_eq!(generate(&program.url, request(5)).await.unwrap().ids().len(), 5);
    assert!(program.runs());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_served_goes_on_being_served_where_no_file_can_be_opened_any_more() {
    let toy = [verifier("toy").await];
    let mut program = Program::start(&toy, "ulimit -n 64;").await;
    let mut known = client(&program.url);
    let expected = ask(&mut known).await;
    let address = program.url.strip_prefix("http://").unwrap().to_owned();
    let silent: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    assert!(silent.len() >= 100, "{} connections were taken or wait to be", silent.len());
    for _ in 0..3 {
        assert_eq!(ask(&mut known).await, expected);
    }
    drop(silent);
    assert_eq!(ask(&mut client(&program.url)).await, expected, "others come in again");
    assert!(program.runs());
}
