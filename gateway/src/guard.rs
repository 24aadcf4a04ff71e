//! Who may call at all, and with how much: keys, and how long a message says that it is, are looked at before it is read,
//! so who has no key, or sends what no target could serve, costs next to nothing.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use espalier_proto::pb::generation_server::{Generation, GenerationServer};
use futures::future::Either;
use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use crate::counts::Counts;
use crate::directory::Directory;
use crate::error::GatewayError;
use crate::intake::Intake;
use crate::keys::Keys;

/// The call that counts as a request.
const GENERATE_PATH: &str = "/espalier.v1.Generation/Generate";

/// A service that only those may call who show a key; everybody where there are no keys.
#[derive(Clone)]
pub(crate) struct Guarded<T> {
    pub(crate) server: GenerationServer<T>,
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) intake: Intake,
}

impl<T> Guarded<T> {
    /// Tells the service who calls, by the key that is shown.
    fn check<B>(&self, request: &mut Request<B>) -> Result<(), GatewayError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let holder = keys.holder(request.headers())?;
        request.extensions_mut().insert(holder);
        Ok(())
    }
}

impl<T: Generation> NamedService for Guarded<T> {
    const NAME: &'static str = GenerationServer::<T>::NAME;
}

impl<T: Generation> Service<Request<Body>> for Guarded<T> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future =
        Either<Ready<Result<Response<Body>, Infallible>>, <GenerationServer<T> as Service<Request<Body>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.check(&mut request) {
            Ok(()) => {
                let longest = self.directory.request_bytes_max();
                let mut server = self.server.clone().max_decoding_message_size(longest);
                Either::Right(server.call(request.map(|body| self.intake.meter(body, longest))))
            }
            Err(error) => {
                if request.uri().path() == GENERATE_PATH {
                    self.counts.request().turned_away(&error, None);
                }
                Either::Left(ready(Ok(tonic::Status::from(error).into_http())))
            }
        }
    }
}
