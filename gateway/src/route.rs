//! What to do when a sequence has lost the service that ran it.

use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Party};

use crate::validate::Drafting;

/// How often a sequence may be opened again.
const FAILOVERS_MAX: u32 = 10;

/// The pause before the first try on a verifier that was lost; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a sequence is run at present, and how it came to that.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) drafting: Drafting,
    failovers: u32,
}

impl Route {
    pub(crate) fn new(drafting: Drafting) -> Self {
        Self { drafting, failovers: 0 }
    }

    /// How often the sequence was opened again.
    pub(crate) fn failovers(&self) -> u32 {
        self.failovers
    }

    /// Decides how to go on after `fault`: how long to pause before the sequence
    /// is opened again, or nothing if it must fail. `begun` says whether the
    /// client has already got tokens: only then is a full verifier waited for.
    pub(crate) fn after(&mut self, fault: &Fault, begun: bool) -> Option<Duration> {
        let drafted = matches!(self.drafting, Drafting::Model(..));
        if self.failovers == FAILOVERS_MAX || !may_go_on(fault, drafted, begun) {
            return None;
        }
        let pause = if fault.party == Party::Verifier { self.pause(fault) } else { Duration::ZERO };
        self.failovers += 1;
        if drafted {
            self.drafting = Drafting::Ngram;
        }
        Some(pause)
    }

    fn pause(&self, fault: &Fault) -> Duration {
        let doubled = PAUSE_MIN.saturating_mul(1 << self.failovers.min(16));
        fault.retry_after.unwrap_or(doubled).min(PAUSE_MAX)
    }
}

/// Whether another way may serve where this one failed: a verifier that was lost
/// may be back, or have a sibling; and whatever ails a drafter, a target can do
/// without it.
fn may_go_on(fault: &Fault, drafted: bool, begun: bool) -> bool {
    match (fault.kind, fault.party) {
        (FaultKind::Late | FaultKind::Cancelled, _) => false,
        (FaultKind::Overloaded, Party::Verifier) => begun,
        (FaultKind::Gone | FaultKind::LostSequence, Party::Verifier) => true,
        (FaultKind::Internal, Party::Verifier) => false,
        _ => drafted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(party: Party, kind: FaultKind) -> Fault {
        Fault::new(party, kind, "test")
    }

    #[test]
    fn a_lost_verifier_is_tried_again_with_growing_pauses_but_not_for_ever() {
        let mut route = Route::new(Drafting::Nobody);
        let gone = fault(Party::Verifier, FaultKind::Gone);
        let pauses: Vec<u128> =
            std::iter::from_fn(|| route.after(&gone, true)).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000]);
        assert_eq!(route.failovers(), FAILOVERS_MAX);
    }

    #[test]
    fn a_full_verifier_is_waited_for_only_in_mid_text() {
        let full = fault(Party::Verifier, FaultKind::Overloaded).retry_after(Duration::from_millis(250));
        assert_eq!(Route::new(Drafting::Nobody).after(&full, false), None);
        assert_eq!(Route::new(Drafting::Nobody).after(&full, true), full.retry_after);
    }

    #[test]
    fn what_would_fail_again_fails_at_once() {
        for (party, kind) in [
            (Party::Verifier, FaultKind::Late),
            (Party::Verifier, FaultKind::Cancelled),
            (Party::Verifier, FaultKind::Internal),
            (Party::Client, FaultKind::BadInput),
        ] {
            assert_eq!(Route::new(Drafting::Ngram).after(&fault(party, kind), true), None);
        }
    }
}
