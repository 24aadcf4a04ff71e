//! The RPCs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use espalier_metrics::{Snapshot, Source};
use espalier_model::{BlockPool, DraftFolder, DraftModel, LoadOptions, Team, Weights, Workspace};
use espalier_proto::pb::drafter_server::{Drafter as DrafterRpc, DrafterServer};
use espalier_proto::{
    DrafterCard, DrafterStatus, FILE_DESCRIPTOR_SET, Fault, FaultKind, Grant, ModelAtWork, OnlyTarget, Open, Party,
    Process, Start, Tap, VerifierCard, Vocabulary, pb,
};
use espalier_round::{Driver, EVENTS_MAX, Event, Grants, RemoteVerifier, Sequence};
use espalier_service_kit::{Bound, Bytes, Deadline, Role, current_trace, outgoing};
use espalier_speculation::{Acceptance, CostModel, Curve, Grower, PolicySpec, Restriction, parse_policy};
use espalier_text::Tokenizer;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use crate::config::Config;
use crate::engine::{Drafting, Engine, Exits, Memory, Setup, Tuning};
use crate::error::{DrafterError, SequenceError};
use crate::held::Held;
use crate::learned::{Circumstances, GateKey, Learned, SharedCosts, SharedGate};
use crate::predictors::Predictors;
use crate::proposer::EngineProposer;
use crate::slots::{Slot, Slots};
use crate::target_shares::TargetShares;
use crate::verifiers::{Verifier, Verifiers};

/// A stream must say what it is about within this time.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// Rows of a pass that is larger than any.
const ROWS_AMPLE: usize = 1024;

/// A drafter ready to serve.
#[derive(Clone)]
pub struct Drafter(Arc<Inner>);

struct Inner {
    card: DrafterCard,
    model: Arc<DraftModel>,
    exits: Exits,
    predictors: Predictors,
    memory: Memory,
    engine: Engine,
    slots: Slots,
    verifiers: Verifiers,
    /// What texts are held to.
    held: Held,
    /// What passes of the draft model cost while nothing else runs: rows and time.
    levels: Vec<(usize, Duration)>,
    /// What was learned from the sequences so far.
    learned: Learned,
    started: Instant,
}

/// Serves until `shutdown` is ready, then drains.
///
/// # Errors
/// [`DrafterError::Serve`] when the transport fails, [`DrafterError::Engine`] when the engine stops by itself.
pub async fn serve(
    drafter: Drafter,
    bound: Bound,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), DrafterError> {
    let stop = {
        let drafter = drafter.clone();
        async move {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = drafter.0.engine.stopped() => {}
            }
        }
    };
    bound.tells(drafter.clone());
    let engine = &drafter.0.engine;
    let lost = |fault| DrafterError::Engine { drafter: drafter.0.card.name.clone(), fault };
    tokio::select! {
        biased;
        served = bound.serve(DrafterServer::new(drafter.clone()), FILE_DESCRIPTOR_SET, stop) => served?,
        // Nobody is served any more, so nothing is waited for.
        fault = engine.stuck(drafter.largest_pass()) => return Err(lost(fault)),
    }
    engine.fault().map_or(Ok(()), |fault| Err(lost(fault)))
}

impl Drafter {
    /// Loads the model and starts its engine, to compute with `team`. Takes seconds: not for an async thread.
    ///
    /// # Errors
    /// [`DrafterError`] when the checkpoint or its tokenizer cannot be used.
    pub fn load(config: &Config, team: &Team) -> Result<Self, DrafterError> {
        Self::load_with_progress(config, team, |_, _| {})
    }

