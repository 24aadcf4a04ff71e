//! The turns of who owns the draft model.
//!
//! Every turn it takes the requests that wait, runs one level of as many of them as a pass takes, and sends home those that
//! are grown. A request whose caller is gone is dropped before compute is spent on it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use espalier_model::{Asked, AtExit, DraftModel, ModelError, Output, Segment, States, Workspace};
use espalier_proto::{PassCounters, RoundCounts};
use espalier_round::Proposed;
use espalier_service_kit::{Asker, Gauge, Present, Pulse, Seat, Workplace};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::drafting::Drafting;
use super::share::{PASS_ROWS, RowShares, SequenceNumber, StepAsk};
use super::step::{Answers, Step};
use crate::error::SequenceError;
use crate::slots::Slot;
use crate::status::{Counted, Counts};
use crate::target_shares::TargetShare;

/// Requests that wait to be taken. A sequence has one at most, so what the engine has taken is bounded by the slots.
const QUEUE_MAX: usize = 256;

/// A sequence whose tree is grown, or whose committed tokens are read, as far as they were to be.
pub(crate) type Grown = Result<Box<Drafting>, SequenceError>;

/// A sequence to grow a tree for, and where to send it.
pub(super) struct GrowRequest {
    pub(super) drafting: Box<Drafting>,
    /// Whom its rows are counted to.
    pub(super) share: TargetShare,
    pub(super) sequence: SequenceNumber,
    pub(super) home: oneshot::Sender<Grown>,
    pub(super) _growing: Present,
}

/// The engine, with its thread; that ends when this and all handles are gone.
pub(crate) struct Engine {
    requests: mpsc::Sender<GrowRequest>,
    seat: Seat,
    counts: Counts,
    /// Sequences so far.
    sequences: AtomicU64,
    /// Why the model was lost, if it was.
    lost: Arc<OnceLock<String>>,
    pulse: Pulse,
    left: Arc<AtomicUsize>,
}

/// A sequence's way to the engine, with its slot.
pub(crate) struct SequenceHandle {
    requests: mpsc::Sender<GrowRequest>,
    asker: Asker,
    number: SequenceNumber,
    slot: Slot,
    counted: Counted,
    growing: Gauge,
    left: Arc<AtomicUsize>,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start(model: Arc<DraftModel>, work: Workspace, workplace: Workplace) -> std::io::Result<Self> {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let counts = Counts::default();
        let passes = Arc::clone(&counts.passes);
        let lost = Arc::new(OnceLock::new());
        let of_thread = Arc::clone(&lost);
        let (pulse, left) = (Pulse::default(), Arc::<AtomicUsize>::default());
        let (beating, leaving) = (pulse.clone(), Arc::clone(&left));
        let seat = workplace.start("draft-engine", async move {
            let mut queue = queue;
            if let Err(fault) = Turns::new(&model, work, passes, leaving).run(&mut queue, &beating, workplace).await {
                // Nobody else writes it, and it is there before the queue is gone.
                let _ = of_thread.set(fault);
            }
        })?;
        Ok(Self { requests: sender, seat, counts, sequences: AtomicU64::new(0), lost, pulse, left })
    }

    /// The same, where a sequence that is alone takes turns by itself, if the model's levels, by their rows, are short.
    pub(crate) fn with_levels(self, model: &DraftModel, levels: &[(usize, Duration)]) -> Self {
        match (model.decoder().by_kernels(), levels.first()) {
            (Some(_), Some(&(_, level))) => Self { seat: self.seat.open_for(level), ..self },
            // A device may hang, and who looks for that must not hang with it.
            _ => self,
        }
    }

    /// Why the thread has ended, if it has.
    pub(crate) fn fault(&self) -> Option<String> {
        let unknown = || "its thread has ended".to_owned();
        self.requests.is_closed().then(|| self.lost.get().cloned().unwrap_or_else(unknown))
    }

    /// Ready, with why, when a turn of the thread has no end; the largest takes `alone` where nothing else runs.
    pub(crate) async fn stuck(&self, alone: Duration) -> String {
        let took = self.pulse.stuck(alone).await;
        format!("a draft level has not ended after {took:?}")
    }

    /// How long the thread has been at its present turn.
    pub(crate) fn turn_age(&self) -> Duration {
        self.pulse.turn_age()
    }

    /// Ready when the thread has ended.
    pub(crate) async fn stopped(&self) {
        self.requests.closed().await;
    }

