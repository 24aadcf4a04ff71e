//! What a process tells those who watch it: how far its services are, and what it measures.

use std::sync::Arc;

use espalier_metrics::catalogue::{BUILD_INFO, READY, RESIDENT_MEMORY};
use espalier_metrics::{Registry, Snapshot, Source, TextFormat};
use parking_lot::Mutex;

use crate::memory::Bytes;
use crate::program::Program;

/// What a process tells; clones tell the same.
#[derive(Debug, Clone)]
pub struct Monitor {
    registry: Registry,
    services: Arc<Mutex<Vec<Service>>>,
}

/// A service of the process.
#[derive(Debug)]
struct Service {
    name: String,
    standing: Standing,
}

/// How far a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It loads.
    Starting,
    /// It takes calls.
    Serving,
    /// It takes no further calls.
    Draining,
}

/// One service of a process that is watched.
#[derive(Debug, Clone)]
pub struct Monitored {
    monitor: Monitor,
    /// Its place among the process's services.
    place: usize,
}

/// What those want to know who look after a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Whether it is at work at all.
    Live,
    /// Whether all that takes a while at the start is done.
    Started,
    /// Whether it takes calls.
    Ready,
}

/// The answer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is so.
    pub yes: bool,
    /// A sentence for people.
    pub why: String,
}

impl Monitor {
    /// That of a process without a service yet.
    pub fn new(program: Program) -> Self {
        let registry = Registry::default();
        let services = Arc::new(Mutex::new(Vec::new()));
        registry.add(Process { program, services: Arc::clone(&services) });
        Self { registry, services }
    }

    /// A service of this process, which starts; no two have the same name.
    #[must_use]
    pub fn service(&self, name: impl Into<String>) -> Monitored {
        let mut services = self.services.lock();
        services.push(Service { name: name.into(), standing: Standing::Starting });
        Monitored { monitor: self.clone(), place: services.len() - 1 }
    }

    /// What the process measures.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the process measures as text, in the format that `accept` asks for, and what that is called.
    pub fn metrics(&self, accept: Option<&str>) -> (String, &'static str) {
        let format = TextFormat::accepted(accept);
        (self.registry.snapshot().text(format).to_string(), format.content_type())
    }

    /// How it stands with the process.
    pub fn answer(&self, question: Question) -> Answer {
        let services = self.services.lock();
        let names = |standing| -> Vec<&str> {
            let of = services.iter().filter(|service| service.standing == standing);
            of.map(|service| service.name.as_str()).collect()
        };
        let (starting, draining) = (names(Standing::Starting), names(Standing::Draining));
        match question {
            Question::Live => Answer { yes: true, why: "the process is at work".to_owned() },
            _ if services.is_empty() => Answer { yes: false, why: "no service has begun to start".to_owned() },
            _ if !starting.is_empty() => Answer { yes: false, why: format!("{} is starting", starting.join(", ")) },
            Question::Ready if !draining.is_empty() => {
                Answer { yes: false, why: format!("{} takes no further calls", draining.join(", ")) }
            }
            Question::Started => Answer { yes: true, why: "all services have started".to_owned() },
            Question::Ready => Answer { yes: true, why: "all services take calls".to_owned() },
        }
    }
}

impl Monitored {
    /// The service has come so far.
    pub(crate) fn stands(&self, standing: Standing) {
        if let Some(service) = self.monitor.services.lock().get_mut(self.place) {
            service.standing = standing;
        }
    }

    /// That of its process.
    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Has the service's measurements told.
    pub fn tells(&self, source: impl Source + 'static) {
        self.monitor.registry.add(source);
    }
}

/// What a process tells whatever its services are.
struct Process {
    program: Program,
    services: Arc<Mutex<Vec<Service>>>,
}

impl Source for Process {
    fn tell(&self, to: &mut Snapshot) {
        to.tell(&BUILD_INFO, &[self.program.name, self.program.version], 1_u64);
        if let Some(Bytes(bytes)) = Bytes::resident() {
            to.tell(&RESIDENT_MEMORY, &[], bytes);
        }
        for Service { name, standing } in &*self.services.lock() {
            to.tell(&READY, &[name], *standing == Standing::Serving);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(monitor: &Monitor) -> [bool; 3] {
        [Question::Live, Question::Started, Question::Ready].map(|question| monitor.answer(question).yes)
    }

    #[test]
    fn a_process_is_ready_when_all_its_services_are() {
        let monitor = Monitor::new(Program { name: "test", version: "0" });
        assert_eq!(answers(&monitor), [true, false, false]);
        let (first, second) = (monitor.service("drafter"), monitor.service("verifier"));
        first.stands(Standing::Serving);
        assert_eq!(answers(&monitor), [true, false, false]);
        assert_eq!(monitor.answer(Question::Ready).why, "verifier is starting");
        second.stands(Standing::Serving);
        assert_eq!(answers(&monitor), [true; 3]);
        first.stands(Standing::Draining);
        assert_eq!(answers(&monitor), [true, true, false]);
        assert_eq!(monitor.answer(Question::Ready).why, "drafter takes no further calls");
    }
}
