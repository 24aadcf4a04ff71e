//! The thread that owns the model's workspace and all caches.

use std::io;
use std::thread;

use tokio::sync::mpsc;

use super::batch;
use super::sequences::Sequences;
use super::{Command, Loaded};

/// Commands taken in between two turns, so that a flood cannot keep turns from happening.
const COMMANDS_PER_TURN_MAX: usize = 4096;

/// Starts the thread; it ends when nobody can send commands any more.
pub(super) fn start(model: Loaded, mut queue: mpsc::Receiver<Command>) -> io::Result<()> {
    thread::Builder::new().name("verifier-engine".to_owned()).spawn(move || {
        let mut sequences = Sequences::new(&model);
        let Loaded { decoder, mut work, .. } = model;
        while take_in(&mut sequences, &mut queue) {
            batch::turn(&decoder, &mut work, &mut sequences);
        }
    })?;
    Ok(())
}

/// Takes in what has arrived, waiting for it only when there is nothing to do.
/// `false` when nothing can arrive any more.
fn take_in(sequences: &mut Sequences, queue: &mut mpsc::Receiver<Command>) -> bool {
    if !sequences.have_work() {
        match queue.blocking_recv() {
            Some(command) => sequences.take(command),
            None => return false,
        }
    }
    for _ in 0..COMMANDS_PER_TURN_MAX {
        match queue.try_recv() {
            Ok(command) => sequences.take(command),
            Err(_) => break,
        }
    }
    true
}