    /// What was done so far, and what is going on.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The way of a sequence that was given a slot.
    pub(crate) fn sequence(&self, slot: Slot) -> SequenceHandle {
        let counted = self.counts.sequence(&slot.share().target);
        let number = self.sequences.fetch_add(1, Ordering::Relaxed);
        let (requests, growing) = (self.requests.clone(), self.counts.growing.clone());
        let asker = self.seat.asker();
        SequenceHandle { requests, asker, number, slot, counted, growing, left: Arc::clone(&self.left) }
    }
}

impl SequenceHandle {
    /// Grows the tree of a round that was begun.
    pub(crate) async fn grow(&self, drafting: Box<Drafting>) -> Result<(Box<Drafting>, Proposed), SequenceError> {
        let (request, grown) = self.request(drafting);
        let place = self.requests.reserve().await.map_err(|_| SequenceError::Stopped)?;
        // What is told of the last round is sent before this thread computes.
        yield_now().await;
        self.asker.ask(|| place.send(request), || !grown.is_empty());
        let mut drafting = grown.await.map_err(|_| SequenceError::Stopped)??;
        let proposed = drafting.finish()?;
        Ok((drafting, proposed))
    }

    /// Has the model read what is committed, while others go on.
    pub(crate) async fn read(&self, mut drafting: Box<Drafting>) -> Result<Reading, SequenceError> {
        drafting.begin_reading();
        let (request, read) = self.request(drafting);
        self.requests.send(request).await.map_err(|_| SequenceError::Stopped)?;
        Ok(Reading(read))
    }

    /// Whether more waits than the next pass runs.
    pub(crate) fn is_full(&self) -> bool {
        self.left.load(Ordering::Relaxed) >= PASS_ROWS
    }

    /// Whether the model is at work for a sequence, so that another one would wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.growing.read() > 0
    }

    /// What is asked for a sequence, and where it comes home.
    fn request(&self, drafting: Box<Drafting>) -> (GrowRequest, oneshot::Receiver<Grown>) {
        let (home, grown) = oneshot::channel();
        let (share, sequence) = (self.slot.share().clone(), self.number);
        (GrowRequest { drafting, share, sequence, home, _growing: self.growing.enter() }, grown)
    }

    /// Counts what a round came to.
    pub(crate) fn count(&self, counts: &RoundCounts) {
        self.counted.add(counts);
    }
}

/// A sequence whose committed tokens are being read.
pub(crate) struct Reading(oneshot::Receiver<Grown>);

impl Reading {
    /// The sequence, once that is done.
    pub(crate) fn ended(&mut self) -> Option<Grown> {
        match self.0.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(SequenceError::Stopped)),
            Ok(read) => Some(read),
        }
    }
}

struct Turns<'a> {
    model: &'a DraftModel,
    work: Workspace,
    shares: RowShares,
    passes: Arc<PassCounters>,
    /// Requests and what each is to run next; the one that waits longest comes first.
    ready: Vec<(GrowRequest, Step)>,
    /// Rows of those that were left over for a later pass when the last one began, for sequences to see.
    left: Arc<AtomicUsize>,
    /// Why the model cannot be used any more, if it cannot.
    lost: Option<String>,
}

impl<'a> Turns<'a> {
    fn new(model: &'a DraftModel, work: Workspace, passes: Arc<PassCounters>, left: Arc<AtomicUsize>) -> Self {
        Self { model, work, shares: RowShares::default(), passes, ready: Vec::new(), left, lost: None }
    }

    /// Takes turns until nobody can ask for anything any more.
    ///
    /// # Errors
    /// The model cannot be used any more, for the reason given.
    async fn run(
        mut self,
        queue: &mut mpsc::Receiver<GrowRequest>,
        pulse: &Pulse,
        workplace: Workplace,
    ) -> Result<(), String> {
        loop {
            if self.ready.is_empty() {
                let Some(request) = queue.recv().await else { return Ok(()) };
                self.take(request);
            } else {
                workplace.go_on().await;
            }
            for _ in 0..queue.len() {
                if let Ok(request) = queue.try_recv() {
                    self.take(request);
                }
            }
            let beat = pulse.begin();
            if self.turn() > 0 {
                workplace.passed().await;
            }
            drop(beat);
            if let Some(fault) = self.lost.take() {
                return Err(fault);
            }
        }
    }

    /// Takes a request in, or sends it home if its tree is grown or the model cannot run it.
    fn take(&mut self, mut request: GrowRequest) {
        if let Err(error) = request.drafting.grow_forced() {
            return drop(request.home.send(Err(error)));
        }
        let Some(step) = request.drafting.next() else {
            // A caller that has just gone does not want it.
            return drop(request.home.send(Ok(request.drafting)));
        };
        match request.drafting.check(&step, self.model.decoder().config().vocab) {
            Ok(()) => self.ready.push((request, step)),
            Err(error) => drop(request.home.send(Err(error))),
        }
    }

