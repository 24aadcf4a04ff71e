//! The `Verifier` service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use espalier_proto::pb::verifier_server::{Verifier, VerifierServer};
use espalier_proto::{FILE_DESCRIPTOR_SET, MESSAGE_BYTES_MAX, pb};
use espalier_service_kit::Bound;
use futures::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status, Streaming};

use crate::conversation::Conversation;
use crate::error::ServiceError;
use crate::target::Target;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Serves a target until `shutdown` is ready, then drains.
///
/// # Errors
/// [`ServiceError`] when the transport fails or the engine stops by itself.
pub async fn serve(
    target: Target,
    bound: Bound,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServiceError> {
    let target = Arc::new(target);
    bound.tells(Arc::clone(&target));
    let service = Service { target: Arc::clone(&target) };
    let server = VerifierServer::new(service).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let stop = {
        let target = Arc::clone(&target);
        async move {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = target.engine.stopped() => {}
            }
        }
    };
    let lost = |fault| ServiceError::Engine { target: target.card.name.clone(), fault };
    tokio::select! {
        biased;
        served = bound.serve(server, FILE_DESCRIPTOR_SET, stop) => served?,
        // Nobody is served any more, so nothing is waited for.
        fault = target.engine.stuck() => return Err(lost(fault)),
    }
    target.engine.fault().map_or(Ok(()), |fault| Err(lost(fault)))
}

struct Service {
    target: Arc<Target>,
}

#[tonic::async_trait]
impl Verifier for Service {
    type FetchTokenizerStream = Answers<pb::FetchTokenizerResponse>;
    type VerifyStream = Answers<pb::VerifyResponse>;

    async fn describe(
        &self,
        _: Request<pb::DescribeVerifierRequest>,
    ) -> Result<Response<pb::DescribeVerifierResponse>, Status> {
        Ok(Response::new(self.target.card.clone().into()))
    }

    async fn fetch_tokenizer(
        &self,
        _: Request<pb::FetchTokenizerRequest>,
    ) -> Result<Response<Self::FetchTokenizerStream>, Status> {
        let chunks = self.target.files.clone().into_chunks();
        Ok(Response::new(stream::iter(chunks.map(Ok)).boxed()))
    }

    async fn verify(
        &self,
        request: Request<Streaming<pb::VerifyRequest>>,
    ) -> Result<Response<Self::VerifyStream>, Status> {
        let conversation = Conversation::open(&self.target, request.into_inner()).await?;
        Ok(Response::new(conversation.into_stream().boxed()))
    }

    async fn status(
        &self,
        _: Request<pb::VerifierStatusRequest>,
    ) -> Result<Response<pb::VerifierStatusResponse>, Status> {
        Ok(Response::new(self.target.status().into()))
    }
}
