//! The `Generation` service.

use std::pin::Pin;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use espalier_proto::pb::generation_server::Generation as GenerationRpc;
use espalier_proto::{
    Chunk, Fault, FaultKind, GenerationEvent, GenerationRequest, Party, Prompt, SequenceId, TargetCard, pb,
};
use espalier_service_kit::{CallerAddress, Deadline};
use espalier_speculation::Token;
use futures::{Stream, StreamExt, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tonic::{Request, Response, Status};
use tracing::{Instrument, Span};

use crate::admission::{Claim, Client, Door, Occupancy, Slot};
use crate::chance::Chance;
use crate::config::Config;
use crate::counts::Counts;
use crate::directory::Directory;
use crate::error::{GatewayError, RequestError};
use crate::generation::Generation;
use crate::keys::{Holder, KeyError, Keys};
use crate::reopening::Reopening;
use crate::session::Session;
use crate::status::Surveys;
use crate::usual::Usual;
use crate::validate::{ValidRequest, find_target, tokens_of};

/// How long a gateway waits at its start for all services to say what they are.
const FIRST_ANSWERS_MAX: Duration = Duration::from_secs(5);

/// What a byte of a request may take in JSON, escapes apart, which are rare.
const JSON_BYTES_A_BYTE: usize = 2;

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
    surveys: Surveys,
    reopening: Arc<Reopening>,
    /// How long an answer may stand still because nobody reads it.
    unread_max: Duration,
    /// The keys that requests must show, if they must.
    keys: Option<Arc<Keys>>,
    /// Whether there is a page at `/`.
    playground: bool,
    /// Prompts that may be tokenized at once: long ones take memory, and all processors if they are let.
    tokenizing: Arc<Semaphore>,
}

/// What those share who answer calls.
pub(crate) struct Parts {
    pub(crate) directory: Arc<Directory>,
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) door: Arc<Door>,
}

/// A prompt as a target reads it.
pub(crate) struct Tokenized {
    /// How many tokens the target can hold.
    pub(crate) context: usize,
    pub(crate) tokens: Vec<Token>,
    /// What each is alone.
    pub(crate) texts: Vec<String>,
}

/// An answer at work, with its place.
struct Answer {
    generation: Generation,
    /// Whose tokens these are, where keys are shown.
    holder: Option<Holder>,
    _slot: Slot,
    deadline: Option<Deadline>,
    unread_max: Duration,
}

/// What a client is told, or why nothing more comes.
type Told = Result<GenerationEvent, Fault>;

/// A request that has a slot.
struct LetIn {
    slot: Slot,
    holder: Option<Holder>,
    request: ValidRequest,
    deadline: Option<Deadline>,
}

