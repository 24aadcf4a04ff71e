//! The ranks that share a stage: a thread each, which do in their order the steps that a pass tells them all.
//!
//! A pass hands its steps on without waiting, and waits where it is told something: so a device has work while the host
//! goes on. A rank that fails ends the pass for all, and the model with it: what ranks keep would no longer be parts of a
//! whole. Only memory that is not there is another matter: the next pass may need less.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use candle_core::Tensor;
use parking_lot::{Mutex, MutexGuard};

use super::best::BestOfRows;
use super::collective::{Collective, Meeting, Member};
use super::rank::Rank;
use super::rank_place::RankPlace;
use super::weights::DeviceModel;
use crate::error::{ModelError, Result};
use crate::model_info::ModelInfo;
use crate::pass::Keys;
use crate::placed::Placed;

/// The ranks of a stage.
pub(crate) struct Ranks {
    /// The way to each rank, held by whoever's pass it is.
    inboxes: Mutex<Vec<Sender<Step>>>,
    threads: Vec<JoinHandle<()>>,
    health: Arc<Health>,
    meeting: Arc<Meeting>,
}

/// What all ranks are told.
#[derive(Clone)]
pub(super) enum Step {
    Embed(Arc<[u32]>),
    Load(Arc<[f32]>),
    Keep(Arc<[u32]>),
    Place(Arc<[Placed]>),
    Layer(usize),
    KeysAndValues(usize, Keys),
    /// To tell the states of the stream, which are the same on all.
    States(SyncSender<Vec<f32>>),
    /// To run the head over the stream.
    Head,
    /// To tell the logits of some of its rows.
    Logits(Arc<[u32]>, SyncSender<Vec<f32>>),
    /// To tell the best tokens of some of its rows.
    Best(Arc<BestOfRows>, SyncSender<Vec<f32>>),
    /// That the pass has ended.
    End(SyncSender<()>),
}

/// Whether all ranks are well.
struct Health {
    /// Where each is.
    places: Vec<RankPlace>,
    /// What the first to fail said.
    fault: Mutex<Option<Fault>>,
}

#[derive(Clone)]
struct Fault {
    /// Its number among those that share a stage.
    rank: usize,
    what: String,
}

/// A rank's thread.
struct Worker {
    info: Arc<ModelInfo>,
    model: DeviceModel,
    others: Member,
    health: Arc<Health>,
    inbox: Receiver<Step>,
}

impl Ranks {
    /// Starts a thread for each rank of a stage, in the order of ranks.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(super) fn start(info: &Arc<ModelInfo>, models: Vec<DeviceModel>) -> Result<Self> {
        let ranks = models.len();
        let places = models.iter().map(|model| model.place.clone()).collect();
        let health = Arc::new(Health { places, fault: Mutex::default() });
        let meeting = Meeting::new(ranks);
        let (mut inboxes, mut threads) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        for model in models {
            let others = meeting.member(model.place.shard.rank);
            let (inbox, steps) = mpsc::channel();
            let name = format!("rank-{}", model.place.rank);
            let worker = Worker { info: info.clone(), model, others, health: health.clone(), inbox: steps };
            threads.push(thread::Builder::new().name(name).spawn(|| worker.run()).map_err(ModelError::Thread)?);
            inboxes.push(inbox);
        }
        Ok(Self { inboxes: Mutex::new(inboxes), threads, health, meeting })
    }

    /// The ranks, once no other pass is at work on them.
    pub(super) fn begin(&self) -> AtWork<'_> {
        AtWork { inboxes: self.inboxes.lock(), ranks: self, ended: false }
    }

    /// What a rank failed of, if one did.
    fn check(&self) -> Result<()> {
        let Some(Fault { rank, what }) = self.health.fault.lock().clone() else { return Ok(()) };
        Err(self.health.places[rank].failed(what))
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.inboxes.lock().clear();
        for thread in self.threads.drain(..) {
            // What a thread ended by is on record already.
            let _ = thread.join();
        }
    }
}

/// The ranks, at work on one pass.
pub(super) struct AtWork<'a> {
    inboxes: MutexGuard<'a, Vec<Sender<Step>>>,
    ranks: &'a Ranks,
    ended: bool,
}

