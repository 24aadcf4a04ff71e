//! The RPCs.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use espalier_model::{Checkpoint, Decoder, LoadOptions, Workspace};
use espalier_proto::pb::drafter_server::{Drafter as DrafterRpc, DrafterServer};
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{
    DrafterCard, FILE_DESCRIPTOR_SET, Fault, FaultKind, Grant, Open, Party, Start, VerifierCard, Vocabulary, pb,
};
use espalier_round::{Driver, EVENTS_MAX, Event, Grants, RemoteVerifier, Sequence};
use espalier_service_kit::{Bound, Deadline, channel, outgoing};
use espalier_speculation::{CostModel, parse_policy};
use espalier_text::Tokenizer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::config::Config;
use crate::engine::{Drafting, Engine, Request as DraftRequest};
use crate::error::{DrafterError, SequenceError};
use crate::proposer::EngineProposer;

/// Verifiers that connections are kept to; with more, the oldest connections go.
const VERIFIERS_MAX: usize = 256;

/// A drafter ready to serve.
#[derive(Clone)]
pub struct Drafter(Arc<Inner>);

struct Inner {
    card: DrafterCard,
    decoder: Arc<Decoder>,
    engine: Engine,
    places: Arc<Semaphore>,
    sequences_max: usize,
    verifiers: Mutex<HashMap<String, Channel>>,
    /// What passes of the draft model cost while nothing else runs: rows and time.
    levels: Vec<(usize, Duration)>,
    /// What rounds with each target cost lately: the next sequence's prior.
    costs: Mutex<HashMap<String, CostModel>>,
}

/// Serves until `shutdown` is ready, then drains.
///
/// # Errors
/// [`DrafterError::Serve`] when the transport fails.
pub async fn serve(
    drafter: Drafter,
    bound: Bound,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), DrafterError> {
    Ok(bound.serve(DrafterServer::new(drafter), FILE_DESCRIPTOR_SET, shutdown).await?)
}

impl Drafter {
    /// Loads the model and starts its engine. Takes seconds: not for an async thread.
    ///
    /// # Errors
    /// [`DrafterError`] when the checkpoint or its tokenizer cannot be used.
    pub fn load(config: &Config) -> Result<Self, DrafterError> {
        Self::load_with_progress(config, |_, _| {})
    }

