//! Holds every call of a server to its deadline.
//!
//! tonic itself only bounds the time to the first header of an answer, and says
//! `CANCELLED` when it runs out. Here the whole answer is bounded, streams
//! included, and what is late is called `DEADLINE_EXCEEDED`. Dropping the inner
//! answer is what cancels the work behind it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::deadline::Deadline;

/// Puts [`DeadlineService`] around a server's routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeadlineLayer;

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService { inner }
    }
}

/// Answers `DEADLINE_EXCEEDED` when the request's `grpc-timeout` has passed,
/// before or in the middle of the inner service's answer.
#[derive(Debug, Clone)]
pub struct DeadlineService<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for DeadlineService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match Deadline::from_headers(request.headers()) {
            Ok(None) => Box::pin(self.inner.call(request)),
            Ok(Some(deadline)) => Box::pin(bounded(self.inner.call(request), deadline)),
            Err(refusal) => {
                let status = Status::invalid_argument(refusal.to_string());
                Box::pin(std::future::ready(Ok(status.into_http())))
            }
        }
    }
}

async fn bounded(
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
    deadline: Deadline,
) -> Result<Response<Body>, Infallible> {
    let sleep = Box::pin(sleep_until(deadline.instant()));
    tokio::select! {
        biased;
        response = answer => Ok(response?.map(|body| {
            Body::new(BoundedBody { inner: Some(body), sleep: Box::pin(sleep_until(deadline.instant())) })
        })),
        () = sleep => Ok(late().into_http()),
    }
}

fn late() -> Status {
    Status::deadline_exceeded("the request's deadline has passed")
}

/// An answer that ends with `DEADLINE_EXCEEDED` when its time is up.
struct BoundedBody {
    /// Gone once the deadline has passed, and with it the work behind it.
    inner: Option<Body>,
    sleep: Pin<Box<Sleep>>,
}

impl BoundedBody {
    fn cut(&mut self) -> Frame<<Body as HttpBody>::Data> {
        self.inner = None;
        let mut trailers = HeaderMap::new();
        // Only a message that is no header value could be refused; ours is one.
        if late().add_header(&mut trailers).is_err() {
            trailers.clear();
        }
        Frame::trailers(trailers)
    }
}

impl HttpBody for BoundedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        if self.inner.is_some() && self.sleep.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Ok(self.cut())));
        }
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;
    use crate::deadline::TIMEOUT_HEADER;

    /// Answers after `head`, with a body that never ends.
    async fn endless_after(head: Duration, timeout: &str) -> Response<Body> {
        let inner = tower::service_fn(move |_: Request<Body>| async move {
            sleep(head).await;
            Ok::<_, Infallible>(Response::new(Body::new(Endless)))
        });
        let request = Request::builder().header(TIMEOUT_HEADER, timeout).body(Body::empty());
        DeadlineLayer.layer(inner).call(request.unwrap()).await.unwrap()
    }

    struct Endless;

    impl HttpBody for Endless {
        type Data = <Body as HttpBody>::Data;
        type Error = Status;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
            Poll::Pending
        }
    }

    fn code(headers: &HeaderMap) -> tonic::Code {
        Status::from_header_map(headers).unwrap().code()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_in_time_is_late() {
        let response = endless_after(Duration::from_secs(60), "100m").await;
        assert_eq!(code(response.headers()), tonic::Code::DeadlineExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_does_not_end_in_time_is_cut() {
        let response = endless_after(Duration::ZERO, "100m").await;
        let mut body = response.into_body();
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let trailers = frame.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(code(&trailers), tonic::Code::DeadlineExceeded);
        let end = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        assert!(end.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_cannot_be_understood_is_bad_input() {
        let response = endless_after(Duration::ZERO, "later").await;
        assert_eq!(code(response.headers()), tonic::Code::InvalidArgument);
    }
}
