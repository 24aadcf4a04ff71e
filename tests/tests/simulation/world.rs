//! The simulated machines, their network, and what happens to them.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use espalier_client::Client;
use espalier_drafter::{Config as DrafterConfig, Drafter};
use espalier_gateway::{Chance, Config as GatewayConfig, Gateway, Surroundings};
use espalier_model::Team;
use espalier_proto::{KvMemory, Slots};
use espalier_service_kit::{Bound, Bytes, Dialer, MemoryBudget, Workplace};
use espalier_speculation::SplitMix64;
use espalier_tests::model;
use espalier_verifier::{Config as VerifierConfig, Target};
use futures::future::join_all;
use futures::stream;
use tokio::time::sleep;
use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Sim};

use crate::client::{Story, ask, at};
use crate::fault::{Fault, Faults, Kind};
use crate::panics::panics;
use crate::questions::{Questions, TARGET};

/// All services listen here, each on a machine of its own.
const PORT: u16 = 50050;

/// The machines with services.
const GATEWAYS: [&str; 2] = ["gateway-0", "gateway-1"];
const DRAFTERS: [&str; 2] = ["drafter-0", "drafter-1"];
const VERIFIERS: [&str; 2] = ["verifier-0", "verifier-1"];

/// The machine with clients.
const CLIENTS: &str = "clients";

/// Clients, each of which asks one question after the other.
const CLIENTS_COUNT: usize = 3;
const QUESTIONS_EACH: usize = 4;

/// How far time goes on in a step, in which each machine has its turn.
const TICK: Duration = Duration::from_millis(4);

/// What a pass of a target takes, and one of a drafter.
const TARGET_PASS: Duration = Duration::from_millis(30);
const DRAFTER_PASS: Duration = Duration::from_millis(4);

/// Memory for keys and values of each model.
const KV_MEMORY: MemoryBudget = MemoryBudget::Bytes(Bytes(64 << 20));

/// How long the system is there before anybody asks.
const STARTED: Duration = Duration::from_secs(1);

/// All is over by then.
const END: Duration = Duration::from_secs(120);

/// Places of those who went without a word are free after this time: that is how long a server waits for a sign of life.
const SETTLED: Duration = Duration::from_secs(32);

type Failure = Box<dyn std::error::Error>;

/// A world that a seed decides.
pub(crate) struct World {
    seed: u64,
    story: Story,
}

/// What came of a world.
pub(crate) struct Told {
    /// What happened, in its order.
    pub(crate) story: Vec<String>,
    /// Or what went wrong.
    pub(crate) all_well: Result<(), String>,
}

impl World {
    pub(crate) fn of(seed: u64) -> Self {
        Self { seed, story: Story::default() }
    }

    /// Has all questions asked while services fail.
    pub(crate) fn run(self, questions: &'static Questions) -> Told {
        let before = panics();
        let story = Rc::clone(&self.story);
        let run = self.unfold(questions).map_err(|failure| failure.to_string());
        let all_well = run.and_then(|()| match panics() - before {
            0 => Ok(()),
            count => Err(format!("{count} panics")),
        });
        Told { story: story.take(), all_well }
    }

    fn unfold(self, questions: &'static Questions) -> Result<(), Failure> {
        let mut sim = Builder::new()
            .rng_seed(self.seed)
            .tick_duration(TICK)
            .simulation_duration(END)
            .min_message_latency(Duration::from_micros(100))
            .max_message_latency(Duration::from_millis(12))
            .tcp_capacity(4096)
            .build();
        VERIFIERS.into_iter().for_each(|name| sim.host(name, verifier));
        DRAFTERS.into_iter().for_each(|name| sim.host(name, drafter));
        for (number, name) in GATEWAYS.iter().enumerate() {
            let chance = chance(SplitMix64::mix(self.seed ^ number as u64));
            sim.host(*name, move || gateway(chance.clone()));
        }
        let wrong = Rc::new(RefCell::new(Vec::new()));
        let asked = Rc::new(Cell::new(false));
        let clients = Clients {
            seed: self.seed,
            questions,
            story: Rc::clone(&self.story),
            wrong: Rc::clone(&wrong),
            asked: Rc::clone(&asked),
        };
        sim.client(CLIENTS, clients.run());
        let mut suffering = Suffering::of(self.seed);
        while !sim.step()? {
            match asked.get() {
                true => suffering.end_all(&mut sim, &self.story),
                false => suffering.go_on(&mut sim, &self.story),
            }
        }
        match wrong.take() {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(wrong.join("\n").into()),
        }
    }
}

