//! A world from its scenario.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use espalier_drafter::TargetShare;
use espalier_gateway::{Admission, AdmissionLimits, Client, ClientWeights};
use tokio::time::Instant;

use super::{Class, Clients, Devices, Gateway, SharedDevices, Target, World};
use crate::drafter::Drafter;
use crate::draws::Draws;
use crate::fit::parameters;
use crate::queue::Queue;
use crate::scenario::{Machine, Scenario, ScenarioError, Shared, curve, policy};
use crate::tally::{Tally, Window};
use crate::team::{Processors, Team};
use crate::text::TextModel;
use crate::time::Time;
use crate::verifier::{PassCosts, Verifier};

/// Clients that gateways tell apart at the most: they are fair between so many.
const CLIENTS_TOLD_APART: usize = 256;

fn us(us: f64) -> Duration {
    Duration::try_from_secs_f64(us / 1e6).unwrap_or_default()
}

impl<'s> World<'s> {
    /// A system in which nothing has happened. `epoch` stands for time 0.
    pub(crate) fn new(scenario: &'s Scenario, seed: u64, epoch: Instant) -> Result<Self, ScenarioError> {
        let zones = zones(scenario);
        let classes = classes(scenario, &zones)?;
        let mut world = Self {
            scenario,
            epoch,
            now: Time::ZERO,
            queue: Queue::default(),
            draws: Draws::new(seed),
            jitter: Draws::new(!seed),
            devices: devices(&scenario.machine),
            classes,
            targets: Vec::new(),
            verifiers: Vec::new(),
            verifier_urls: Vec::new(),
            drafters: Vec::new(),
            drafter_urls: Vec::new(),
            gateways: Vec::new(),
            requests: Vec::new(),
            free: Vec::new(),
            lives: 0,
            clients: Clients::default(),
            tallies: scenario.targets.iter().map(|_| Tally::new(Window::of(&scenario.load))).collect(),
            ended: Time::ZERO,
        };
        (0..scenario.targets.len()).for_each(|class| world.add_targets(class));
        (0..scenario.drafters.len()).for_each(|pool| world.add_drafters(pool, &zones));
        (0..scenario.gateways.count).for_each(|_| world.add_gateway());
        Ok(world)
    }

    /// The copies of an entry, each with verifiers of its own.
    fn add_targets(&mut self, class: usize) {
        let entry = &self.scenario.targets[class];
        for copy in 0..entry.copies {
            let name = if entry.copies == 1 { entry.name.clone() } else { format!("{}-{copy}", entry.name) };
            let first = self.verifiers.len();
            for replica in 0..entry.verifiers {
                let beside = beside(&self.scenario.machine, |shared| shared.turn_us);
                let costs = PassCosts {
                    curve: curve(&entry.curve),
                    prompt_ms: entry.prompt_us.map(|us| us / 1e3),
                    context_ms: entry.context_us / 1e3,
                    beside,
                };
                self.verifiers.push(Verifier::new(self.targets.len(), costs, entry.slots));
                self.verifier_urls.push(format!("http://{name}-verifier-{replica}:50052"));
            }
            let share = TargetShare { target: name.as_str().into(), weight: NonZeroU32::MIN };
            let verifiers = first..self.verifiers.len();
            self.targets.push(Target { class, name, share, verifiers, drafters: Vec::new() });
        }
    }

    /// The drafters of a pool, each known to the targets that it suits.
    fn add_drafters(&mut self, pool: usize, zones: &[&str]) {
        let entry = &self.scenario.drafters[pool];
        let suits = |target: &Target| entry.suits(&self.scenario.targets[target.class].name);
        let suited: Vec<usize> = (0..self.targets.len()).filter(|&target| suits(&self.targets[target])).collect();
        let groups = if entry.each { suited.iter().map(|&target| vec![target]).collect() } else { vec![suited] };
        for group in groups {
            for _ in 0..entry.count {
                let number = self.drafters.len();
                let beside = beside(&self.scenario.machine, |shared| shared.level_us);
                let mut drafter = Drafter::new(pool, curve(&entry.curve), entry.slots, beside);
                (drafter.only, drafter.zone) = (entry.each.then(|| group[0]), zone(zones, &entry.zone));
                self.drafters.push(drafter);
                self.drafter_urls.push(format!("http://{}-{number}:50061", entry.name));
                group.iter().for_each(|&target| self.targets[target].drafters.push(number));
            }
        }
    }

    fn add_gateway(&mut self) {
        let limits = AdmissionLimits {
            running: self.scenario.gateways.requests,
            queued: self.scenario.gateways.queued,
            each: usize::MAX,
            weights: ClientWeights::default(),
        };
        let host = |number: usize| IpAddr::V4(Ipv4Addr::from_bits(number as u32));
        let claims = (0..CLIENTS_TOLD_APART).map(|number| limits.claim(Client::At(host(number)))).collect();
        self.gateways.push(Gateway {
            door: Admission::new(limits),
            claims,
            at_verifiers: vec![0; self.verifiers.len()],
            at_drafters: vec![0; self.drafters.len()],
            turn: 0,
        });
    }
}

/// The zones by their names; the first is that of gateways and clients.
fn zones(scenario: &Scenario) -> Vec<&str> {
    let of_targets = scenario.targets.iter().map(|target| target.zone.as_str());
    let of_drafters = scenario.drafters.iter().map(|pool| pool.zone.as_str());
    let mut zones = vec![""];
    for zone in of_targets.chain(of_drafters) {
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    zones
}

fn zone(zones: &[&str], name: &str) -> usize {
    zones.iter().position(|zone| *zone == name).unwrap_or(0)
}

fn classes(scenario: &Scenario, zones: &[&str]) -> Result<Vec<Class>, ScenarioError> {
    let class = |(i, target): (usize, &crate::scenario::Target)| {
        let policy = policy(|| format!("targets[{i}].policy"), &target.policy)?;
        let model = TextModel::new(parameters(&target.acceptance), policy.build().width());
        Ok(Class { model, policy, zone: zone(zones, &target.zone) })
    };
    scenario.targets.iter().enumerate().map(class).collect()
}

fn devices(machine: &Machine) -> Devices {
    match machine {
        Machine::Own(own) => Devices::Own { message: us(own.message_us), intake: us(own.intake_us) },
        Machine::Shared(shared) => {
            let &Shared { cores, threads, .. } = shared;
            let (wake, tick, stay) = (us(shared.wake_us), us(shared.tick_us), us(shared.stay_us));
            let processors = Processors { cores, threads, wake, tick, stay };
            Devices::Shared(Box::new(SharedDevices {
                team: Team::new(processors),
                message: us(shared.message_us),
                stream: us(shared.stream_us),
                intake: us(shared.intake_us),
                opening: us(shared.opening_us),
                warm_verifier: None,
                warm: None,
                cold: 0.0,
                next: None,
            }))
        }
    }
}

/// What an engine does beside a pass on shared processors, which takes `turn_us`, and for each sequence of it.
fn beside(machine: &Machine, turn_us: fn(&Shared) -> f64) -> [Duration; 2] {
    match machine {
        Machine::Own(own) => [Duration::ZERO, us(own.sequence_us)],
        Machine::Shared(shared) => [us(turn_us(shared)), us(shared.sequence_us)],
    }
}
