//! Those who do not behave well.

use std::time::Duration;

use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{CLIENT_NAME_KEY, GenerationRequest, Prompt, pb};
use espalier_service_kit::channel;
use espalier_tests::{request, sampling};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Request;
use tonic::transport::Endpoint;

use crate::services::TARGET;

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
            Self::Resetting => format!("beside {SENDERS} who send prompts of 4 MB and go"),
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

fn called(request: GenerationRequest) -> Request<pb::GenerateRequest> {
    let mut call = Request::new(request.into());
    call.metadata_mut().insert(CLIENT_NAME_KEY, "crowd".parse().unwrap());
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

/// Sends long prompts, and wants no answer.
async fn send_and_go(gateway: String) {
    let mut client = GenerationClient::new(channel(&gateway).unwrap());
    let text = "All work and no play. ".repeat(PROMPT_BYTES / 22);
    loop {
        let asked = request(TARGET, &[1], 10, sampling(0.0, 0));
        let asked = GenerationRequest { prompt: Prompt::Text(text.clone()), ..asked };
        // Given up or refused: both are the end of it.
        let _ = timeout(GIVEN_UP_AFTER, client.generate(called(asked))).await;
    }
}
