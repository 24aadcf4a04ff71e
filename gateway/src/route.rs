//! What to do when a sequence has lost the service that ran it.

use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Party};

/// How often a sequence may be opened again.
const FAILOVERS_MAX: u32 = 10;

/// Draft models that may fail a sequence before it does without one: what ails each of them may be the sequence.
const DRAFTERS_MAX: u32 = 3;

/// The pause before the first try on a verifier that was lost; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause between two tries.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a sequence has been through.
#[derive(Debug, Default)]
pub(crate) struct Route {
    drafters_lost: u32,
    verifiers_lost: u32,
}

/// How far a sequence has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// A draft model proposes for it.
    pub(crate) drafted: bool,
    /// The client has got tokens already.
    pub(crate) begun: bool,
    /// There is a verifier that answers and has not refused it.
    pub(crate) elsewhere: bool,
}

/// How a sequence goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Detour {
    /// It is opened again after so much time.
    pub(crate) pause: Duration,
    /// Who proposes from then on.
    pub(crate) turn: Turn,
}

/// Who is to propose after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Whoever did.
    Again,
    /// Another draft model, or n-grams if there is none.
    OtherDrafter,
    /// N-grams.
    Ngram,
}

impl Route {
    /// How often the sequence was opened again.
    pub(crate) fn failovers(&self) -> u32 {
        self.drafters_lost + self.verifiers_lost
    }

    /// Decides how to go on after `fault`; nothing if the sequence must fail. Where
    /// all verifiers are full, only a sequence that has begun waits for one.
    pub(crate) fn after(&mut self, fault: &Fault, progress: Progress) -> Option<Detour> {
        if self.failovers() == FAILOVERS_MAX || !may_go_on(fault, progress) {
            return None;
        }
        let detour = match fault.party {
            Party::Verifier if is_full(fault) && progress.elsewhere => {
                Detour { pause: Duration::ZERO, turn: Turn::Again }
            }
            Party::Verifier => Detour { pause: self.pause(fault), turn: self.turn_without_verifier(progress) },
            _ => Detour { pause: Duration::ZERO, turn: self.turn_without_drafter() },
        };
        match fault.party {
            Party::Verifier => self.verifiers_lost += 1,
            _ => self.drafters_lost += 1,
        }
        Some(detour)
    }

    fn turn_without_verifier(&self, progress: Progress) -> Turn {
        // A verifier that only the drafter cannot reach would be lost for ever.
        if progress.drafted && self.verifiers_lost > 0 { Turn::Ngram } else { Turn::Again }
    }

    fn turn_without_drafter(&self) -> Turn {
        if self.drafters_lost + 1 < DRAFTERS_MAX { Turn::OtherDrafter } else { Turn::Ngram }
    }

    fn pause(&self, fault: &Fault) -> Duration {
        let doubled = PAUSE_MIN.saturating_mul(1 << self.verifiers_lost.min(16));
        fault.retry_after.unwrap_or(doubled).min(RETRY_PAUSE_MAX)
    }
}

/// Whether a verifier has no room for a sequence at present.
pub(crate) fn is_full(fault: &Fault) -> bool {
    fault.party == Party::Verifier && fault.kind == FaultKind::Overloaded
}