    /// [`Self::load`], reporting layers packed and layers in all.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with_progress(
        config: &Config,
        team: &Team,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self, DrafterError> {
        let tokenizer = Tokenizer::open(&config.model)?;
        let arithmetic = config.compute.of(&Weights::open(&config.model)?, config.device);
        let options =
            LoadOptions { layers: config.layers, arithmetic, device: config.device, ..LoadOptions::default() };
        let folders = DraftFolder { dir: &config.model, target: config.target_model.as_deref() };
        let model = Arc::new(DraftModel::open_with_progress(folders, &options, progress)?);
        let card = describe(config, &model, &tokenizer);
        let exits = Exits::new(&model, config, card.vocabulary.size)?;
        let predictors = Predictors::open(config, &model)?;
        let mut work = Workspace::of_team(team);
        // How many layers a drafter with several exits runs, its levels will tell; these run them all.
        let measure = || model.decoder().measure_passes(&mut work);
        let levels = config.workplace.costs().map_or_else(measure, Ok)?;
        let memory = Memory::new(&model, config)?;
        let engine = Engine::start(model.clone(), work, config.workplace).map_err(DrafterError::Thread)?;
        let slots = Slots::new(config.sequences_max.get(), TargetShares::new(&config.shares));
        Ok(Self(Arc::new(Inner {
            engine: engine.with_levels(&model, &levels),
            card,
            model,
            exits,
            predictors,
            memory,
            slots,
            verifiers: Verifiers::new(config.allow_verifiers.clone(), config.dialer.to(Role::Verifier)),
            held: Held::new(tokenizer, config.workplace),
            levels,
            learned: Learned::default(),
            started: Instant::now(),
        })))
    }

    /// What it is doing at present, and what it has done.
    fn status(&self) -> DrafterStatus {
        let Inner { card, engine, memory, slots, started, .. } = &*self.0;
        let (counts, resident) = (engine.counts(), Bytes::resident());
        DrafterStatus {
            process: Process { uptime: started.elapsed(), resident_bytes: resident.map(|Bytes(bytes)| bytes as u64) },
            sequences: slots.status(),
            trees_growing: counts.growing.read(),
            passes: counts.passes.read(),
            rounds: counts.rounds(),
            kv: memory.status(),
            arithmetic: card.arithmetic.clone(),
            targets: counts.targets(),
        }
    }

    /// What a pass of [`ROWS_AMPLE`] rows takes where nothing else runs.
    fn largest_pass(&self) -> Duration {
        let measured = self.0.levels.iter().map(|&(rows, took)| (rows, took.as_secs_f64()));
        let seconds = Curve::through(measured).map_or(0.0, |curve| curve.at(ROWS_AMPLE));
        Duration::from_secs_f64(seconds.max(0.0))
    }

    /// What the drafter says of itself.
    pub fn card(&self) -> &DrafterCard {
        &self.0.card
    }

    /// The memory for keys and values.
    pub fn blocks(&self) -> &BlockPool {
        self.0.memory.blocks()
    }

