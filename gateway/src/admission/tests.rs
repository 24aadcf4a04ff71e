//! Whatever is asked in whatever order: no bound is ever broken, nobody starves, no slot is lost.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Clients by number, and how many slots in a row each is given.
const WEIGHTS: [usize; 4] = [1, 1, 2, 3];

fn client(number: usize) -> Client {
    Client::Named(number.to_string().into())
}

/// One more client.
const OTHER: usize = WEIGHTS.len();

fn claim(number: usize) -> Claim {
    let weight = WEIGHTS.get(number).copied().unwrap_or(1);
    Claim { client: client(number), weight, requests_max: usize::MAX }
}

fn admission(running: usize, queued: usize) -> Admission<usize> {
    Admission::new(AdmissionLimits { running, queued, each: usize::MAX, weights: ClientWeights::default() })
}

/// A request that waits.
#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    client: usize,
    /// Slots that others may still be given before it is.
    patience: usize,
}

/// What the admission does, beside a model of what it must do.
struct World {
    admission: Admission<usize>,
    running: usize,
    waiting: BTreeMap<usize, Waiter>,
    requests: usize,
}

impl World {
    fn new(running: usize, queued: usize) -> Self {
        Self { admission: admission(running, queued), running: 0, waiting: BTreeMap::new(), requests: 0 }
    }

    fn waiting_of(&self, client: usize) -> usize {
        self.waiting.values().filter(|waiter| waiter.client == client).count()
    }

    fn ask(&mut self, number: usize) {
        let own = self.waiting_of(number);
        let free = self.admission.limits.queued - self.waiting.len();
        let id = self.requests;
        self.requests += 1;
        match self.admission.ask(claim(number), None, id) {
            Decision::Run => self.running += 1,
            Decision::Wait(ticket) => {
                assert!(own < free, "{own} of a client waited, and {free} were free");
                let turns = own / WEIGHTS[number] + 1;
                let others = (0..WEIGHTS.len()).filter(|&other| other != number);
                let patience = own + others.map(|other| WEIGHTS[other] * turns).sum::<usize>();
                self.waiting.insert(id, Waiter { ticket, client: number, patience });
            }
            Decision::Refuse(_) => assert!(own >= free, "a client with {own} was refused, and {free} were free"),
        }
    }

    fn finish(&mut self) {
        if self.running == 0 {
            return;
        }
        match self.admission.pass_on() {
            None => self.running -= 1,
            Some(id) => {
                self.waiting.remove(&id).expect("only who waits is given a slot");
                for waiter in self.waiting.values_mut() {
                    waiter.patience = waiter.patience.checked_sub(1).expect("nobody is overtaken for ever");
                }
            }
        }
    }

    fn leave(&mut self, which: usize) {
        let Some(id) = self.waiting.keys().nth(which % self.waiting.len().max(1)).copied() else { return };
        let ticket = self.waiting.remove(&id).unwrap().ticket;
        assert!(self.admission.leave(ticket));
        assert!(!self.admission.leave(ticket), "nobody leaves twice");
    }