impl AtWork<'_> {
    /// Tells all ranks what to do next.
    ///
    /// # Errors
    /// What a rank has failed of.
    pub(super) fn tell(&self, step: &Step) -> Result<()> {
        self.ranks.check()?;
        self.send(step);
        Ok(())
    }

    /// Asks for numbers, and waits for them.
    ///
    /// # Errors
    /// What a rank has failed of.
    pub(super) fn ask(&self, step: impl FnOnce(SyncSender<Vec<f32>>) -> Step) -> Result<Vec<f32>> {
        let (answer, answers) = mpsc::sync_channel(1);
        self.tell(&step(answer))?;
        let numbers = answers.recv();
        self.ranks.check()?;
        numbers.map_err(|_| candle_core::Error::Msg("no rank answered".to_owned()).into())
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.inboxes.len()
    }

    /// Waits until all ranks have done all they were told.
    ///
    /// # Errors
    /// What a rank has failed of. Where that was memory, the next pass may ask again.
    pub(super) fn end(&mut self) -> Result<()> {
        self.ended = true;
        let (done, all_done) = mpsc::sync_channel(self.inboxes.len());
        self.send(&Step::End(done));
        while all_done.recv().is_ok() {}
        let found = self.ranks.check();
        if matches!(found, Err(ModelError::DeviceMemory { .. })) {
            *self.ranks.health.fault.lock() = None;
            self.ranks.meeting.resume();
        }
        found
    }

    fn send(&self, step: &Step) {
        for (rank, inbox) in self.inboxes.iter().enumerate() {
            if inbox.send(step.clone()).is_err() {
                self.ranks.health.record(rank, "its thread has ended".to_owned());
            }
        }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // Who leaves a pass before its end has an error already.
            let _ = self.end();
        }
    }
}

impl Health {
    /// Notes what a rank said, if it is the first.
    fn record(&self, rank: usize, what: String) {
        let mut fault = self.fault.lock();
        if fault.is_none() {
            tracing::error!(rank = self.places[rank].rank, "a rank failed: {what}");
            *fault = Some(Fault { rank, what });
        }
    }
}

impl Worker {
    fn run(self) {
        let mut next = self.inbox.recv();
        while let Ok(first) = next {
            self.pass(first);
            next = self.inbox.recv();
        }
    }

    /// Does the steps of a pass, the rest of them not if one fails.
    fn pass(&self, first: Step) {
        let mut rank = Rank::new(&self.info, &self.model, &self.others);
        let mut failed = false;
        let mut next = Some(first);
        while let Some(step) = next {
            match step {
                Step::End(done) => {
                    if !failed {
                        self.attempt(|| rank.finish());
                    }
                    // Who waits for it may be gone.
                    let _ = done.send(());
                    return;
                }
                // Who waits for an answer learns at once that none will come.
                step if failed => drop(step),
                step => failed = !self.attempt(|| rank.take(step)),
            }
            next = self.inbox.recv().ok();
        }
    }

    /// Does something of a pass; whether it could.
    fn attempt(&self, work: impl FnOnce() -> Result<()>) -> bool {
        let took = catch_unwind(AssertUnwindSafe(work));
        let fault = took.map_or_else(|panic| Some(message(&*panic)), |took| took.err().map(|fault| fault.to_string()));
        if let Some(fault) = &fault {
            self.health.record(self.model.place.shard.rank, fault.clone());
            self.others.give_up();
        }
        fault.is_none()
    }
}

impl Rank<'_> {
    /// Tells numbers that all ranks have, if it is the one to tell; who asked may be gone.
    fn tell(&self, numbers: &Tensor, answer: &SyncSender<Vec<f32>>) -> Result<()> {
        if self.is_first() {
            let _ = answer.send(numbers.force_contiguous()?.flatten_all()?.to_vec1()?);
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Embed(tokens) => self.embed(&tokens),
            Step::Load(states) => self.load(&states),
            Step::Keep(rows) => self.keep(&rows),
            Step::Place(placed) => self.place(&placed),
            Step::Layer(index) => self.layer(index),
            Step::KeysAndValues(index, keys) => self.keys_and_values(index, keys),
            Step::States(answer) => self.tell(&self.states()?, &answer),
            Step::Head => self.head(),
            Step::Logits(rows, answer) => self.tell(&self.logits(&rows)?, &answer),
            Step::Best(wanted, answer) => self.tell(&self.best(&wanted)?, &answer),
            Step::End(_) => Ok(()),
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a word").to_owned()
}
