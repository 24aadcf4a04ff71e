//! A drafter: who has a slot, whose levels run in a pass, and what it has learned. Its rules are those of
//! `espalier-drafter`.

use std::time::Duration;

use espalier_drafter::{Learned, PASS_ROWS, RowShares, SlotShares, StepAsk, TargetShare};
use espalier_speculation::Curve;

use crate::counts::PassCounts;
use crate::team::By;
use crate::time::{Time, of_ms};
use crate::who::Who;

/// One drafter.
pub(crate) struct Drafter {
    pub(crate) pool: usize,
    /// The copy of a target that it serves alone, if it does.
    pub(crate) only: Option<usize>,
    pub(crate) zone: usize,
    curve: Curve,
    pub(crate) slots: SlotShares,
    pub(crate) slots_max: usize,
    pub(crate) learned: Learned,
    shares: RowShares,
    beside: [Duration; 2],
    /// Who waits, longest first.
    ready: Vec<Request>,
    running: Option<Turn>,
    /// Rows that were left over for a later pass when the last one began.
    left: usize,
    /// Whether it is there, and whether gateways know it.
    pub(crate) alive: bool,
    pub(crate) is_up: bool,
    pub(crate) sequences: u64,
    pub(crate) counts: PassCounts,
}

/// A sequence that wants to run so many rows.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) who: Who,
    pub(crate) sequence: u64,
    pub(crate) share: TargetShare,
    pub(crate) rows: usize,
}

#[derive(Debug)]
struct Turn {
    requests: Vec<Request>,
    begun: Time,
}

impl Drafter {
    pub(crate) fn new(pool: usize, curve: Curve, slots: usize, beside: [Duration; 2]) -> Self {
        Self {
            pool,
            only: None,
            zone: 0,
            curve,
            slots: SlotShares::new(slots),
            slots_max: slots,
            learned: Learned::default(),
            shares: RowShares::default(),
            beside,
            ready: Vec::new(),
            running: None,
            left: 0,
            alive: true,
            is_up: true,
            sequences: 0,
            counts: PassCounts::default(),
        }
    }

    /// The same drafter, started anew: it knows nothing.
    pub(crate) fn restart(&mut self) {
        let fresh = Self::new(self.pool, self.curve, self.slots_max, self.beside);
        let old = std::mem::replace(self, fresh);
        (self.only, self.zone, self.counts, self.sequences) = (old.only, old.zone, old.counts, old.sequences);
    }

    /// What a level of so many rows takes, in milliseconds.
    pub(crate) fn curve(&self) -> &Curve {
        &self.curve
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whose thread computes a level that a sequence asks for.
    pub(crate) fn computed_by(&self) -> By {
        By::who_asks(self.slots.held(), &self.curve)
    }

    /// Whether it is at work for a sequence, so that another one would wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_running() || !self.ready.is_empty()
    }

    /// Whether more waits than the next pass runs.
    pub(crate) fn is_full(&self) -> bool {
        self.left >= PASS_ROWS
    }

    pub(crate) fn ask(&mut self, request: Request) {
        self.ready.push(request);
    }

    /// Begins a pass: what it takes, or nothing if nobody wants one.
    pub(crate) fn begin_turn(&mut self, now: Time) -> Option<Duration> {
        if self.ready.is_empty() {
            self.left = 0;
            return None;
        }
        let ask = |request: &Request| request.rows;
        let asks: Vec<StepAsk<'_>> = self
            .ready
            .iter()
            .map(|request| StepAsk { share: &request.share, sequence: request.sequence, rows: ask(request) })
            .collect();
        let mut chosen = self.shares.choose(&asks).into_iter();
        let (requests, waiting): (Vec<_>, Vec<_>) =
            self.ready.drain(..).partition(|_| chosen.next().unwrap_or_default());
        self.ready = waiting;
        self.left = self.ready.iter().map(|request| request.rows).sum();
        let rows = requests.iter().map(|request| request.rows).sum();
        self.counts.add(rows, requests.len(), requests.len() + self.ready.len());
        let work = of_ms(self.curve.at(rows)) + self.beside[0] + self.beside[1] * requests.len() as u32;
        self.running = Some(Turn { requests, begun: now });
        Some(work)
    }

    /// Ends the pass, which had to wait for others so long: whose it was, and how long it took in all.
    pub(crate) fn end_turn(&mut self, now: Time, waited: Duration) -> (Vec<Request>, Duration) {
        let Some(Turn { requests, begun }) = self.running.take() else { return Default::default() };
        let took = now - begun;
        self.counts.busy += took.saturating_sub(waited);
        (requests, took)
    }
}
