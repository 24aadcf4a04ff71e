//! A connection to a service, over which anything may be sent.

use std::time::Duration;

use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request};
use tonic::{Code, Status};

use super::call::{Call, End};
use super::case::Case;

/// A call that is not answered within this time never is.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Pieces of an answer that are read at most: more of it tells nothing more.
const PIECES_MAX: usize = 4;

/// How often a call is sent again whose connection was lost: it may be another call's fault.
const TRIES: usize = 3;

/// In the metadata of each status that a service of ours makes.
const PARTY_KEY: &str = "espalier-party";

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It has a status.
    Status {
        /// The code.
        code: Code,
        /// Whether a service made it, and not what reads calls for it.
        own: bool,
        /// What was wrong.
        message: String,
    },
    /// It was refused as HTTP, without a status.
    Http(u16),
    /// Messages came, as many as are read.
    Answered,
    /// It was taken back before anything came.
    Left,
    /// The stream was broken off.
    Reset(Option<u32>),
    /// Its connection was lost.
    Lost(String),
    /// Nothing came.
    Silent,
}

impl Ended {
    /// What it is called in a table.
    pub fn name(&self) -> String {
        match self {
            Self::Status { code: Code::Ok, .. } | Self::Answered => "OK".to_owned(),
            Self::Status { code, .. } => format!("{code:?}"),
            Self::Http(status) => format!("HTTP {status}"),
            Self::Left => "(taken back)".to_owned(),
            Self::Reset(_) => "(reset)".to_owned(),
            Self::Lost(_) => "(lost)".to_owned(),
            Self::Silent => "(silent)".to_owned(),
        }
    }
}

/// A connection that is made when it is needed, and again when it was lost.
pub struct Line {
    address: String,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

impl Line {
    /// To a service at `http://host:port`.
    pub fn new(url: &str) -> Self {
        Self { address: url.trim_start_matches("http://").to_owned(), connection: Mutex::default() }
    }

    /// Sends a case and tells what became of it.
    pub async fn send(&self, case: &Case) -> Ended {
        let mut ended = Ended::Silent;
        for _ in 0..TRIES {
            let exchange = self.exchange(&case.call, case.rpc.never_ends());
            ended = timeout(ANSWER_MAX, exchange).await.unwrap_or(Ended::Silent);
            if !matches!(ended, Ended::Lost(_)) {
                break;
            }
            *self.connection.lock().await = None;
        }
        ended
    }

    async fn exchange(&self, call: &Call, never_ends: bool) -> Ended {
        let pieces_max = if never_ends { 1 } else { PIECES_MAX };
        let mut connection = match self.ready().await {
            Ok(connection) => connection,
            Err(error) => return Ended::Lost(error.to_string()),
        };
        let bare = call.pieces.is_empty() && call.end == End::Closed;
        let (answer, mut up) = match connection.send_request(self.request(call), bare) {
            Ok(sent) => sent,
            Err(error) => return failed(&error),
        };
        send_pieces(call, &mut up);
        if let End::Reset(after) = call.end {
            sleep(after).await;
            up.send_reset(Reason::CANCEL);
            return Ended::Left;
        }
        hear(answer, pieces_max).await.unwrap_or_else(|error| failed(&error))
    }

    async fn ready(&self) -> Result<SendRequest<Bytes>, h2::Error> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.clone()
            && let Ok(ready) = connection.ready().await
        {
            return Ok(ready);
        }
        let stream = TcpStream::connect(&self.address).await.map_err(|_| h2::Error::from(Reason::CONNECT_ERROR))?;
        // Without it messages are only later.
        let _ = stream.set_nodelay(true);
        let (connection, driven) = h2::client::handshake(stream).await?;
        tokio::spawn(driven);
        *held = Some(connection.clone());
        connection.ready().await
    }

    fn request(&self, call: &Call) -> Request<()> {
        let uri = format!("http://{}{}", self.address, call.path);
        let mut request = Request::builder().method(call.method).uri(uri).body(()).unwrap();
        for header in &call.headers {
            request.headers_mut().append(header.name, HeaderValue::from_bytes(&header.value).unwrap());
        }
        request
    }
}

/// Sends a body; a service that has answered already wants no more of it.
fn send_pieces(call: &Call, up: &mut SendStream<Bytes>) {
    let last = call.pieces.len().saturating_sub(1);
    for (index, piece) in call.pieces.iter().enumerate() {
        let closes = index == last && call.end == End::Closed;
        if up.send_data(Bytes::copy_from_slice(piece), closes).is_err() {
            return;
        }
    }
}

async fn hear(answer: ResponseFuture, pieces_max: usize) -> Result<Ended, h2::Error> {
    let answer = answer.await?;
    let (status, mut body) = (answer.status().as_u16(), answer.headers().clone());
    if let Some(ended) = status_of(&body) {
        return Ok(ended);
    }
    let mut down = answer.into_body();
    if read_some(&mut down, pieces_max).await? == pieces_max {
        return Ok(Ended::Answered);
    }
    body.extend(down.trailers().await?.unwrap_or_default());
    Ok(status_of(&body).unwrap_or(Ended::Http(status)))
}

/// Reads so many pieces at most.
async fn read_some(down: &mut RecvStream, pieces_max: usize) -> Result<usize, h2::Error> {
    let mut pieces = 0;
    while pieces < pieces_max
        && let Some(piece) = down.data().await
    {
        let length = piece?.len();
        down.flow_control().release_capacity(length)?;
        pieces += usize::from(length > 0);
    }
    Ok(pieces)
}

fn status_of(headers: &HeaderMap) -> Option<Ended> {
    let status = Status::from_header_map(headers)?;
    let own = status.metadata().contains_key(PARTY_KEY);
    Some(Ended::Status { code: status.code(), own, message: status.message().to_owned() })
}

fn failed(error: &h2::Error) -> Ended {
    // Or it has answered what HTTP does not allow, like a body to HEAD.
    if error.is_reset() {
        return Ended::Reset(error.reason().map(u32::from));
    }
    Ended::Lost(error.to_string())
}
