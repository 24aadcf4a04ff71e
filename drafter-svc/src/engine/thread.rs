//! The thread that owns the draft model.
//!
//! Every turn it takes the jobs that wait, runs one level of as many of them as a pass takes, and sends home those that
//! are grown. A job whose caller is gone is dropped before compute is spent on it.
//!
//! While there is none, it runs levels of what sequences [lend](super::loan) it to be drafted ahead. Trees that are asked
//! for never share a pass with those, and wait for one such level at most.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use espalier_model::{AtExit, Depth, DraftModel, ModelError, Output, Segment, States, Workspace};
use espalier_proto::{AheadCounters, PassCounters, RoundCounts};
use espalier_round::Proposed;
use espalier_service_kit::Gauge;
use tokio::sync::{mpsc, oneshot};

use super::drafting::Drafting;
use super::loan::Loan;
use super::share::{Ask, PASS_ROWS, Shares};
use super::step::{Answers, Step};
use crate::error::SequenceError;
use crate::places::Place;
use crate::status::{Counted, Counts};
use crate::weights::Sharer;

/// Jobs that wait to be taken. A sequence has one at most, so what the engine has taken is bounded by the places.
const QUEUE_MAX: usize = 256;

/// A sequence whose tree is grown, as far as it was to be.
pub(super) type Grown = Result<Box<Drafting>, SequenceError>;

/// What comes to the engine.
enum Work {
    /// A tree that is asked for.
    Tree(Job),
    /// One that may be drafted ahead.
    Ahead(Weak<Loan>),
}

/// A sequence to grow a tree for, and where to send it.
pub(super) struct Job {
    pub(super) drafting: Box<Drafting>,
    /// Whom its rows are counted to.
    pub(super) sharer: Sharer,
    pub(super) home: oneshot::Sender<Grown>,
    /// Whom it goes back to after each level, if it is drafted ahead.
    pub(super) lent: Option<Weak<Loan>>,
}

/// The engine's thread; it ends when this and all sessions are gone.
pub(crate) struct Engine {
    work: mpsc::Sender<Work>,
    counts: Counts,
}

/// A sequence's way to the engine, and its place.
pub(crate) struct Session {
    work: mpsc::Sender<Work>,
    place: Place,
    counted: Counted,
    growing: Gauge,
    ahead: Arc<AheadCounters>,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start(model: Arc<DraftModel>, work: Workspace) -> std::io::Result<Self> {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let counts = Counts::default();
        let passes = Arc::clone(&counts.passes);
        let body = move || Turns::new(&model, work, passes).run(queue);
        thread::Builder::new().name("draft-engine".to_owned()).spawn(body)?;
        Ok(Self { work: sender, counts })
    }

    /// What was done so far, and what is going on.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The way of a sequence that was given a place.
    pub(crate) fn session(&self, place: Place) -> Session {
        let counted = self.counts.sequence(&place.sharer().target);
        let Counts { growing, ahead, .. } = self.counts.clone();
        Session { work: self.work.clone(), place, counted, growing, ahead }
    }
}

impl Session {
    /// Grows the tree of a round that was begun.
    pub(crate) async fn grow(&self, drafting: Box<Drafting>) -> Result<(Box<Drafting>, Proposed), SequenceError> {
        // What was drafted ahead may be grown already.
        let mut drafting = match drafting.is_grown() {
            true => drafting,
            false => self.run(drafting).await?,
        };
        let proposed = drafting.finish()?;
        Ok((drafting, proposed))
    }

    async fn run(&self, drafting: Box<Drafting>) -> Grown {
        let _growing = self.growing.enter();
        let (home, grown) = oneshot::channel();
        let job = Job { drafting, sharer: self.place.sharer().clone(), home, lent: None };
        self.work.send(Work::Tree(job)).await.map_err(|_| SequenceError::Stopped)?;
        grown.await.map_err(|_| SequenceError::Stopped)?
    }

    /// Lends a sequence that [has gone ahead](Drafting::go_ahead).
    pub(crate) fn lend(&self, drafting: Box<Drafting>) -> Arc<Loan> {
        let loan = Arc::new(Loan::new(drafting, self.place.sharer().clone()));
        // An engine that has no room for it has no time for it either.
        let _ = self.work.try_send(Work::Ahead(Arc::downgrade(&loan)));
        loan
    }

    /// Counts a tree that was begun ahead, and whether it was of use.
    pub(crate) fn count_ahead(&self, used: bool) {
        self.ahead.add(used);
    }

    /// Counts what a round came to.
    pub(crate) fn count(&self, counts: &RoundCounts) {
        self.counted.add(counts);
    }
}

struct Turns<'a> {
    model: &'a DraftModel,
    work: Workspace,
    shares: Shares,
    passes: Arc<PassCounters>,
    /// Jobs and what each is to run next; the one that waits longest comes first.
    ready: Vec<(Job, Step)>,
    /// What may be drafted ahead; the one that waits longest comes first.
    ahead: VecDeque<Weak<Loan>>,
}

impl<'a> Turns<'a> {
    fn new(model: &'a DraftModel, work: Workspace, passes: Arc<PassCounters>) -> Self {
        Self { model, work, shares: Shares::default(), passes, ready: Vec::new(), ahead: VecDeque::new() }
    }