    /// One level for those whose turn it is; gives the rows that were run.
    fn turn(&mut self) -> usize {
        self.ready.retain(|(request, _)| !request.home.is_closed());
        let asks = self.ready.iter().map(|(GrowRequest { share, sequence, .. }, step)| StepAsk {
            share,
            sequence: *sequence,
            rows: step.len(),
        });
        let asks: Vec<StepAsk<'_>> = asks.collect();
        let mut chosen = self.shares.choose(&asks).into_iter();
        let (running, waiting): (Vec<_>, Vec<_>) =
            self.ready.drain(..).partition(|_| chosen.next().unwrap_or_default());
        self.ready = waiting;
        self.left.store(self.ready.iter().map(|(_, step)| step.len()).sum(), Ordering::Relaxed);
        let rows = running.iter().map(|(_, step)| step.len()).sum();
        for request in self.level(running) {
            self.take(request);
        }
        rows
    }

    /// Runs the steps of all requests together; gives back those that can go on.
    fn level(&mut self, mut running: Vec<(GrowRequest, Step)>) -> Vec<GrowRequest> {
        let begun = Instant::now();
        let ran = self.read_states(&mut running).and_then(|()| self.forward(&mut running));
        let output = match ran {
            Ok(output) => output,
            Err(error) => {
                tracing::error!(%error, "a draft level failed");
                let fault = error.to_string();
                self.lost = error.is_fatal().then(|| fault.clone());
                for (request, _) in running {
                    drop(request.home.send(Err(SequenceError::Level { fault: fault.clone() })));
                }
                return Vec::new();
            }
        };
        let (mut requests, mut segment) = (Vec::with_capacity(running.len()), 0);
        for (mut request, step) in running {
            match request.drafting.absorb(&Answers { step: &step, output: output.as_ref(), segment }) {
                Ok(()) => {
                    request.drafting.ran(&step, begun.elapsed());
                    requests.push(request);
                }
                Err(error) => drop(request.home.send(Err(error))),
            }
            // Steps without rows are no part of the pass.
            segment += usize::from(!step.rows.is_empty());
        }
        requests
    }

    /// Has the model read the hidden states of all steps that have some.
    fn read_states(&mut self, running: &mut [(GrowRequest, Step)]) -> Result<(), ModelError> {
        let with_states = running.iter_mut().filter_map(|(request, step)| Some((request, step.states.as_ref()?)));
        let (known, states): (Vec<_>, Vec<_>) =
            with_states.map(|(request, states)| (request.drafting.known_by(states), states.to_f32())).unzip();
        if states.is_empty() {
            return Ok(());
        }
        let sequences =
            known.into_iter().zip(&states).map(|((cache, tokens), states)| States { cache, tokens, states });
        self.model.decoder().append_states(&mut self.work, &mut sequences.collect::<Vec<_>>())
    }

    /// Runs the rows of all steps that have some; nothing if none has.
    fn forward(&mut self, running: &mut [(GrowRequest, Step)]) -> Result<Option<Output<'_>>, ModelError> {
        let (mut segments, mut exits) = (Vec::with_capacity(running.len()), Vec::with_capacity(running.len()));
        let mut best = Vec::with_capacity(running.len());
        let predicts = running.iter().any(|(request, _)| request.drafting.predicts());
        for (request, step) in running.iter_mut().filter(|(_, step)| !step.rows.is_empty()) {
            let Drafting { cache, exits: of_request, .. } = &mut *request.drafting;
            segments.push(Segment { cache, rows: &step.rows, logits: step.logits });
            exits.push(&*of_request);
            best.push(step.best);
        }
        if segments.is_empty() {
            return Ok(None);
        }
        let (rows, sequences) = (segments.iter().map(|segment| segment.rows.len()).sum(), segments.len());
        let begun = Instant::now();
        let several = predicts || exits.iter().any(|exits| exits.are_several());
        let output = if several {
            let goes_on = |at: AtExit<'_>| exits[at.segment].goes_on(at.exit, at.logits);
            self.model.forward(&mut self.work, &mut segments, goes_on)
        } else {
            // Where nothing is asked before the last layer, and no state of it is, nothing is computed for the asking either.
            let asked = Asked { best: &best, ..Asked::default() };
            self.model.decoder().forward(&mut self.work, &mut segments, asked)
        };
        self.passes.add(rows, sequences, begun.elapsed());
        output.map(Some)
    }
}

#[cfg(test)]
mod tests;
