//! Where ranks give each other their parts of sums.
//!
//! Each rank's kernels write its part of a row into an inbox of every rank, and then the number of the row's turn beside it;
//! whoever adds the parts up waits for that number of all ranks. So an exchange is part of the work of a pass, graphs and
//! all, and no host has to do with it. Parts are added up in the order of ranks.

use candle_core::Result;
use parking_lot::{Condvar, Mutex};

use super::machine::{Machine, Memory};
use super::partition::PARTS_MAX;

/// Bytes of a number.
const WORD: usize = 4;

/// Whether a model of this process exchanges sums.
static IS_TAKEN: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

/// The right to exchange sums, until this is dropped. Kernels that wait for other ranks, and those that come after them, keep
/// a GPU from what else it is asked to. Two models that did so at once on the same GPUs could wait for each other for ever.
pub(super) struct Turn(());

impl Turn {
    /// Waits until no other model has it.
    pub(super) fn wait() -> Self {
        let mut is_taken = IS_TAKEN.lock();
        CHANGED.wait_while(&mut is_taken, |is_taken| *is_taken);
        *is_taken = true;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *IS_TAKEN.lock() = false;
        CHANGED.notify_one();
    }
}

/// What a rank has for it.
pub(super) struct Mailbox {
    /// Most rows at once.
    rows: usize,
    /// (2, ranks, rows, hidden): parts of rows, in two places by turns.
    inbox: Memory,
    /// (ranks, rows): the last turn in which a part came.
    given: Memory,
    /// (rows): turns so far.
    turns: Memory,
}

/// What a rank's kernels are told of all mailboxes.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub(super) rank: usize,
    pub(super) ranks: usize,
    pub(super) rows: usize,
    /// Of each rank.
    pub(super) inboxes: [u64; PARTS_MAX],
    pub(super) given: [u64; PARTS_MAX],
    /// This rank's.
    pub(super) turns: u64,
}

impl Mailbox {
    /// For sums of so many ranks with rows of `hidden` numbers.
    ///
    /// # Errors
    /// The machine has no room for it.
    pub(super) fn new(machine: &dyn Machine, ranks: usize, rows: usize, hidden: usize) -> Result<Self> {
        let inbox = machine.allocate_for_ranks(2 * ranks * rows * hidden * WORD)?;
        let given = machine.allocate_for_ranks(ranks * rows * WORD)?;
        Ok(Self { rows, inbox, given, turns: machine.allocate(rows * WORD)? })
    }

    /// Most rows at once.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }
}

impl Exchange {
    /// What a rank is told; nothing where it is the only one.
    pub(super) fn of(mailboxes: &[Mailbox], rank: usize) -> Option<Self> {
        let own = mailboxes.get(rank).filter(|_| mailboxes.len() > 1)?;
        let of_all = |memory: fn(&Mailbox) -> &Memory| {
            let mut addresses = [0; PARTS_MAX];
            addresses.iter_mut().zip(mailboxes).for_each(|(address, mailbox)| *address = memory(mailbox).address);
            addresses
        };
        Some(Self {
            rank,
            ranks: mailboxes.len(),
            rows: own.rows,
            inboxes: of_all(|mailbox| &mailbox.inbox),
            given: of_all(|mailbox| &mailbox.given),
            turns: own.turns.address,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn one_at_a_time_has_the_turn() {
        let at_once = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = Turn::wait();
                        assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }
}