impl Gateway {
    /// A gateway that has asked each of its verifiers and drafters once what it
    /// is. Those that did not answer, or not in five seconds, are asked again while it serves.
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
            surveys: Surveys::default(),
            reopening: Arc::default(),
            unread_max: config.unread_max,
            keys: config.keys,
            playground: config.playground,
            tokenizing: Arc::new(Semaphore::new(available_parallelism().map_or(1, |count| count.get().div_ceil(2)))),
        }))
    }

    /// Whether there is a page at `/`.
    pub(crate) fn has_playground(&self) -> bool {
        self.0.playground
    }

    /// What its server is made of.
    pub(crate) fn parts(&self) -> Parts {
        let Inner { directory, keys, counts, door, .. } = &*self.0;
        let (keys, counts) = (keys.clone(), Arc::clone(counts));
        Parts { directory: Arc::clone(directory), keys, counts, door: Arc::clone(door) }
    }

    /// The targets that answer at present.
    pub fn targets(&self) -> Vec<TargetCard> {
        self.0.directory.targets()
    }

    /// Bytes of the longest request that any target could serve, as JSON: a byte of a text may be written with several.
    pub(crate) fn json_bytes_max(&self) -> usize {
        self.0.directory.request_bytes_max().saturating_mul(JSON_BYTES_A_BYTE)
    }

    /// Whether a target of this name has been heard of.
    pub(crate) fn check_known(&self, target: &str) -> Result<(), RequestError> {
        find_target(target, &self.0.directory).map(drop)
    }

    /// The requests that are being served, and those that wait.
    pub fn occupancy(&self) -> Occupancy {
        self.0.door.occupancy()
    }

    /// The tokens of a prompt as a target reads them, what each is alone, and how many the target can hold. No slot is
    /// needed, but a turn to tokenize.
    pub(crate) async fn tokenize(&self, target: String, prompt: Prompt) -> Result<Tokenized, GatewayError> {
        let inner = Arc::clone(&self.0);
        let workplace = inner.directory.surroundings().workplace;
        // Nobody closes it.
        let turn = Arc::clone(&inner.tokenizing).acquire_owned().await;
        let tokenize = move || {
            let _turn = turn;
            let (target, tokens) = tokens_of(&target, prompt, &inner.directory, &inner.usual.renderer)?;
            let text = |token: &Token| target.tokenizer.decode(&[*token]);
            let texts = tokens.iter().map(text).collect::<Result<_, _>>().map_err(RequestError::from)?;
            Ok::<_, RequestError>(Tokenized { context: target.card.context, tokens, texts })
        };
        let panicked = || Fault::new(Party::Gateway, FaultKind::Internal, "the prompt could not be tokenized");
        Ok(workplace.compute(tokenize).await.ok_or_else(panicked)??)
    }

    /// Finds room for a request, checks it and gets it under way.
    async fn admit(&self, request: Request<pb::GenerateRequest>) -> Result<Answer, GatewayError> {
        // Counts a client that goes away while it waits, too.
        let mut counted = self.0.counts.request();
        let target = self.0.directory.target(&request.get_ref().target).map(|target| target.card.name.clone());
        let turned_away = |error: &GatewayError| counted.turned_away(error, target.as_deref());
        let LetIn { slot, holder, request, deadline } = self.let_in(request).await.inspect_err(turned_away)?;
        let at_work = self.0.reopening.enter();
        let generation = Generation::new(request, Arc::clone(&self.0.directory), deadline, counted, at_work);
        Ok(Answer { generation, holder, _slot: slot, deadline, unread_max: self.0.unread_max })
    }

    async fn let_in(&self, request: Request<pb::GenerateRequest>) -> Result<LetIn, GatewayError> {
        let holder = self.holder(&request)?;
        let claim = self.claim(&request, holder.as_ref())?;
        let deadline = Deadline::of(request.metadata()).map_err(RequestError::from)?;
        let session = Session::of(request.metadata()).map_err(RequestError::from)?;
        // Those of a target that is down would take slots away from those of all others.
        self.0.directory.check_up(&request.get_ref().target)?;
        holder.as_ref().map_or(Ok(()), Holder::begin)?;
        let asked = Instant::now();
        let slot = self.0.door.enter(claim, deadline).await?;
        self.0.counts.waited(asked.elapsed());
        let (slot, mut request) = self.validate(slot, request.into_inner(), session).await?;
        // It may have waited for long.
        self.0.directory.check_up(&request.target.card.name)?;
        if let Some(holder) = &holder {
            request.sequence.tenant = holder.tenant_number();
            // What a client says was generated before is read like a prompt.
            holder.charge(request.sequence.committed.len());
            tracing::debug!(key = holder.name(), tenant = holder.tenant(), "a request was let in by its API key");
        }
        Ok(LetIn { slot, holder, request, deadline })
    }

    /// Who calls, where keys are shown. The [`Guarded`] service found out; a call that did not come through it is nobody's.
    fn holder<T>(&self, request: &Request<T>) -> Result<Option<Holder>, KeyError> {
        let holder = request.extensions().get::<Holder>().cloned();
        if holder.is_none() && self.0.keys.is_some() {
            return Err(KeyError::Unknown);
        }
        Ok(holder)
    }

    /// On which terms a request asks for a slot: those of its key, or else of the name that it gives.
    fn claim<T>(&self, request: &Request<T>, holder: Option<&Holder>) -> Result<Claim, RequestError> {
        let door = &self.0.door;
        match holder {
            Some(holder) => Ok(holder.claim(door.client_requests_max())),
            None => {
                let address = request.extensions().get::<CallerAddress>().map(|&CallerAddress(address)| address);
                Ok(door.claim(Client::of(request.metadata(), address)?))
            }
        }
    }

    /// Long prompts take a while to tokenize, so a thread for such work does it. It cannot be stopped, so it has the slot
    /// until it is done: a client that goes away meanwhile does not make room for the next such prompt.
    async fn validate(
        &self,
        slot: Slot,
        wire: pb::GenerateRequest,
        session: Option<Session>,
    ) -> Result<(Slot, ValidRequest), GatewayError> {
        let inner = Arc::clone(&self.0);
        let workplace = inner.directory.surroundings().workplace;
        // Nobody closes it. Who goes away while it waits here has cost nothing.
        let turn = Arc::clone(&inner.tokenizing).acquire_owned().await;
        let validate = move || {
            let _turn = turn;
            let chance = &inner.directory.surroundings().chance;
            let request = with_seed(GenerationRequest::try_from(wire)?, chance);
            let id = SequenceId::from((u128::from(chance.number()) << 64) | u128::from(chance.number()));
            let valid = ValidRequest::new(request, id, session, &inner.directory, &inner.usual)?;
            Ok::<_, RequestError>((slot, valid))
        };
        let panicked = || Fault::new(Party::Gateway, FaultKind::Internal, "the request could not be validated");
        Ok(workplace.compute(validate).await.ok_or_else(panicked)??)
    }
}

