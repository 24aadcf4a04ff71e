//! Messages and their ways.

use std::time::Duration;

use super::{Devices, World};
use crate::message::{Event, Message, Place};
use crate::team::{Beside, Done};
use crate::time::of_ms;

impl World<'_> {
    /// Half of a round trip between two places.
    pub(super) fn way(&self, from: Place, to: Place) -> Duration {
        let network = &self.scenario.network;
        let same = self.zone(from) == self.zone(to);
        of_ms(if same { network.round_trip_ms } else { network.between_zones_ms } / 2.0)
    }

    fn zone(&self, place: Place) -> usize {
        match place {
            Place::Client | Place::Gateway => 0,
            Place::Verifier(verifier) => self.classes[self.targets[self.verifiers[verifier].target].class].zone,
            Place::Drafter(drafter) => self.drafters[drafter].zone,
        }
    }

    /// What a message takes on devices of their own, the way included; none on shared ones.
    pub(super) fn own_way(&self, from: Place, to: Place) -> Option<Duration> {
        match self.devices {
            Devices::Own { message, .. } if from != to => Some(self.way(from, to) + message),
            Devices::Own { .. } => Some(Duration::ZERO),
            Devices::Shared(_) => None,
        }
    }

    pub(super) fn send(&mut self, from: Place, to: Place, message: Message) {
        let way = self.way(from, to);
        match &mut self.devices {
            Devices::Own { message: takes, .. } => {
                let at = self.now + way + *takes;
                self.queue.put(at, Event::Message(message));
            }
            Devices::Shared(shared) => {
                let stream = if message.opens_stream() { shared.stream } else { Duration::ZERO };
                shared.team.handle(Beside::Messages, (way, message), shared.message + stream);
            }
        }
    }

    /// Has a request read, as a gateway does before it has a sequence.
    pub(super) fn read(&mut self, id: u32) {
        let read = Message::HasRead(id);
        match &mut self.devices {
            Devices::Own { intake, .. } => self.queue.put(self.now + *intake, Event::Message(read)),
            Devices::Shared(shared) => shared.team.handle(Beside::Requests, (Duration::ZERO, read), shared.intake),
        }
    }

    /// Lets shared processors work up to now.
    pub(super) fn advance_team(&mut self) {
        let Devices::Shared(shared) = &mut self.devices else { return };
        for done in shared.team.advance(self.now) {
            match done {
                Done::Pass(engine, waited) => self.pass_ends(engine, waited),
                Done::Message((way, message)) if way.is_zero() => self.deliver(message),
                Done::Message((way, message)) => self.queue.put(self.now + way, Event::Message(message)),
            }
        }
    }

    /// Sees to it that the team's next event is in the queue.
    pub(super) fn schedule_team(&mut self) {
        let Devices::Shared(shared) = &mut self.devices else { return };
        let next = shared.team.next();
        if next != shared.next || next.is_some_and(|next| next <= self.now) {
            shared.next = next;
            next.into_iter().for_each(|at| self.queue.put(at, Event::Team));
        }
    }

    pub(super) fn deliver(&mut self, message: Message) {
        match message {
            Message::Ask(request) => self.ask(request),
            Message::HasRead(request) => self.has_read(request),
            Message::Start(who) => self.start(who),
            Message::Open(who) => self.open_at_verifier(who),
            Message::Opened(who) => self.opened(who),
            Message::Submit(who, submission) => self.submitted(who, submission),
            Message::Outcomes(outcomes) => outcomes.into_iter().for_each(|outcome| self.end_round(&outcome)),
            Message::Report(who, tokens, is_last) => self.reported(who, tokens, is_last),
            Message::Tokens(request, tokens, is_last) => self.heard(request, tokens, is_last),
            Message::Fault(who, party, kind) => self.fault(who, party, kind),
            Message::Refused(request, hint) => self.refused(request, hint),
        }
    }
}