/// The name of each machine with a service, by its number.
fn services() -> Vec<&'static str> {
    [GATEWAYS, DRAFTERS, VERIFIERS].concat()
}

/// What services suffer, and what they suffer now.
struct Suffering {
    coming: std::iter::Peekable<Faults>,
    present: Vec<Fault>,
}

impl Suffering {
    fn of(seed: u64) -> Self {
        let faults = Faults::of(SplitMix64::mix(seed), services().len(), STARTED);
        Self { coming: faults.peekable(), present: Vec::new() }
    }

    /// Has those end that are over, and those begin that are due: none for a service that suffers already.
    fn go_on(&mut self, sim: &mut Sim<'_>, story: &Story) {
        let now = sim.elapsed();
        self.end_those(sim, story, |fault| fault.ends <= now);
        while let Some(fault) = self.coming.next_if(|fault| fault.begins <= now) {
            if self.present.iter().all(|one| !touches(one, &fault)) {
                begin(sim, fault);
                tell(story, now, format_args!("{} is {}", services()[fault.service], fault.kind));
                self.present.push(fault);
            }
        }
    }

    fn end_all(&mut self, sim: &mut Sim<'_>, story: &Story) {
        self.end_those(sim, story, |_| true);
    }

    fn end_those(&mut self, sim: &mut Sim<'_>, story: &Story, are_over: impl Fn(&Fault) -> bool) {
        for fault in self.present.extract_if(.., |fault| are_over(fault)) {
            end(sim, fault);
            tell(story, sim.elapsed(), format_args!("{} is well again", services()[fault.service]));
        }
    }
}

/// Whether two faults have a service in common.
fn touches(one: &Fault, other: &Fault) -> bool {
    let services = |fault: &Fault| match fault.kind {
        Kind::CutOffFrom(from) => vec![fault.service, from],
        _ => vec![fault.service],
    };
    services(one).iter().any(|service| services(other).contains(service))
}

fn tell(story: &Story, now: Duration, what: std::fmt::Arguments<'_>) {
    story.borrow_mut().push(format!("{:>6} {what}", now.as_millis()));
}

/// The machines whose links to a service a fault is about.
fn others(fault: Fault) -> Vec<&'static str> {
    match fault.kind {
        Kind::CutOffFrom(other) => vec![services()[other]],
        _ => {
            let own = services()[fault.service];
            services().into_iter().chain([CLIENTS]).filter(|other| *other != own).collect()
        }
    }
}

fn begin(sim: &mut Sim<'_>, fault: Fault) {
    let own = services()[fault.service];
    match fault.kind {
        Kind::Killed => sim.crash(own),
        Kind::Held => others(fault).into_iter().for_each(|other| sim.hold(own, other)),
        Kind::CutOff | Kind::CutOffFrom(_) => others(fault).into_iter().for_each(|other| sim.partition(own, other)),
    }
}

fn end(sim: &mut Sim<'_>, fault: Fault) {
    let own = services()[fault.service];
    match fault.kind {
        Kind::Killed => sim.bounce(own),
        Kind::Held => others(fault).into_iter().for_each(|other| sim.release(own, other)),
        Kind::CutOff | Kind::CutOffFrom(_) => others(fault).into_iter().for_each(|other| sim.repair(own, other)),
    }
}

/// Random numbers that a seed decides.
fn chance(seed: u64) -> Chance {
    let random = Arc::new(Mutex::new(SplitMix64::new(seed)));
    Chance::new(move || random.lock().unwrap().next_u64())
}

/// Connections over the simulated network.
fn dialer() -> Dialer {
    Dialer::over(|host, port| TcpStream::connect((host, port)))
}

fn url(host: &str) -> String {
    format!("http://{host}:{PORT}")
}

fn urls(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| url(host)).collect()
}

/// A port of the machine that this is called on.
async fn bind() -> io::Result<Bound> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let listener = TcpListener::bind(address).await?;
    let taken = stream::unfold(listener, |listener| async move { Some((listener.accept().await, listener)) });
    Ok(Bound::over(address, taken))
}

