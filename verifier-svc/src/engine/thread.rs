//! The turns of who owns the model's workspace and all caches.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use espalier_model::{Decoder, Workspace};
use espalier_service_kit::{Pulse, Seat, Workplace};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::batch;
use super::command::{Command, Loaded};
use super::gather::Pass;
use super::sequences::Sequences;

/// Commands taken in between two turns, so that a flood cannot keep turns from happening.
const COMMANDS_PER_TURN_MAX: usize = 4096;

/// How often it is looked whether those that a pass waits for have come.
const ARRIVALS_LOOK: Duration = Duration::from_micros(50);

/// Has turns taken until nobody can send commands any more, or the model is lost, and `lost` says why.
pub(super) fn start(
    model: Loaded,
    queue: mpsc::Receiver<Command>,
    lost: Arc<OnceLock<String>>,
    pulse: Pulse,
) -> io::Result<Seat> {
    let workplace = model.workplace;
    let mut turns = Turns { sequences: Sequences::new(&model), queue, pass: Duration::ZERO, pulse, workplace };
    workplace.start("verifier-engine", async move {
        if let Err(fault) = turns.run(&model.decoder, model.work).await {
            // Nobody else writes it, and it is there before the queue is gone.
            let _ = lost.set(fault);
        }
    })
}

struct Turns {
    sequences: Sequences,
    queue: mpsc::Receiver<Command>,
    /// What a pass takes.
    pass: Duration,
    pulse: Pulse,
    workplace: Workplace,
}

impl Turns {
    async fn run(&mut self, decoder: &Decoder, mut work: Workspace) -> Result<(), String> {
        while self.take_in().await {
            let pulse = self.pulse.clone();
            let _beat = pulse.begin();
            self.gather(&work).await;
            let begun = Instant::now();
            batch::turn(decoder, &mut work, &mut self.sequences)?;
            self.workplace.passed().await;
            // The mean of the last few, a hiccup counting little.
            self.pass = (self.pass * 3 + begun.elapsed().min(self.pass * 3 + ARRIVALS_LOOK)) / 4;
        }
        Ok(())
    }

    /// Puts the pass off for those that are about to come back, if that pays.
    async fn gather(&mut self, work: &Workspace) {
        // It ends: nobody becomes due meanwhile, and who is late is not waited for.
        while let Some(wait) = self.sequences.put_off(Pass { took: self.pass, shared: work.others_compute() }) {
            self.workplace.wait(wait.min(ARRIVALS_LOOK)).await;
            self.take_arrived();
        }
    }

    /// Takes in what has arrived, waiting for it only when there is nothing to do.
    /// `false` when nothing can arrive any more.
    async fn take_in(&mut self) -> bool {
        if self.sequences.have_work() {
            self.workplace.go_on().await;
        } else {
            match self.queue.recv().await {
                Some(command) => self.sequences.take(command),
                None => return false,
            }
        }
        self.take_arrived();
        true
    }

    fn take_arrived(&mut self) {
        for _ in 0..COMMANDS_PER_TURN_MAX {
            match self.queue.try_recv() {
                Ok(command) => self.sequences.take(command),
                Err(_) => break,
            }
        }
    }
}