#[tonic::async_trait]
impl GenerationRpc for Gateway {
    type GenerateStream = Events;

    async fn generate(&self, request: Request<pb::GenerateRequest>) -> Result<Response<Self::GenerateStream>, Status> {
        let answer = self.admit(request).await?;
        Ok(Response::new(answer.into_stream().boxed()))
    }

    async fn list_targets(
        &self,
        request: Request<pb::ListTargetsRequest>,
    ) -> Result<Response<pb::ListTargetsResponse>, Status> {
        self.holder(&request).map_err(GatewayError::from)?;
        let targets = self.targets().into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListTargetsResponse { targets }))
    }

    async fn status(
        &self,
        request: Request<pb::SystemStatusRequest>,
    ) -> Result<Response<pb::SystemStatusResponse>, Status> {
        let holder = self.holder(&request).map_err(GatewayError::from)?;
        holder.as_ref().map_or(Ok(()), Holder::check_status).map_err(GatewayError::from)?;
        let Inner { directory, door, counts, surveys, .. } = &*self.0;
        Ok(Response::new(surveys.survey(counts, door, directory).await?.into()))
    }
}

impl Answer {
    /// All that the client is told, up to the end or a fault. Only a client that reads gets more. One that goes away ends
    /// the answer, and so does one that reads nothing for too long or past its deadline: it may be stopped, and holds
    /// places of all services.
    fn into_stream(self) -> impl Stream<Item = Result<pb::GenerateResponse, Status>> + Send {
        let unread_max = self.unread_max;
        let (events, told) = mpsc::channel(1);
        tokio::spawn(self.tell(events).instrument(Span::current()));
        stream::unfold((told, false), move |(mut told, over)| async move {
            if over {
                return None;
            }
            let event = told.recv().await.unwrap_or_else(|| Err(given_up(unread_max)));
            let over = is_last(&event);
            let message = event.map(Into::into).map_err(|fault| GatewayError::from(fault).into());
            Some((message, (told, over)))
        })
    }

    /// Tells one event after the other, each when the one before it was taken. The last comes when the place is free, so
    /// that who has read it may ask again.
    async fn tell(mut self, events: mpsc::Sender<Told>) {
        loop {
            let patience = self.deadline.map_or(self.unread_max, |own| own.remaining().min(self.unread_max));
            let Ok(room) = timeout(patience, events.reserve()).await else {
                return tracing::warn!("an answer that nobody reads was given up");
            };
            // Else the client has gone.
            let Ok(room) = room else { return };
            let event = tokio::select! {
                biased;
                event = self.generation.next() => event,
                () = events.closed() => return,
            };
            if let (Some(holder), Ok(GenerationEvent::Tokens(Chunk { tokens, .. }))) = (&self.holder, &event) {
                holder.charge(tokens.len());
            }
            if is_last(&event) {
                drop(self);
                return room.send(event);
            }
            room.send(event);
        }
    }
}

/// Whether nothing comes after it.
fn is_last(event: &Told) -> bool {
    matches!(event, Ok(GenerationEvent::Finished(_)) | Err(_))
}

/// What a client is told that comes back to an answer it has left alone for too long.
fn given_up(unread_max: Duration) -> Fault {
    let what = format_args!("the answer was given up: nothing of it was read for {unread_max:?}, or past its deadline");
    Fault::new(Party::Client, FaultKind::Late, what)
}

/// Draws a seed where the client has chosen none and one is needed.
fn with_seed(request: GenerationRequest, chance: &Chance) -> GenerationRequest {
    if request.seeded || request.sampling.is_greedy() {
        return request;
    }
    GenerationRequest { sampling: request.sampling.with_seed(chance.number()), ..request }
}
