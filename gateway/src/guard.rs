//! Who may call at all: keys are looked at before a message is read, so who has none costs next to nothing.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::Either;
use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use crate::error::GatewayError;
use crate::keys::Keys;
use crate::status::Counts;

/// The call that counts as a request.
const GENERATE_PATH: &str = "/espalier.v1.Generation/Generate";

/// A service that only those may call who show a key; everybody where there are no keys.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    keys: Option<Arc<Keys>>,
    counts: Arc<Counts>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, keys: Option<Arc<Keys>>, counts: Arc<Counts>) -> Self {
        Self { inner, keys, counts }
    }

    /// Tells the service who calls, by the key that is shown.
    fn check<B>(&self, request: &mut Request<B>) -> Result<(), GatewayError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let holder = keys.holder(request.headers())?;
        request.extensions_mut().insert(holder);
        Ok(())
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<Body>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.check(&mut request) {
            Ok(()) => Either::Right(self.inner.call(request)),
            Err(error) => {
                if request.uri().path() == GENERATE_PATH {
                    self.counts.request().turned_away(&error);
                }
                Either::Left(ready(Ok(tonic::Status::from(error).into_http())))
            }
        }
    }
}