    /// [`Self::load`], reporting layers packed and layers in all.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with_progress(config: &Config, progress: impl FnMut(usize, usize)) -> Result<Self, DrafterError> {
        let checkpoint = Checkpoint::open(&config.model)?;
        let tokenizer = Tokenizer::open(&config.model)?;
        let options = LoadOptions { layers: config.layers, ..LoadOptions::default() };
        let decoder = Arc::new(Decoder::load_with_progress(&checkpoint, &options, progress)?);
        let mut work = Workspace::new(config.threads.get());
        let levels = decoder.measure_passes(&mut work)?;
        let engine = Engine::start(decoder.clone(), work).map_err(DrafterError::Thread)?;
        let vocabulary = Vocabulary {
            size: tokenizer.vocab_size().min(decoder.config().vocab),
            fingerprint: tokenizer.fingerprint().to_owned(),
        };
        let card = DrafterCard {
            name: config.name.clone(),
            vocabulary,
            kind: "independent".to_owned(),
            layers: decoder.layers(),
            context: decoder.config().context,
        };
        let sequences_max = config.sequences_max.get();
        Ok(Self(Arc::new(Inner {
            card,
            decoder,
            engine,
            places: Arc::new(Semaphore::new(sequences_max)),
            sequences_max,
            verifiers: Mutex::default(),
            levels,
            costs: Mutex::default(),
        })))
    }

    /// What the drafter says of itself.
    pub fn card(&self) -> &DrafterCard {
        &self.0.card
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, SequenceError> {
        let limit = self.0.sequences_max;
        self.0.places.clone().try_acquire_owned().map_err(|_| SequenceError::Full { limit })
    }

    fn verifier(&self, address: &str) -> Result<Channel, SequenceError> {
        let mut verifiers = self.0.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = verifiers.get(address) {
            return Ok(channel.clone());
        }
        if verifiers.len() >= VERIFIERS_MAX {
            verifiers.clear();
        }
        let channel = channel(address)?;
        verifiers.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// What rounds with a target are believed to cost: as lately learned, or as both models measured at their start.
    async fn costs(&self, target: &str, verifier: Channel) -> Result<CostModel, Fault> {
        let learned = self.0.costs.lock().unwrap_or_else(PoisonError::into_inner).get(target).cloned();
        if let Some(costs) = learned {
            return Ok(costs);
        }
        let request = Request::new(pb::DescribeVerifierRequest {});
        let described = VerifierClient::new(verifier).describe(request).await;
        let described = described.map_err(|status| Fault::from_status(Party::Verifier, &status))?.into_inner();
        let card = VerifierCard::try_from(described)
            .map_err(|error| Fault::new(Party::Verifier, FaultKind::Internal, error))?;
        let mut costs = CostModel::default();
        costs.expect_levels(self.0.levels.iter().copied());
        costs.expect_verification(card.costs.iter().map(|cost| (cost.rows, cost.time)));
        Ok(costs)
    }

    fn proposer(&self, start: &Start, costs: CostModel) -> Result<EngineProposer, SequenceError> {
        let request = DraftRequest {
            committed: start.committed.clone(),
            generated: start.generated,
            sampling: start.sampling.clone(),
            policy: parse_policy(&start.policy)?,
            stops: start.stop_tokens.clone(),
        };
        let vocab = self.0.card.vocabulary.size;
        let drafting = Drafting::new(&self.0.decoder, vocab, request, costs)?;
        let (drafter, target) = (self.clone(), start.target.clone());
        let learned = move |costs| drafter.learn(&target, costs);
        Ok(EngineProposer::new(self.0.engine.clone(), Box::new(drafting), learned))
    }

    fn learn(&self, target: &str, learned: CostModel) {
        let mut costs = self.0.costs.lock().unwrap_or_else(PoisonError::into_inner);
        if costs.len() < VERIFIERS_MAX || costs.contains_key(target) {
            costs.insert(target.to_owned(), learned);
        }
    }

    /// Reads the start of a stream and makes all that its sequence needs.
    async fn begin(
        &self,
        incoming: &mut Streaming<pb::SpeculateRequest>,
        deadline: Option<Deadline>,
    ) -> Result<(OwnedSemaphorePermit, Driver<EngineProposer, RemoteVerifier>), Fault> {
        let place = self.place()?;
        let first = incoming.message().await.map_err(|status| Fault::from_status(Party::Gateway, &status))?;
        let first = first.ok_or(SequenceError::NoStart)?;
        let start = Start::read(first, &self.0.card.bounds()).map_err(SequenceError::from)?;
        let verifier = self.verifier(&start.verifier)?;
        let costs = self.costs(&start.target, verifier.clone()).await?;
        let proposer = self.proposer(&start, costs)?;
        let open = Open {
            sequence: start.sequence,
            committed: start.committed.clone(),
            generated: start.generated,
            sampling: start.sampling,
            max_tokens: start.max_tokens,
            stop_tokens: start.stop_tokens,
            logprobs: start.logprobs,
        };
        let verifier = RemoteVerifier::open(verifier, open, outgoing(deadline)).await?;
        let sequence = Sequence::new(start.committed, start.max_tokens);
        Ok((place, Driver::new(sequence, proposer, verifier)))
    }
}

/// Adds the grants of a stream as they come; closes them when it ends.
async fn receive_grants(mut incoming: Streaming<pb::SpeculateRequest>, grants: Grants, events: mpsc::Sender<Event>) {
    let failed = loop {
        let grant = match incoming.message().await {
            Ok(Some(message)) => Grant::read(message).map_err(|error| SequenceError::from(error).into()),
            Ok(None) => break None,
            Err(status) => Err(Fault::from_status(Party::Gateway, &status)),
        };
        if let Err(fault) = grant.and_then(|grant| grants.add(grant)) {
            break Some(fault);
        }
    };
    grants.close();
    if let Some(fault) = failed.filter(|fault| fault.kind == FaultKind::BadInput) {
        // Whoever does not read any more does not want to know.
        let _ = events.send(Err(fault)).await;
    }
}

#[tonic::async_trait]
impl DrafterRpc for Drafter {
    async fn describe(
        &self,
        _: Request<pb::DescribeDrafterRequest>,
    ) -> Result<Response<pb::DescribeDrafterResponse>, Status> {
        Ok(Response::new(self.0.card.clone().into()))
    }

    type SpeculateStream = Pin<Box<dyn Stream<Item = Result<pb::SpeculateResponse, Status>> + Send>>;

    async fn speculate(
        &self,
        request: Request<Streaming<pb::SpeculateRequest>>,
    ) -> Result<Response<Self::SpeculateStream>, Status> {
        let deadline = Deadline::of(request.metadata()).map_err(|error| Fault::from(SequenceError::from(error)))?;
        let mut incoming = request.into_inner();
        let (place, driver) = self.begin(&mut incoming, deadline).await?;
        let (events, reports) = mpsc::channel(EVENTS_MAX);
        let grants = Grants::new();
        let granting = tokio::spawn(receive_grants(incoming, grants.clone(), events.clone()));
        tokio::spawn(async move {
            driver.run(grants, events).await;
            granting.abort();
            drop(place);
        });
        let reports = ReceiverStream::new(reports).map(|event| Ok(event?.into()));
        Ok(Response::new(Box::pin(reports)))
    }
}
