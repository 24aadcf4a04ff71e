//! The `Generation` service.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use espalier_proto::pb::generation_server::{Generation as GenerationRpc, GenerationServer};
use espalier_proto::{
    FILE_DESCRIPTOR_SET, Fault, FaultKind, GenerationEvent, GenerationRequest, MESSAGE_BYTES_MAX, Party, SequenceId,
    TargetCard, pb,
};
use espalier_service_kit::{Bound, Deadline, ServeError};
use futures::{Stream, StreamExt, stream};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use tracing::{Instrument, Span};

use crate::admission::{Client, Door, Occupancy, Slot};
use crate::config::Config;
use crate::directory::Directory;
use crate::error::{GatewayError, RequestError};
use crate::generation::Generation;
use crate::session::Session;
use crate::status::Counts;
use crate::usual::Usual;
use crate::validate::ValidRequest;

/// How long a gateway waits at its start for all services to say what they are.
const FIRST_ANSWERS_MAX: Duration = Duration::from_secs(5);

type Events = Pin<Box<dyn Stream<Item = Result<pb::GenerateResponse, Status>> + Send>>;

/// A gateway ready to serve.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Arc<Directory>,
    usual: Arc<Usual>,
    door: Arc<Door>,
    counts: Arc<Counts>,
}

/// A request that has a slot.
struct LetIn {
    slot: Slot,
    request: ValidRequest,
    deadline: Option<Deadline>,
}

/// Serves until `shutdown` is ready, and keeps an eye on verifiers and drafters meanwhile.
///
/// # Errors
/// [`ServeError`] when the transport fails.
pub async fn serve(
    gateway: Gateway,
    bound: Bound,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let _watching = gateway.0.directory.watch();
    let server = GenerationServer::new(gateway).max_decoding_message_size(MESSAGE_BYTES_MAX);
    bound.serve(server, FILE_DESCRIPTOR_SET, shutdown).await
}

impl Gateway {
    /// A gateway that has asked each of its verifiers and drafters once what it
    /// is. Those that did not answer, or not in [`FIRST_ANSWERS_MAX`], are asked again while it serves.
    pub async fn start(config: Config) -> Self {
        let directory = Arc::new(Directory::new(&config));
        if timeout(FIRST_ANSWERS_MAX, directory.refresh()).await.is_err() {
            tracing::warn!("not all services have said what they are; those that have are served");
        }
        Self(Arc::new(Inner {
            directory,
            usual: Arc::new(config.usual),
            door: Arc::new(Door::new(config.limits)),
            counts: Arc::default(),
        }))
    }

    /// The targets that answer at present.
    pub fn targets(&self) -> Vec<TargetCard> {
        self.0.directory.targets()
    }

    /// The requests that are being served, and those that wait.
    pub fn occupancy(&self) -> Occupancy {
        self.0.door.occupancy()
    }

    /// Finds room for a request, checks it and gets it under way.
    async fn admit(&self, request: Request<pb::GenerateRequest>) -> Result<(Generation, Slot), GatewayError> {
        // Counts a client that goes away while it waits, too.
        let mut counted = self.0.counts.request();
        let LetIn { slot, request, deadline } =
            self.let_in(request).await.inspect_err(|error| counted.turned_away(error))?;
        let generation = Generation::new(request, Arc::clone(&self.0.directory), deadline, counted);
        Ok((generation, slot))
    }

    async fn let_in(&self, request: Request<pb::GenerateRequest>) -> Result<LetIn, GatewayError> {
        let client = Client::of(request.metadata(), request.remote_addr()).map_err(RequestError::from)?;
        let deadline = Deadline::of(request.metadata()).map_err(RequestError::from)?;
        let session = Session::of(request.metadata()).map_err(RequestError::from)?;
        let slot = self.0.door.enter(client, deadline).await?;
        let request = self.validate(request.into_inner(), session).await?;
        Ok(LetIn { slot, request, deadline })
    }

    /// Long prompts take a while to tokenize, so a thread for such work does it.
    async fn validate(
        &self,
        wire: pb::GenerateRequest,
        session: Option<Session>,
    ) -> Result<ValidRequest, GatewayError> {
        let inner = Arc::clone(&self.0);
        let validate = move || {
            let request = with_seed(GenerationRequest::try_from(wire)?);
            let id = SequenceId::from((u128::from(random()) << 64) | u128::from(random()));
            ValidRequest::new(request, id, session, &inner.directory, &inner.usual)
        };
        let validated = tokio::task::spawn_blocking(validate).await;
        Ok(validated.map_err(|error| Fault::new(Party::Gateway, FaultKind::Internal, error))??)
    }
}

#[tonic::async_trait]
impl GenerationRpc for Gateway {
    type GenerateStream = Events;

    async fn generate(&self, request: Request<pb::GenerateRequest>) -> Result<Response<Self::GenerateStream>, Status> {
        let (generation, slot) = self.admit(request).await?;
        Ok(Response::new(events(generation, slot).boxed()))
    }

    async fn list_targets(
        &self,
        _: Request<pb::ListTargetsRequest>,
    ) -> Result<Response<pb::ListTargetsResponse>, Status> {
        let targets = self.targets().into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListTargetsResponse { targets }))
    }

    async fn status(&self, _: Request<pb::SystemStatusRequest>) -> Result<Response<pb::SystemStatusResponse>, Status> {
        let Inner { directory, door, counts, .. } = &*self.0;
        Ok(Response::new(counts.survey(door, directory).await?.into()))
    }
}

/// All that the client is told, up to the end or a fault. Only a client that
/// reads gets more; one that goes away drops the generation.
fn events(generation: Generation, slot: Slot) -> impl Stream<Item = Result<pb::GenerateResponse, Status>> + Send {
    let span = Span::current();
    stream::unfold(Some((generation, slot)), move |state| {
        let next = async move {
            let (mut generation, slot) = state?;
            let event = generation.next().await;
            let goes_on = matches!(event, Ok(GenerationEvent::Tokens(_)));
            let message = event.map(Into::into).map_err(|fault| GatewayError::from(fault).into());
            Some((message, goes_on.then_some((generation, slot))))
        };
        next.instrument(span.clone())
    })
}

/// Draws a seed where the client has chosen none and one is needed.
fn with_seed(request: GenerationRequest) -> GenerationRequest {
    if request.seeded || request.sampling.is_greedy() {
        return request;
    }
    GenerationRequest { sampling: request.sampling.with_seed(random()), ..request }
}

/// A number that nobody can foresee.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