    fn check(&self) {
        let (running, queued) = (self.running, self.waiting.len());
        assert_eq!(self.admission.occupancy(), Occupancy { running, queued });
        let limits = &self.admission.limits;
        assert!(running <= limits.running && queued <= limits.queued);
        assert!(queued == 0 || running == limits.running, "nobody waits while there is a slot");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(usize),
    Finish,
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // The first client asks more often than all others together.
    let asking = prop_oneof![4 => Just(0), 3 => 1..WEIGHTS.len()];
    let step =
        prop_oneof![5 => asking.prop_map(Step::Ask), 3 => Just(Step::Finish), 1 => (0..64usize).prop_map(Step::Leave)];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn no_bound_is_broken_nobody_starves_and_no_slot_is_lost(running in 1..6usize, queued in 0..24usize, steps in steps()) {
        let mut world = World::new(running, queued);
        for step in steps {
            match step {
                Step::Ask(client) => world.ask(client),
                Step::Finish => world.finish(),
                Step::Leave(which) => world.leave(which),
            }
            world.check();
        }
        while world.running > 0 {
            world.finish();
            world.check();
        }
        prop_assert_eq!(world.admission.occupancy(), Occupancy::default());
    }

    #[test]
    fn no_more_are_served_before_a_newcomer_than_it_was_told(asked in proptest::collection::vec(0..WEIGHTS.len(), 0..40), newcomer in 0..WEIGHTS.len()) {
        let mut lines = Lines::default();
        for (id, &number) in asked.iter().enumerate() {
            lines.push(client(number), WEIGHTS[number], id);
        }
        let ahead = lines.ahead(&client(newcomer), WEIGHTS[newcomer]);
        lines.push(client(newcomer), WEIGHTS[newcomer], usize::MAX);
        let before = std::iter::from_fn(|| lines.next()).take_while(|&id| id != usize::MAX).count();
        prop_assert!(before <= ahead, "{before} were served before, {ahead} were said to be");
    }
}

/// Fills the one slot and the queue in this order, and tells who is served in which order.
fn served(asked: &[usize]) -> Vec<usize> {
    let mut admission = admission(1, 100);
    assert!(matches!(admission.ask(claim(OTHER), None, 0), Decision::Run));
    for &number in asked {
        assert!(matches!(admission.ask(claim(number), None, number), Decision::Wait(_)));
    }
    std::iter::from_fn(|| admission.pass_on()).collect()
}

#[test]
fn clients_take_turns_and_each_has_as_many_in_a_row_as_its_weight() {
    assert_eq!(served(&[0, 0, 0, 0, 1]), [0, 1, 0, 0, 0]);
    assert_eq!(served(&[0, 0, 0, 3, 3, 3, 3, 3, 2, 2, 2]), [0, 3, 3, 3, 2, 2, 0, 3, 3, 2, 0]);
}

#[test]
fn of_the_queue_a_client_may_have_as_much_as_it_leaves_free() {
    let mut admission = admission(1, 9);
    assert!(matches!(admission.ask(claim(0), None, 0), Decision::Run));
    let mut waiting = |number| {
        let refused = |decision| match decision {
            Decision::Refuse(refusal) => Some(refusal.reason),
            _ => None,
        };
        let decisions = std::iter::repeat_with(|| refused(admission.ask(claim(number), None, number)));
        let mut decisions = decisions.enumerate();
        decisions.find_map(|(waiting, refused)| Some((waiting, refused?))).unwrap()
    };
    assert_eq!(waiting(0), (5, Reason::Share { waiting: 5, free: 4 }));
    assert_eq!(waiting(1), (2, Reason::Share { waiting: 2, free: 2 }));
    assert_eq!(waiting(2), (1, Reason::Share { waiting: 1, free: 1 }));
    assert_eq!(waiting(3), (1, Reason::Full { running: 1, queued: 9 }));
}

#[test]
fn without_a_queue_who_finds_no_slot_is_refused_with_a_hint() {
    let mut admission = admission(2, 0);
    for _ in 0..2 {
        assert!(matches!(admission.ask(claim(OTHER), None, 0), Decision::Run));
    }
    let Decision::Refuse(refusal) = admission.ask(claim(OTHER), None, 0) else { panic!("there is no room") };
    assert_eq!(refusal.to_string(), "2 requests are being served and 0 wait, which are the limits");
    assert_eq!(refusal.retry_after, Some(Duration::from_millis(250)));
    admission.note_service(Duration::from_secs(8));
    let Decision::Refuse(refusal) = admission.ask(claim(OTHER), None, 0) else { panic!("there is no room") };
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(4)), "two slots of eight seconds each");
}

#[test]
fn who_cannot_be_served_in_time_does_not_wait() {
    let mut admission = admission(2, 8);
    admission.note_service(Duration::from_secs(4));
    let within = |millis| Some(Duration::from_millis(millis));
    for _ in 0..2 {
        assert!(matches!(admission.ask(claim(0), within(1), 0), Decision::Run), "there is no wait");
    }
    assert!(matches!(admission.ask(claim(0), None, 0), Decision::Wait(_)));
    let Decision::Refuse(Refusal { reason, retry_after }) = admission.ask(claim(1), within(3999), 0) else {
        panic!("the second slot becomes free in four seconds")
    };
    assert_eq!(reason.to_string(), "a slot is expected in 4000 ms, but the deadline is in 3999 ms");
    assert_eq!(retry_after, within(4000));
    assert!(matches!(admission.ask(claim(1), within(4000), 0), Decision::Wait(_)));
    let Decision::Refuse(late) = admission.ask(claim(1), within(0), 0) else { panic!("it is too late") };
    assert_eq!(late, Refusal { reason: Reason::Late, retry_after: None });
}
