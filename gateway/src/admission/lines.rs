//! Requests that wait, in a line for each client; lines take turns.

use std::collections::VecDeque;

use super::Client;

/// Tells requests that wait apart; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The requests of one client, oldest first; there is at least one.
#[derive(Debug)]
struct Line<W> {
    client: Client,
    weight: usize,
    /// Slots that it is still given before the next line is.
    turns: usize,
    waiting: VecDeque<(Ticket, W)>,
}

/// All lines; the first is the one whose turn it is.
#[derive(Debug)]
pub(super) struct Lines<W> {
    ring: VecDeque<Line<W>>,
    len: usize,
    next_ticket: u64,
}

impl<W> Default for Lines<W> {
    fn default() -> Self {
        Self { ring: VecDeque::new(), len: 0, next_ticket: 0 }
    }
}

impl<W> Lines<W> {
    /// Requests of all clients.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Requests of one client.
    pub(super) fn of(&self, client: &Client) -> usize {
        self.ring.iter().find(|line| line.client == *client).map_or(0, |line| line.waiting.len())
    }

    /// At most so many of those that wait now are given a slot before a further request of `client` is.
    pub(super) fn ahead(&self, client: &Client, weight: usize) -> usize {
        let own = self.of(client);
        let rounds = own / weight.max(1) + 1;
        let others = self.ring.iter().filter(|line| line.client != *client);
        own + others.map(|line| line.waiting.len().min(line.weight.saturating_mul(rounds))).sum::<usize>()
    }

    /// Puts a request at the end of its client's line. A new line is the last in turn.
    pub(super) fn push(&mut self, client: Client, weight: usize, waiter: W) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.len += 1;
        match self.ring.iter_mut().find(|line| line.client == client) {
            Some(line) => line.waiting.push_back((ticket, waiter)),
            None => self.ring.push_back(Line { client, weight, turns: weight, waiting: [(ticket, waiter)].into() }),
        }
        ticket
    }

    /// Takes out the request whose turn it is.
    pub(super) fn next(&mut self) -> Option<W> {
        let mut line = self.ring.pop_front()?;
        let (_, waiter) = line.waiting.pop_front()?;
        self.len -= 1;
        line.turns = line.turns.saturating_sub(1);
        match (line.waiting.is_empty(), line.turns) {
            (true, _) => {}
            (false, 0) => self.ring.push_back(Line { turns: line.weight, ..line }),
            (false, _) => self.ring.push_front(line),
        }
        Some(waiter)
    }

    /// Takes out a request that waits no longer; `false` if it is not there.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let find = |line: &Line<W>| line.waiting.iter().position(|(other, _)| *other == ticket);
        let found = self.ring.iter().enumerate().find_map(|(line, waiting)| Some((line, find(waiting)?)));
        let Some((index, position)) = found else { return false };
        if let Some(line) = self.ring.get_mut(index) {
            line.waiting.remove(position);
            self.len -= 1;
        }
        self.ring.retain(|line| !line.waiting.is_empty());
        true
    }
}