async fn verifier() -> Result<(), Failure> {
    let config = VerifierConfig::new(model(TARGET), 1)?.with_kv_memory(Some(KV_MEMORY));
    let config = config.with_workplace(Workplace::Task { pass: TARGET_PASS });
    let target = Target::load(&config, &Team::new(1), |_, _| {})?;
    Ok(espalier_verifier::serve(target, bind().await?, std::future::pending()).await?)
}

async fn drafter() -> Result<(), Failure> {
    let config = DrafterConfig {
        workplace: Workplace::Task { pass: DRAFTER_PASS },
        dialer: dialer(),
        kv_memory: Some(KV_MEMORY),
        ..DrafterConfig::new(model(TARGET), Some(1), NonZeroUsize::MIN)
    };
    let drafter = Drafter::load(&config, &Team::new(1))?;
    Ok(espalier_drafter::serve(drafter, bind().await?, std::future::pending()).await?)
}

async fn gateway(chance: Chance) -> Result<(), Failure> {
    let config = GatewayConfig::over(&dialer(), &urls(&VERIFIERS), &urls(&DRAFTERS))?;
    let bound = bind().await?;
    let surroundings =
        Surroundings { chance, workplace: Workplace::Task { pass: Duration::ZERO }, ..Surroundings::default() };
    let gateway = Gateway::start(config.with_surroundings(surroundings)).await;
    Ok(espalier_gateway::serve(gateway, bound, std::future::pending()).await?)
}

/// Who asks, and where it is written down what came of it.
struct Clients {
    seed: u64,
    questions: &'static Questions,
    story: Story,
    wrong: Rc<RefCell<Vec<String>>>,
    /// Whether all is answered, so that nothing need fail any more.
    asked: Rc<Cell<bool>>,
}

impl Clients {
    /// All questions, then a look at whether anything is still held.
    async fn run(self) -> Result<(), Failure> {
        sleep(STARTED).await;
        join_all((0..CLIENTS_COUNT).map(|number| self.ask_all(number))).await.into_iter().collect::<Result<(), _>>()?;
        self.asked.set(true);
        sleep(SETTLED).await;
        let held = still_held().await?;
        self.wrong.borrow_mut().extend(held);
        self.story.borrow_mut().push(format!("{:>6} all is over", at()));
        Ok(())
    }

    /// The questions of one client, one after the other.
    async fn ask_all(&self, number: usize) -> Result<(), Failure> {
        let name = format!("client-{number}");
        for turn in 0..QUESTIONS_EACH {
            let index = SplitMix64::mix(self.seed ^ (number * QUESTIONS_EACH + turn) as u64) as usize;
            let question = &self.questions.0[index % self.questions.0.len()];
            let asked = ask(client()?.named(&name)?, question, name.clone(), Rc::clone(&self.story)).await;
            self.wrong.borrow_mut().extend(asked.err());
        }
        Ok(())
    }
}

/// A client of whichever gateway answers: one after the other is tried, from connection to connection.
fn client() -> Result<Client, Failure> {
    let turn = Arc::new(Mutex::new(0_usize));
    let dialer = Dialer::over(move |_, port| {
        let mut turn = turn.lock().unwrap();
        *turn += 1;
        TcpStream::connect((GATEWAYS[*turn % GATEWAYS.len()], port))
    });
    Ok(Client::over(&dialer, &url("gateways"))?.resuming(Duration::from_secs(30)))
}

/// What of services is taken although nobody asks for anything.
async fn still_held() -> Result<Vec<String>, Failure> {
    let mut held = Vec::new();
    for host in GATEWAYS {
        let status = Client::over(&dialer(), &url(host))?.status().await?;
        if status.gateway.requests.open > 0 {
            held.push(format!("{host} still has {} requests", status.gateway.requests.open));
        }
        for verifier in status.verifiers {
            let status = verifier.status.map(|status| (status.sequences, status.kv));
            held.extend(held_by(&verifier.url, status));
        }
        for drafter in status.drafters {
            let status = drafter.status.map(|status| (status.sequences, status.kv));
            held.extend(held_by(&drafter.url, status));
        }
    }
    Ok(held)
}

/// What a service still holds, by what it tells of its slots and its memory.
fn held_by(url: &str, status: Option<(Slots, KvMemory)>) -> Option<String> {
    match status {
        None => Some(format!("{url} says nothing")),
        Some((slots, kv)) if (slots.open, kv.held, kv.promised) != (0, 0, 0) => {
            Some(format!("{url} still holds {slots:?}, {kv:?}"))
        }
        Some(_) => None,
    }
}
