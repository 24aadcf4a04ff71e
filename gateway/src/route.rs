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
        let verifier = fault.party == Party::Verifier;
        let pause = if verifier { self.pause(fault) } else { Duration::ZERO };
        // A verifier that only the drafter cannot reach would be lost for ever.
        if drafted && (!verifier || self.failovers > 0) {
            self.drafting = Drafting::Ngram;
        }
        self.failovers += 1;
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
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use espalier_service_kit::channel;

    use super::*;
    use crate::config::Address;
    use crate::peers::Peer;

    /// A sequence with a draft model; must be made within a runtime.
    fn drafted() -> Route {
        let url = "http://127.0.0.1:1".to_owned();
        let channel = channel(&url).unwrap();
        Route::new(Drafting::Model("small".to_owned(), Arc::new(Peer::new(Address { url, channel }))))
    }

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

    #[tokio::test]
    async fn whatever_ails_a_drafter_the_target_does_without_it_at_once() {
        for kind in [FaultKind::Gone, FaultKind::Overloaded, FaultKind::Internal, FaultKind::BadInput] {
            for party in [Party::Drafter, Party::Gateway] {
                let mut route = drafted();
                assert_eq!(route.after(&fault(party, kind), false), Some(Duration::ZERO));
                assert_eq!((route.drafting.name(), route.failovers()), ("ngram", 1));
            }
        }
    }

    #[tokio::test]
    async fn a_drafter_is_kept_when_a_verifier_is_lost_but_only_once() {
        let (mut route, gone) = (drafted(), fault(Party::Verifier, FaultKind::Gone));
        assert_eq!(route.after(&gone, true), Some(PAUSE_MIN));
        assert_eq!(route.drafting.name(), "small");
        assert_eq!(route.after(&gone, true), Some(2 * PAUSE_MIN));
        assert_eq!(route.drafting.name(), "ngram");
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