/// Whether another way may serve where this one failed: a verifier that was lost
/// may be back, or have a sibling; and whatever ails a drafter, a target can do
/// without it.
fn may_go_on(fault: &Fault, progress: Progress) -> bool {
    match (fault.kind, fault.party) {
        (FaultKind::Late | FaultKind::Cancelled, _) => false,
        (FaultKind::Overloaded, Party::Verifier) => progress.begun || progress.elsewhere,
        (FaultKind::Gone | FaultKind::LostSequence, Party::Verifier) => true,
        (FaultKind::Internal, Party::Verifier) => false,
        _ => progress.drafted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAFTED: Progress = Progress { drafted: true, begun: true, elsewhere: false };
    const ALONE: Progress = Progress { drafted: false, ..DRAFTED };

    fn fault(party: Party, kind: FaultKind) -> Fault {
        Fault::new(party, kind, "test")
    }

    fn turn(route: &mut Route, fault: &Fault) -> Option<Turn> {
        route.after(fault, DRAFTED).map(|detour| detour.turn)
    }

    #[test]
    fn a_lost_verifier_is_tried_again_with_growing_pauses_but_not_for_ever() {
        let mut route = Route::default();
        let gone = fault(Party::Verifier, FaultKind::Gone);
        let pauses: Vec<u128> =
            std::iter::from_fn(|| route.after(&gone, ALONE)).map(|detour| detour.pause.as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000]);
        assert_eq!(route.failovers(), FAILOVERS_MAX);
    }

    #[test]
    fn whatever_ails_a_drafter_another_goes_on_at_once() {
        for kind in [FaultKind::Gone, FaultKind::Overloaded, FaultKind::Internal, FaultKind::BadInput] {
            for party in [Party::Drafter, Party::Gateway] {
                let (mut route, progress) = (Route::default(), Progress { begun: false, ..DRAFTED });
                let expected = Detour { pause: Duration::ZERO, turn: Turn::OtherDrafter };
                assert_eq!(route.after(&fault(party, kind), progress), Some(expected));
                assert_eq!(route.failovers(), 1);
            }
        }
    }

    #[test]
    fn a_sequence_that_several_drafters_fail_does_without_one() {
        let (mut route, gone) = (Route::default(), fault(Party::Drafter, FaultKind::Gone));
        let turns = [0; 3].map(|_| turn(&mut route, &gone));
        assert_eq!(turns, [Turn::OtherDrafter, Turn::OtherDrafter, Turn::Ngram].map(Some));
    }

    #[test]
    fn a_drafter_is_kept_when_a_verifier_is_lost_but_only_once() {
        let (mut route, gone) = (Route::default(), fault(Party::Verifier, FaultKind::Gone));
        assert_eq!(turn(&mut route, &fault(Party::Drafter, FaultKind::Gone)), Some(Turn::OtherDrafter));
        assert_eq!(route.after(&gone, DRAFTED), Some(Detour { pause: PAUSE_MIN, turn: Turn::Again }));
        assert_eq!(route.after(&gone, DRAFTED), Some(Detour { pause: 2 * PAUSE_MIN, turn: Turn::Ngram }));
    }

    #[test]
    fn a_full_verifier_is_waited_for_only_in_mid_text() {
        let full = fault(Party::Verifier, FaultKind::Overloaded).retry_after(Duration::from_millis(250));
        assert_eq!(Route::default().after(&full, Progress { begun: false, ..ALONE }), None);
        assert_eq!(Route::default().after(&full, ALONE).map(|detour| detour.pause), full.retry_after);
    }

    #[test]
    fn another_verifier_is_asked_at_once_when_one_is_full_and_the_drafter_stays() {
        let full = fault(Party::Verifier, FaultKind::Overloaded).retry_after(Duration::from_millis(250));
        let (mut route, fresh) = (Route::default(), Progress { begun: false, elsewhere: true, ..DRAFTED });
        let at_once = Detour { pause: Duration::ZERO, turn: Turn::Again };
        assert_eq!([0; 2].map(|_| route.after(&full, fresh)), [Some(at_once); 2]);
        assert_eq!(route.after(&full, Progress { elsewhere: false, ..fresh }), None);
    }

    #[test]
    fn what_would_fail_again_fails_at_once() {
        for (party, kind) in [
            (Party::Verifier, FaultKind::Late),
            (Party::Verifier, FaultKind::Cancelled),
            (Party::Verifier, FaultKind::Internal),
            (Party::Client, FaultKind::BadInput),
        ] {
            assert_eq!(Route::default().after(&fault(party, kind), ALONE), None);
        }
    }
}