    fn run(mut self, mut queue: mpsc::Receiver<Work>) {
        loop {
            if self.ready.is_empty() && self.ahead.is_empty() {
                let Some(work) = queue.blocking_recv() else { return };
                self.receive(work);
            }
            for _ in 0..queue.len() {
                if let Ok(work) = queue.try_recv() {
                    self.receive(work);
                }
            }
            self.turn();
        }
    }

    fn receive(&mut self, work: Work) {
        match work {
            Work::Tree(job) => self.take(job),
            Work::Ahead(loan) => {
                // A sequence lends one at a time, so no more stay than there are sequences.
                self.ahead.retain(|loan| loan.strong_count() > 0);
                self.ahead.push_back(loan);
            }
        }
    }

    /// Takes a job in, or sends it home if its tree is grown.
    fn take(&mut self, job: Job) {
        match job.drafting.next() {
            Some(step) => self.ready.push((job, step)),
            // A caller that has just gone does not want it.
            None => drop(job.home.send(Ok(job.drafting))),
        }
    }

    /// One level for those whose turn it is, or ahead if nobody asked for one; gives the rows that were run.
    fn turn(&mut self) -> usize {
        self.ready.retain(|(job, _)| !job.home.is_closed());
        if self.ready.is_empty() {
            return self.turn_ahead();
        }
        let asks: Vec<Ask<'_>> =
            self.ready.iter().map(|(job, step)| Ask { sharer: &job.sharer, rows: step.len() }).collect();
        let mut chosen = self.shares.choose(&asks).into_iter();
        let (running, waiting): (Vec<_>, Vec<_>) =
            self.ready.drain(..).partition(|_| chosen.next().unwrap_or_default());
        self.ready = waiting;
        let rows = running.iter().map(|(_, step)| step.len()).sum();
        for job in self.level(running) {
            self.take(job);
        }
        rows
    }

    /// One level of what is drafted ahead, as far as it fits in a pass.
    fn turn_ahead(&mut self) -> usize {
        let (mut running, mut rows) = (Vec::new(), 0);
        while rows < PASS_ROWS
            && let Some(loan) = self.ahead.pop_front()
        {
            if let Some((job, step)) = loan.upgrade().and_then(|loan| loan.next()) {
                rows += step.len();
                running.push((job, step));
            }
        }
        for mut job in self.level(running) {
            let Some(lent) = job.lent.take() else { continue };
            if let Some(loan) = lent.upgrade() {
                loan.ran(job);
                self.ahead.push_back(lent);
            }
        }
        rows
    }

    /// Runs the steps of all jobs together; gives back those that can go on.
    fn level(&mut self, mut running: Vec<(Job, Step)>) -> Vec<Job> {
        let begun = Instant::now();
        let ran = self.read_states(&mut running).and_then(|()| self.forward(&mut running));
        let output = match ran {
            Ok(output) => output,
            Err(error) => {
                tracing::error!(%error, "a draft level failed");
                return Vec::new();
            }
        };
        let (mut jobs, mut segment) = (Vec::with_capacity(running.len()), 0);
        for (mut job, step) in running {
            match job.drafting.absorb(&Answers { step: &step, output: output.as_ref(), segment }) {
                Ok(()) => {
                    job.drafting.ran(&step, begun.elapsed());
                    jobs.push(job);
                }
                Err(error) => drop(job.home.send(Err(error))),
            }
            // Steps without rows are no part of the pass.
            segment += usize::from(!step.rows.is_empty());
        }
        jobs
    }

    /// Has the model read the hidden states of all steps that have some.
    fn read_states(&mut self, running: &mut [(Job, Step)]) -> Result<(), ModelError> {
        let with_states = running.iter_mut().filter_map(|(job, step)| Some((job, step.states.as_ref()?)));
        let (known, states): (Vec<_>, Vec<_>) =
            with_states.map(|(job, states)| (job.drafting.known_by(states), states.to_f32())).unzip();
        if states.is_empty() {
            return Ok(());
        }
        let sequences =
            known.into_iter().zip(&states).map(|((cache, tokens), states)| States { cache, tokens, states });
        self.model.decoder().append_states(&mut self.work, &mut sequences.collect::<Vec<_>>())
    }

    /// Runs the rows of all steps that have some; nothing if none has.
    fn forward(&mut self, running: &mut [(Job, Step)]) -> Result<Option<Output<'_>>, ModelError> {
        let (mut segments, mut exits) = (Vec::with_capacity(running.len()), Vec::with_capacity(running.len()));
        let predicts = running.iter().any(|(job, _)| job.drafting.predicts());
        for (job, step) in running.iter_mut().filter(|(_, step)| !step.rows.is_empty()) {
            let Drafting { cache, exits: of_job, .. } = &mut *job.drafting;
            segments.push(Segment { cache, rows: &step.rows, logits: step.logits });
            exits.push(&*of_job);
        }
        if segments.is_empty() {
            return Ok(None);
        }
        self.passes.add(segments.iter().map(|segment| segment.rows.len()).sum(), segments.len());
        // Where nothing is asked before the last layer, and no state of it is, nothing is computed for the asking either.
        if !predicts && !exits.iter().any(|exits| exits.are_several()) {
            return self.model.decoder().forward(&mut self.work, &mut segments, Depth::default()).map(Some);
        }
        let goes_on = |at: AtExit<'_>| exits[at.segment].goes_on(at.exit, at.logits);
        self.model.forward(&mut self.work, &mut segments, goes_on).map(Some)
    }
}

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod tests;
