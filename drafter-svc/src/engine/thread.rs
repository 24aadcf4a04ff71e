//! The thread that owns the draft model.
//!
//! Every turn it takes the jobs that wait, runs one level of all of them in one forward pass, and sends home those
//! that are grown. A job whose caller is gone is dropped before compute is spent on it.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use espalier_model::{Decoder, Depth, Segment, Workspace};
use espalier_round::Proposed;
use tokio::sync::{mpsc, oneshot};

use super::drafting::{Drafting, Step};
use crate::error::SequenceError;

/// Jobs that wait for the engine.
const QUEUE_MAX: usize = 256;

/// Sequences that share a forward pass.
const BATCH_MAX: usize = 64;

type Grown = Result<(Box<Drafting>, Proposed), SequenceError>;

/// A sequence to grow a tree for, and where to send it.
struct Job {
    drafting: Box<Drafting>,
    home: oneshot::Sender<Grown>,
}

/// The way to the engine's thread; it ends when the last of these is dropped.
#[derive(Clone)]
pub(crate) struct Engine {
    jobs: mpsc::Sender<Job>,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start(decoder: Arc<Decoder>, work: Workspace) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let body = move || Turns { decoder: &decoder, work }.run(queue);
        thread::Builder::new().name("draft-engine".to_owned()).spawn(body)?;
        Ok(Self { jobs })
    }

    /// Grows the tree of a round that was begun.
    pub(crate) async fn grow(&self, drafting: Box<Drafting>) -> Grown {
        let (home, grown) = oneshot::channel();
        self.jobs.send(Job { drafting, home }).await.map_err(|_| SequenceError::Stopped)?;
        grown.await.map_err(|_| SequenceError::Stopped)?
    }
}

struct Turns<'a> {
    decoder: &'a Decoder,
    work: Workspace,
}

impl Turns<'_> {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs: Vec<Job> = Vec::new();
        loop {
            if jobs.is_empty() {
                let Some(job) = queue.blocking_recv() else { return };
                jobs.push(job);
            }
            while jobs.len() < BATCH_MAX
                && let Ok(job) = queue.try_recv()
            {
                jobs.push(job);
            }
            jobs = self.turn(jobs);
        }
    }

    /// One level for all jobs; those that are not grown yet stay.
    fn turn(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let mut running = Vec::new();
        for mut job in jobs.into_iter().filter(|job| !job.home.is_closed()) {
            match job.drafting.next() {
                Some(step) => running.push((job, step)),
                None => {
                    let proposed = job.drafting.finish();
                    // A caller that has just gone does not want it.
                    let _ = job.home.send(proposed.map(|proposed| (job.drafting, proposed)));
                }
            }
        }
        if running.is_empty() { Vec::new() } else { self.level(running) }
    }

    fn level(&mut self, mut running: Vec<(Job, Step)>) -> Vec<Job> {
        let begun = Instant::now();
        let mut segments: Vec<Segment<'_>> = running
            .iter_mut()
            .map(|(job, step)| Segment { cache: &mut job.drafting.cache, rows: &step.rows, logits: step.logits })
            .collect();
        let output = match self.decoder.forward(&mut self.work, &mut segments, Depth::default()) {
            Ok(output) => output,
            Err(error) => {
                tracing::error!(%error, "a draft level failed");
                return Vec::new();
            }
        };
        let mut jobs = Vec::with_capacity(running.len());
        for (segment, (mut job, step)) in running.into_iter().enumerate() {
            match job.drafting.absorb(&step, |row| output.logits(segment, row)) {
                Ok(()) => {
                    if step.is_level() {
                        job.drafting.costs.observe_level(step.rows.len(), begun.elapsed());
                    }
                    jobs.push(job);
                }
                Err(error) => drop(job.home.send(Err(error))),
            }
        }
        jobs
    }
}
