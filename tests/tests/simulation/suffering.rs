//! What services suffer, and what is done to the network for it.

use std::iter::Peekable;

use espalier_speculation::SplitMix64;
use turmoil::Sim;

use crate::fault::{Fault, Faults, Kind};
use crate::network::{CLIENTS, services};
use crate::story::Story;
use crate::world::STARTED;

/// What services suffer now, and what they will.
pub(crate) struct Suffering {
    coming: Peekable<Faults>,
    present: Vec<Fault>,
    story: Story,
}

impl Suffering {
    /// What a seed decides.
    pub(crate) fn of(seed: u64, story: Story) -> Self {
        let faults = Faults::of(SplitMix64::mix(seed), services().len(), STARTED);
        Self { coming: faults.peekable(), present: Vec::new(), story }
    }

    /// Has those end that are over, and those begin that are due: none for a service that suffers already.
    pub(crate) fn go_on(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        self.end_those(sim, |fault| fault.ends <= now);
        while let Some(fault) = self.coming.next_if(|fault| fault.begins <= now) {
            if self.present.iter().all(|one| !one.touches(&fault)) {
                begin(sim, fault);
                self.story.tell_at(now, format_args!("{} is {}", services()[fault.service], fault.kind));
                self.present.push(fault);
            }
        }
    }

    /// Has all end.
    pub(crate) fn end(&mut self, sim: &mut Sim<'_>) {
        self.end_those(sim, |_| true);
    }

    fn end_those(&mut self, sim: &mut Sim<'_>, are_over: impl Fn(&Fault) -> bool) {
        for fault in self.present.extract_if(.., |fault| are_over(fault)) {
            end(sim, fault);
            self.story.tell_at(sim.elapsed(), format_args!("{} is well again", services()[fault.service]));
        }
    }
}

/// The machines whose links to a service a fault is about.
fn others(fault: Fault) -> Vec<&'static str> {
    let own = services()[fault.service];
    match fault.kind {
        Kind::CutOffFrom(other) => vec![services()[other]],
        _ => services().into_iter().chain([CLIENTS]).filter(|other| *other != own).collect(),
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
