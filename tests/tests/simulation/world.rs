//! A world that a seed decides: its machines, its network, and what happens to them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use espalier_speculation::SplitMix64;
use espalier_tests::Question;
use tokio::runtime;
use turmoil::{Builder, Sim};

use crate::client::Clients;
use crate::machines::{chance, drafter, gateway, verifier};
use crate::network::{CLIENTS, DRAFTERS, GATEWAYS, VERIFIERS};
use crate::panics::panics;
use crate::story::Story;
use crate::suffering::Suffering;

/// How far time goes on in a step, in which each machine has its turn.
const TICK: Duration = Duration::from_millis(4);

/// What a message takes, the least and the most.
const LATENCY_MIN: Duration = Duration::from_micros(100);
const LATENCY_MAX: Duration = Duration::from_millis(12);

/// Messages of one connection that may be on their way.
const UNDER_WAY_MAX: usize = 4096;

/// How long the system is there before anybody asks, and anything fails.
pub(crate) const STARTED: Duration = Duration::from_secs(1);

/// All is over by then.
const END: Duration = Duration::from_secs(120);

/// Why a machine, or a world, cannot go on.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// What came of a world.
pub(crate) struct Told {
    /// What happened, in its order.
    pub(crate) story: Vec<String>,
    /// Or what went wrong.
    pub(crate) all_well: Result<(), String>,
}

/// Has all questions asked in a world where services fail. There is one world at a time, or they would disturb each other's
/// stories.
pub(crate) fn unfold(seed: u64, questions: &[Question]) -> Told {
    static WORLD: Mutex<()> = Mutex::new(());
    let _world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    begin_task_numbers_anew();
    let (before, story) = (panics(), Story::default());
    let run = run(seed, questions, &story).map_err(|failure| failure.to_string());
    let all_well = run.and_then(|()| match panics() - before {
        0 => Ok(()),
        count => Err(format!("{count} panics")),
    });
    Told { story: story.take(), all_well }
}

fn run(seed: u64, questions: &[Question], story: &Story) -> Result<(), Failure> {
    let mut sim = network(seed);
    VERIFIERS.into_iter().for_each(|name| sim.host(name, verifier));
    DRAFTERS.into_iter().for_each(|name| sim.host(name, drafter));
    for (number, name) in GATEWAYS.into_iter().enumerate() {
        let chance = chance(SplitMix64::mix(seed ^ number as u64));
        sim.host(name, move || gateway(chance.clone()));
    }
    let (wrong, answered) = (Rc::new(RefCell::default()), Rc::new(Cell::new(false)));
    let clients = Clients {
        seed,
        questions: questions.to_vec(),
        story: story.clone(),
        wrong: Rc::clone(&wrong),
        answered: Rc::clone(&answered),
    };
    sim.client(CLIENTS, clients.run());
    let mut suffering = Suffering::of(seed, story.clone());
    while !sim.step()? {
        match answered.get() {
            true => suffering.end(&mut sim),
            false => suffering.go_on(&mut sim),
        }
    }
    match wrong.take() {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(wrong.join("\n").into()),
    }
}

/// Counts tasks on to a round number. A process has one number for each, whatever its world, and the tasks of a machine that
/// is killed end in an order that depends on the last digits of theirs.
fn begin_task_numbers_anew() {
    const ROUND: u64 = 64;
    let spawned = async || tokio::spawn(async {}).id().to_string().parse::<u64>().unwrap();
    let counting = async { while !spawned().await.is_multiple_of(ROUND) {} };
    runtime::Builder::new_current_thread().build().unwrap().block_on(counting);
}

fn network(seed: u64) -> Sim<'static> {
    Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(END)
        .min_message_latency(LATENCY_MIN)
        .max_message_latency(LATENCY_MAX)
        .tcp_capacity(UNDER_WAY_MAX)
        .build()
}
