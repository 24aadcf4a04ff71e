//! The port for those who watch a process: `/metrics` for scrapers; `/livez`, `/startupz` and `/readyz` for probes. It is
//! plain HTTP, changes nothing, and tells no text of any request.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::monitor::{Monitor, Question};
use crate::serve::{ServeError, listener};

/// Connections that are answered at once; further ones wait.
const CONNECTIONS_MAX: usize = 32;

/// How long one may take to ask and to read.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// How long nothing is taken after a connection could not be: files that have run out do not come back at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The options of the port.
#[derive(Debug, Clone, Default, Args)]
pub struct MonitorArgs {
    /// Where scrapers and probes may ask, over plain HTTP: `/metrics`, `/livez`, `/startupz`, `/readyz`; nowhere if absent
    #[arg(long, env = "ESPALIER_METRICS_LISTEN", value_name = "HOST:PORT")]
    pub metrics_listen: Option<SocketAddr>,
}

impl MonitorArgs {
    /// Answers from now on, if told where. Needs a running tokio runtime.
    ///
    /// # Errors
    /// An address that cannot be had.
    pub async fn open(&self, monitor: &Monitor) -> Result<Option<SocketAddr>, ServeError> {
        match self.metrics_listen {
            Some(address) => Ok(Some(open(address, monitor.clone()).await?)),
            None => Ok(None),
        }
    }
}

/// Answers at `address` as long as the process runs, and says where that is.
async fn open(address: SocketAddr, monitor: Monitor) -> Result<SocketAddr, ServeError> {
    let (listener, address) = listener(address).await?;
    tokio::spawn(answer_all(listener, monitor));
    Ok(address)
}

async fn answer_all(listener: TcpListener, monitor: Monitor) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Nobody closes it.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let monitor = monitor.clone();
                tokio::spawn(async move {
                    let _place = place;
                    // Who is too slow, or leaves in the middle, asks again.
                    let _ = timeout(CONNECTION_MAX, answer(stream, monitor)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the metrics could not be taken");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, monitor: Monitor) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = respond(request.method(), request.uri().path(), request.headers().get(ACCEPT), &monitor);
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn respond(method: &Method, path: &str, accept: Option<&HeaderValue>, monitor: &Monitor) -> Response<Full<Bytes>> {
    let question = match path {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        }
        "/metrics" => return metrics(accept, monitor),
        "/livez" => Question::Live,
        "/startupz" => Question::Started,
        "/readyz" => Question::Ready,
        _ => return text(StatusCode::NOT_FOUND, "there are /metrics, /livez, /startupz and /readyz\n"),
    };
    let answer = monitor.answer(question);
    let status = if answer.yes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text(status, format!("{}\n", answer.why))
}

fn metrics(accept: Option<&HeaderValue>, monitor: &Monitor) -> Response<Full<Bytes>> {
    let (written, kind) = monitor.metrics(accept.and_then(|accept| accept.to_str().ok()));
    with_type(StatusCode::OK, written, kind)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    with_type(status, body, "text/plain; charset=utf-8")
}

fn with_type(status: StatusCode, body: impl Into<Bytes>, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// What a process says that answers at `address`, and whether it is a yes.
///
/// # Errors
/// Nobody answers there, or not in HTTP.
pub(crate) async fn ask(address: SocketAddr, path: &str) -> io::Result<(bool, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_ascii_whitespace().nth(1);
    let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no answer in HTTP came"))?;
    Ok((status == "200", body.trim().to_owned()))
}

/// The longest answer of a probe.
const ANSWER_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use espalier_metrics::TextFormat;

    use super::*;
    use crate::monitor::Standing;
    use crate::program::Program;

    const TEST: Program = Program { name: "test", version: "1.2" };

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    async fn opened() -> (SocketAddr, Monitor) {
        let monitor = Monitor::new(TEST);
        (open(ANY_PORT, monitor.clone()).await.unwrap(), monitor)
    }

    #[tokio::test]
    async fn probes_are_told_how_far_a_process_is() {
        let (address, monitor) = opened().await;
        let service = monitor.service("verifier");
        assert_eq!(ask(address, "/livez").await.unwrap(), (true, "the process is at work".to_owned()));
        assert_eq!(ask(address, "/readyz").await.unwrap(), (false, "verifier is starting".to_owned()));
        service.stands(Standing::Serving);
        assert!(ask(address, "/startupz").await.unwrap().0);
        assert!(ask(address, "/readyz").await.unwrap().0);
        service.stands(Standing::Draining);
        assert_eq!(ask(address, "/readyz").await.unwrap(), (false, "verifier takes no further calls".to_owned()));
        assert!(!ask(address, "/").await.unwrap().0);
    }

    #[tokio::test]
    async fn scrapers_get_the_metrics() {
        let (address, monitor) = opened().await;
        monitor.service("drafter").stands(Standing::Serving);
        let (found, text) = ask(address, "/metrics").await.unwrap();
        assert!(found);
        for line in
            ["espalier_build_info{program=\"test\",version=\"1.2\"} 1", "espalier_ready{component=\"drafter\"} 1"]
        {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn only_reading_is_answered() {
        let monitor = Monitor::new(TEST);
        assert_eq!(respond(&Method::POST, "/metrics", None, &monitor).status(), StatusCode::METHOD_NOT_ALLOWED);
        let open = HeaderValue::from_static("application/openmetrics-text");
        let answer = respond(&Method::GET, "/metrics", Some(&open), &monitor);
        assert_eq!(answer.headers()[CONTENT_TYPE], TextFormat::OpenMetrics.content_type());
    }

    #[tokio::test]
    async fn a_connection_that_asks_nothing_keeps_no_other_waiting() {
        let (address, _monitor) = opened().await;
        let _silent = TcpStream::connect(address).await.unwrap();
        assert!(ask(address, "/livez").await.unwrap().0);
    }
}