    /// Refuses another target than the one that the drafter was made for.
    fn check_target(&self, target: &VerifierCard) -> Result<(), SequenceError> {
        let DrafterCard { name, only_target, .. } = &self.0.card;
        match only_target {
            Some(only) if only.fingerprint != target.model.fingerprint => Err(SequenceError::OtherTarget {
                drafter: name.clone(),
                made_for: only.name.clone(),
                expected: only.fingerprint.clone(),
                target: target.name.clone(),
                found: target.model.fingerprint.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// What rounds with a target cost: as both models measured at their start, and as its sequences find out since.
    fn costs(&self, target: &VerifierCard) -> SharedCosts {
        self.0.learned.costs(&target.name, || {
            let mut costs = CostModel::default();
            costs.expect_levels(self.0.levels.iter().copied());
            costs.expect_verification(target.costs.iter().map(|cost| (cost.rows, cost.time)));
            SharedCosts::new(costs)
        })
    }

    /// The hidden states of its target that a sequence needs: those that the model reads, or else its predictor.
    fn tap(&self, drafting: &Drafting) -> Option<Tap> {
        let model = &self.0.model;
        let tap = |layer| Tap { layer, width: model.decoder().config().hidden };
        model.kind().tapped_layer().map(tap).or_else(|| drafting.tap())
    }

    /// Who grows the trees of a sequence under `policy`, with what others of the same circumstances have learned.
    fn grower(
        &self,
        start: &Start,
        policy: &PolicySpec,
        circumstances: Circumstances,
    ) -> Result<Grower, SequenceError> {
        let stops = [&start.sequence.stop_tokens[..], &self.0.model.decoder().config().eos].concat();
        let mut grower = match start.sequence.sampling.acceptance() {
            Acceptance::Coupled => Grower::new(policy, stops),
            Acceptance::Rejection => Grower::for_drawn(policy, stops)?,
        };
        if let Some(own) = grower.experience() {
            grower.build_on(&self.0.learned.experience(circumstances, own));
        }
        Ok(grower)
    }

    /// The gate of a sequence; none where it is always drafted: if that was asked for, and by rejection, where the text
    /// depends on the drafts and must not depend on the time.
    fn gate(&self, start: &Start, policy: &PolicySpec, circumstances: Circumstances) -> Option<SharedGate> {
        let gated = policy.is_gated() && start.sequence.sampling.acceptance() == Acceptance::Coupled;
        gated.then(|| self.0.learned.gate(GateKey { verifier: start.verifier.to_string(), circumstances }))
    }

    /// Who proposes for a sequence, and the hidden states that this takes.
    fn proposer(
        &self,
        start: &Start,
        target: &VerifierCard,
        slot: Slot,
        restriction: Option<Box<dyn Restriction>>,
    ) -> Result<(EngineProposer, Option<Tap>), SequenceError> {
        let Inner { card, model, predictors, memory, learned, .. } = &*self.0;
        let policy = parse_policy(&start.policy)?;
        let circumstances = Circumstances {
            target: target.name.clone(),
            policy: policy.to_string(),
            greedy: start.sequence.sampling.is_greedy(),
        };
        let exits = self.0.exits.of_sequence(start.exit_thresholds.clone())?;
        let tuner = exits.tuner()?.map(|new| learned.tuner(&target.name, new));
        let setup = Setup {
            cache: memory.open(model, &start.sequence)?,
            sequence: start.sequence.clone(),
            restriction,
            grower: self.grower(start, &policy, circumstances.clone())?,
            exits,
            tuning: tuner.map(Tuning::new),
            predictor: predictors.of_target(&target.model.fingerprint).cloned(),
            costs: self.costs(target),
            vocab: card.vocabulary.size,
            trees: start.trees,
        };
        let drafting = Box::new(Drafting::new(model, setup));
        let (tap, gate) = (self.tap(&drafting), self.gate(start, &policy, circumstances));
        Ok((EngineProposer::new(self.0.engine.sequence(slot), drafting, target.tree_nodes_max, gate), tap))
    }

    /// Reads the start of a stream and makes all that its sequence needs.
    async fn begin(
        &self,
        incoming: &mut Streaming<pb::SpeculateRequest>,
        deadline: Option<Deadline>,
    ) -> Result<Driver<EngineProposer, RemoteVerifier>, Fault> {
        let no_start = SequenceError::NoStart { limit: OPENING_MAX };
        let Ok(first) = timeout(OPENING_MAX, incoming.message()).await else { return Err(no_start.into()) };
        let first = first.map_err(|status| Fault::from_caller(Party::Gateway, &status))?.ok_or(no_start)?;
        let start = Start::read(first, &self.0.card.bounds()).map_err(SequenceError::from)?;
        let Verifier { channel, card, .. } = self.0.verifiers.at(&start.verifier).await?;
        check_name(&start, &card)?;
        self.check_target(&card)?;
        let slot = self.0.slots.admit(&card.name)?;
        let restriction = self.0.held.restriction(&start, &card).await?;
        let (proposer, tap) = self.proposer(&start, &card, slot, restriction)?;
        let sequence = Sequence::new(start.sequence.committed.clone(), start.sequence.max_tokens);
        let (trees, open) = (start.trees, Open { sequence: start.sequence, tap });
        let opened = RemoteVerifier::open(channel, open, outgoing(deadline)).await;
        let verifier = opened.inspect_err(|fault| {
            // One that is full, or was too slow for this sequence, is still what it was.
            if !matches!(fault.kind, FaultKind::Overloaded | FaultKind::Late | FaultKind::Cancelled) {
                self.0.verifiers.forget(&start.verifier);
            }
        })?;
        Ok(Driver::new(sequence, proposer, verifier).traced(current_trace().is_some()).telling_trees(trees))
    }
}

/// All that is measured of a drafter.
impl Source for Drafter {
    fn tell(&self, to: &mut Snapshot) {
        let DrafterStatus { sequences, trees_growing: trees_waiting, rounds, kv, .. } = self.status();
        let Inner { card, engine, levels, learned, .. } = &*self.0;
        let (role, model, passes) = (Role::Drafter.name(), &card.name, &engine.counts().passes);
        let turn_age = engine.turn_age();
        let at_work = ModelAtWork { role, model, sequences, trees_waiting, passes, rounds, kv, turn_age };
        at_work.tell(to);
        at_work.tell_costs(levels.iter().copied(), to);
        learned.tell(model, to);
    }
}

/// Slots are shared between targets, so a name that no verifier has would take some from those that there are.
fn check_name(start: &Start, card: &VerifierCard) -> Result<(), SequenceError> {
    if start.target == card.name {
        return Ok(());
    }
    let (verifier, expected, found) = (start.verifier.clone(), start.target.clone(), card.name.clone());
    Err(SequenceError::Renamed { verifier, expected, found })
}

/// What the drafter says of itself.
fn describe(config: &Config, model: &DraftModel, tokenizer: &Tokenizer) -> DrafterCard {
    let (kind, decoder) = (model.kind(), model.decoder());
    DrafterCard {
        name: config.name.clone(),
        vocabulary: Vocabulary {
            size: tokenizer.vocab_size().min(decoder.config().vocab),
            fingerprint: tokenizer.fingerprint().to_owned(),
        },
        kind: kind.name().to_owned(),
        layers: decoder.layers(),
        context: decoder.config().context,
        only_target: kind.target().map(|target| OnlyTarget {
            name: target.name.clone(),
            fingerprint: target.fingerprint.clone(),
            tapped_layer: kind.tapped_layer(),
        }),
        exits: model.exits().len(),
        arithmetic: decoder.computes_in(),
    }
}

/// Adds the grants of a stream as they come; closes them when it ends.
async fn receive_grants(mut incoming: Streaming<pb::SpeculateRequest>, grants: Grants, events: mpsc::Sender<Event>) {
    let failed = loop {
        let grant = match incoming.message().await {
            Ok(Some(message)) => Grant::read(message).map_err(|error| SequenceError::from(error).into()),
            Ok(None) => break None,
            Err(status) => Err(Fault::from_caller(Party::Gateway, &status)),
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

    async fn status(
        &self,
        _: Request<pb::DrafterStatusRequest>,
    ) -> Result<Response<pb::DrafterStatusResponse>, Status> {
        Ok(Response::new(Drafter::status(self).into()))
    }

    type SpeculateStream = Pin<Box<dyn Stream<Item = Result<pb::SpeculateResponse, Status>> + Send>>;

    async fn speculate(
        &self,
        request: Request<Streaming<pb::SpeculateRequest>>,
    ) -> Result<Response<Self::SpeculateStream>, Status> {
        let deadline = Deadline::of(request.metadata()).map_err(|error| Fault::from(SequenceError::from(error)))?;
        let mut incoming = request.into_inner();
        let driver = self.begin(&mut incoming, deadline).await?;
        let (events, reports) = mpsc::channel(EVENTS_MAX);
        let grants = Grants::new();
        let granting = tokio::spawn(receive_grants(incoming, grants.clone(), events.clone()));
        let run = async move {
            driver.run(grants, events).await;
            granting.abort();
        };
        tokio::spawn(run.in_current_span());
        let reports = ReceiverStream::new(reports).map(|event| Ok(event?.into()));
        Ok(Response::new(Box::pin(reports)))
    }
}
