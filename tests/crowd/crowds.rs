//! Those who do not behave well.

use std::time::Duration;

use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{CLIENT_NAME_KEY, GenerationRequest, Prompt, pb};
use espalier_tests::{request, sampling};
use h2::client::SendRequest;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};
use tonic::codegen::{Bytes, http};
use tonic::transport::Endpoint;

use crate::services::TARGET;

/// What they call themselves.
const NAME: &str = "crowd";

/// Connections that say nothing.
pub(crate) const CONNECTIONS: usize = 10_000;

/// Readers that stall.
const READERS: usize = 256;

/// Those who send long prompts, each one after the other.
const SENDERS: usize = 4;

/// Bytes of a long prompt, near the most that a message may have.
const PROMPT_BYTES: usize = 4_000_000;

/// How long a long prompt is left alone before it is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(50);

/// The pause before a connection that was closed is made again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What they do; it ends when it is dropped.
pub(crate) struct Gathered {
    _tasks: JoinSet<()>,
}

/// A kind of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Crowd {
    Stalled,
    Silent,
    Resetting,
}

impl Crowd {
    pub(crate) const ALL: [Self; 3] = [Self::Stalled, Self::Silent, Self::Resetting];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Stalled => format!("beside {READERS} readers that stall"),
            Self::Silent => format!("beside {CONNECTIONS} connections that say nothing"),
            Self::Resetting => format!("beside {SENDERS} who send 20 prompts of 4 MB a second each and go"),
        }
    }

    /// Has them all come, and go on until they are dropped.
    pub(crate) async fn gather(self, gateway: &str) -> Gathered {
        let mut tasks = JoinSet::new();
        match self {
            Self::Stalled => (0..READERS).for_each(|_| drop(tasks.spawn(stall(gateway.to_owned())))),
            Self::Silent => (0..CONNECTIONS).for_each(|_| drop(tasks.spawn(say_nothing(gateway.to_owned())))),
            Self::Resetting => (0..SENDERS).for_each(|_| drop(tasks.spawn(send_and_go(gateway.to_owned())))),
        }
        // Until most of them are there.
        sleep(Duration::from_secs(1)).await;
        Gathered { _tasks: tasks }
    }
}

fn called(request: GenerationRequest) -> tonic::Request<pb::GenerateRequest> {
    let mut call = tonic::Request::new(request.into());
    call.metadata_mut().insert(CLIENT_NAME_KEY, NAME.parse().unwrap());
    call
}

/// Reads that an answer has begun, and nothing more; asks again when it is given up or refused.
async fn stall(gateway: String) {
    let narrow = Endpoint::from_shared(gateway).unwrap().initial_stream_window_size(256);
    let mut client = GenerationClient::new(narrow.connect_lazy());
    loop {
        let asked = request(TARGET, &[1, 2, 3], 1000, sampling(0.0, 0));
        if let Ok(answer) = client.generate(called(asked)).await {
            let mut events = answer.into_inner();
            if events.message().await.is_ok() {
                std::future::pending::<()>().await;
            }
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Connects, and connects again when it is closed.
async fn say_nothing(gateway: String) {
    let address = gateway.trim_start_matches("http://").to_owned();
    loop {
        if let Ok(connection) = TcpStream::connect(&address).await {
            let mut nothing = [0];
            // Nothing ever comes: it ends when the other side closes it.
            while connection.readable().await.is_ok() && !matches!(connection.try_read(&mut nothing), Ok(0)) {
                sleep(AGAIN_AFTER).await;
            }
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Sends long prompts, and wants no answer. The bytes are made once: those who do this have machines of their own.
async fn send_and_go(gateway: String) {
    let address = gateway.trim_start_matches("http://").to_owned();
    let frame = long_prompt();
    loop {
        let connected = TcpStream::connect(&address).await.map(h2::client::handshake);
        if let Ok(shaking) = connected
            && let Ok((sender, connection)) = shaking.await
        {
            let driven = tokio::spawn(connection);
            send_over(sender, &address, &frame).await;
            driven.abort();
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Sends them over a connection for as long as there is one, each until it is refused or given up. One that is refused at
/// once makes room for the next no sooner: how much is sent does not depend on how it is taken.
async fn send_over(mut sender: SendRequest<Bytes>, address: &str, frame: &Bytes) {
    let mut turns = interval(GIVEN_UP_AFTER);
    while let Ok(mut ready) = sender.ready().await {
        turns.tick().await;
        let uri = format!("http://{address}/espalier.v1.Generation/Generate");
        let asked = http::Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        let asked = asked.header(CLIENT_NAME_KEY, NAME);
        let Ok((answer, mut body)) = ready.send_request(asked.body(()).unwrap(), false) else { return };
        // A service that has refused already wants no more of it.
        let _ = body.send_data(frame.clone(), true);
        if timeout(GIVEN_UP_AFTER, answer).await.is_err() {
            body.send_reset(h2::Reason::CANCEL);
        }
        sender = ready;
    }
}

/// A request with a long prompt, as it travels.
fn long_prompt() -> Bytes {
    let asked = request(TARGET, &[1], 10, sampling(0.0, 0));
    let text = "All work and no play. ".repeat(PROMPT_BYTES / 22);
    let message = pb::GenerateRequest::from(GenerationRequest { prompt: Prompt::Text(text), ..asked }).encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame.into()
}
