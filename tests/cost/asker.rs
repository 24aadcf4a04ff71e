//! A client, over gRPC or over HTTP.

use std::net::SocketAddr;

use espalier_client::Client;
use espalier_proto::{GenerationRequest, Prompt};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Somebody who asks one thing after the other, piece by piece.
pub(crate) enum Asker {
    Grpc(Client),
    Http(SocketAddr, SendRequest<Full<Bytes>>),
}

impl Asker {
    /// One that speaks OpenAI's API, over a connection of its own.
    pub(crate) async fn over_http(gateway: SocketAddr) -> Self {
        let stream = TcpStream::connect(gateway).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http(gateway, sender)
    }

    /// The text of an answer.
    pub(crate) async fn text(&mut self, request: &GenerationRequest) -> String {
        match self {
            Self::Grpc(client) => client.generate(request.clone(), |_| {}).await.unwrap().text(),
            Self::Http(gateway, sender) => {
                let Prompt::Tokens(prompt) = &request.prompt else { panic!("a prompt of tokens was expected") };
                let body = json!({
                    "model": request.target, "prompt": prompt, "max_tokens": request.max_tokens,
                    "temperature": request.sampling.temperature(), "stream": true,
                });
                let call = Request::post("/v1/completions").header("host", gateway.to_string());
                let call = call.body(Full::new(Bytes::from(body.to_string()))).unwrap();
                sender.ready().await.unwrap();
                pieces(sender.send_request(call).await.unwrap().into_body()).await
            }
        }
    }
}

/// The text of a stream's pieces, each of which is read when it comes.
async fn pieces(mut body: hyper::body::Incoming) -> String {
    let (mut text, mut unread, mut is_done) = (String::new(), Vec::new(), false);
    while let Some(frame) = body.frame().await {
        unread.extend_from_slice(frame.unwrap().data_ref().unwrap());
        while let Some(end) = unread.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = unread.drain(..end + 2).collect();
            match event.strip_prefix(b"data: ").unwrap() {
                b"[DONE]\n\n" => is_done = true,
                piece => {
                    let piece: Value = serde_json::from_slice(piece).unwrap();
                    text.push_str(piece["choices"][0]["text"].as_str().unwrap());
                }
            }
        }
    }
    assert!(is_done);
    text
}
