//! What to do when a sequence has lost the service that ran it.

use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Party};
use tokio::time::Instant;

/// How long a sequence is opened again without coming any further.
const PATIENCE: Duration = Duration::from_secs(15);

/// Draft models that may fail a sequence, without its coming any further, before it does without one: what ails each of
/// them may be the sequence.
const DRAFTERS_MAX: u32 = 3;

/// The pause before a sequence that has lost its verifier looks for one; it doubles with each one that is lost.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause between two tries.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause before a draft model is looked for that a sequence has to do without; it doubles each time.
const OFFER_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest such pause.
const OFFER_PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a sequence has been through.
#[derive(Debug, Default)]
pub struct Route {
    /// How often it was opened again.
    failovers: u32,
    /// Of these since it came further the last time: after losses of drafters, and of verifiers.
    drafters_lost: u32,
    verifiers_lost: u32,
    /// When the first of them was.
    stuck_since: Option<Instant>,
}

/// When a sequence that has to do without a draft model is offered one again.
#[derive(Debug, Default)]
pub struct Offers {
    /// The next time, and the pause before it.
    due: Option<(Instant, Duration)>,
}

/// How far a sequence has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// A draft model proposes for it.
    pub drafted: bool,
    /// The client has got tokens already.
    pub begun: bool,
    /// There is a verifier that answers and has not refused it.
    pub elsewhere: bool,
}

/// How a sequence goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detour {
    /// It is opened again after so much time.
    pub pause: Duration,
    /// Who proposes from then on.
    pub turn: Turn,
}

/// Who is to propose after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Whoever did.
    Again,
    /// Another draft model, or n-grams if there is none.
    OtherDrafter,
    /// N-grams.
    Ngram,
}

impl Route {
    /// How often the sequence was opened again.
    pub fn failovers(&self) -> u32 {
        self.failovers
    }

    /// The sequence is opened again elsewhere though it has lost nothing.
    pub fn moved(&mut self) {
        self.failovers += 1;
    }

    /// The sequence has come further: what it lost before counts no more.
    pub fn came_further(&mut self) {
        *self = Self { failovers: self.failovers, ..Self::default() };
    }

    /// Until when a sequence that finds nobody to open it may wait, having come no further since then.
    pub fn patient_until(&mut self, now: Instant) -> Instant {
        *self.stuck_since.get_or_insert(now) + PATIENCE
    }

    /// Decides how to go on after `fault`; nothing if the sequence must fail: where no other way may serve, or it has not
    /// come any further for 15 seconds. Where all verifiers are full, only a sequence that has begun waits for one.
    pub fn after(&mut self, fault: &Fault, progress: Progress, now: Instant) -> Option<Detour> {
        let stuck_since = *self.stuck_since.get_or_insert(now);
        if now.saturating_duration_since(stuck_since) >= PATIENCE || !may_go_on(fault, progress) {
            return None;
        }
        let detour = match fault.party {
            Party::Verifier if is_refusal(fault) && progress.elsewhere => {
                Detour { pause: Duration::ZERO, turn: Turn::Again }
            }
            Party::Verifier => Detour { pause: self.pause(fault), turn: self.turn_without_verifier(progress) },
            _ => Detour { pause: Duration::ZERO, turn: self.turn_without_drafter() },
        };
        match fault.party {
            Party::Verifier => self.verifiers_lost += 1,
            _ => self.drafters_lost += 1,
        }
        self.failovers += 1;
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

impl Offers {
    /// Whether a draft model is to be looked for now, by a sequence that is `without` one.
    pub fn are_due(&mut self, without: bool, now: Instant) -> bool {
        if !without {
            self.due = None;
            return false;
        }
        let (due, pause) = *self.due.get_or_insert((now + OFFER_PAUSE_MIN, OFFER_PAUSE_MIN));
        if now < due {
            return false;
        }
        let pause = pause.saturating_mul(2).min(OFFER_PAUSE_MAX);
        self.due = Some((now + pause, pause));
        true
    }
}

/// Whether a verifier answered, and did not serve a sequence: for want of room, or of a fault of its own.
pub fn is_refusal(fault: &Fault) -> bool {
    fault.party == Party::Verifier && matches!(fault.kind, FaultKind::Overloaded | FaultKind::Internal)
}

/// Whether another way may serve where this one failed: a verifier that was lost
/// may be back, or have a sibling; and whatever ails a drafter, a target can do
/// without it.
fn may_go_on(fault: &Fault, progress: Progress) -> bool {
    match (fault.kind, fault.party) {
        (FaultKind::Late | FaultKind::Cancelled, _) => false,
        (FaultKind::Overloaded, Party::Verifier) => progress.begun || progress.elsewhere,
        (FaultKind::Gone | FaultKind::LostSequence, Party::Verifier) => true,
        (FaultKind::Internal, Party::Verifier) => progress.elsewhere,
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

    /// What a route that has just begun does after a fault.
    fn after(route: &mut Route, fault: &Fault, progress: Progress) -> Option<Detour> {
        route.after(fault, progress, Instant::now())
    }

    fn turn(route: &mut Route, fault: &Fault) -> Option<Turn> {
        after(route, fault, DRAFTED).map(|detour| detour.turn)
    }

    #[test]
    fn a_lost_verifier_is_tried_again_with_growing_pauses_as_long_as_patience_lasts() {
        let (mut route, begun) = (Route::default(), Instant::now());
        let gone = fault(Party::Verifier, FaultKind::Gone);
        let mut waited = Duration::ZERO;
        let pauses: Vec<u128> = std::iter::from_fn(|| {
            let pause = route.after(&gone, ALONE, begun + waited)?.pause;
            waited += pause;
            Some(pause.as_millis())
        })
        .collect();
        assert_eq!(pauses[..8], [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!((waited.as_secs(), route.failovers()), (PATIENCE.as_secs(), pauses.len() as u32));
    }

    #[test]
    fn who_comes_further_has_all_the_patience_again() {
        let (mut route, begun) = (Route::default(), Instant::now());
        let gone = fault(Party::Verifier, FaultKind::Gone);
        for round in 0..100 {
            let detour = route.after(&gone, ALONE, begun + PATIENCE * round);
            assert_eq!(detour.map(|detour| detour.pause), Some(PAUSE_MIN));
            route.came_further();
        }
        assert_eq!(route.failovers(), 100);
    }

    #[test]
    fn who_is_without_a_draft_model_looks_for_one_less_and_less_often() {
        let (mut offers, begun) = (Offers::default(), Instant::now());
        let seconds: Vec<u64> = (0..100).filter(|s| offers.are_due(true, begun + Duration::from_secs(*s))).collect();
        assert_eq!(seconds, [1, 3, 7, 15, 31, 61, 91]);
        assert!(!offers.are_due(false, begun + Duration::from_secs(200)));
        assert!(!offers.are_due(true, begun + Duration::from_secs(201)), "from the beginning again");
    }

    #[test]
    fn a_verifier_s_own_fault_is_none_of_its_replicas() {
        let broken = fault(Party::Verifier, FaultKind::Internal);
        let elsewhere = Progress { elsewhere: true, ..ALONE };
        let at_once = Detour { pause: Duration::ZERO, turn: Turn::Again };
        assert_eq!(after(&mut Route::default(), &broken, elsewhere), Some(at_once));
        assert_eq!(after(&mut Route::default(), &broken, ALONE), None);
    }

    #[test]
    fn whatever_ails_a_drafter_another_goes_on_at_once() {
        for kind in [FaultKind::Gone, FaultKind::Overloaded, FaultKind::Internal, FaultKind::BadInput] {
            for party in [Party::Drafter, Party::Gateway] {
                let (mut route, progress) = (Route::default(), Progress { begun: false, ..DRAFTED });
                let expected = Detour { pause: Duration::ZERO, turn: Turn::OtherDrafter };
                assert_eq!(after(&mut route, &fault(party, kind), progress), Some(expected));
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
        assert_eq!(after(&mut route, &gone, DRAFTED), Some(Detour { pause: PAUSE_MIN, turn: Turn::Again }));
        assert_eq!(after(&mut route, &gone, DRAFTED), Some(Detour { pause: 2 * PAUSE_MIN, turn: Turn::Ngram }));
    }

    #[test]
    fn a_full_verifier_is_waited_for_only_in_mid_text() {
        let full = fault(Party::Verifier, FaultKind::Overloaded).retry_after(Duration::from_millis(250));
        assert_eq!(after(&mut Route::default(), &full, Progress { begun: false, ..ALONE }), None);
        assert_eq!(after(&mut Route::default(), &full, ALONE).map(|detour| detour.pause), full.retry_after);
    }

    #[test]
    fn another_verifier_is_asked_at_once_when_one_is_full_and_the_drafter_stays() {
        let full = fault(Party::Verifier, FaultKind::Overloaded).retry_after(Duration::from_millis(250));
        let (mut route, fresh) = (Route::default(), Progress { begun: false, elsewhere: true, ..DRAFTED });
        let at_once = Detour { pause: Duration::ZERO, turn: Turn::Again };
        assert_eq!([0; 2].map(|_| after(&mut route, &full, fresh)), [Some(at_once); 2]);
        assert_eq!(after(&mut route, &full, Progress { elsewhere: false, ..fresh }), None);
    }

    #[test]
    fn what_would_fail_again_fails_at_once() {
        for (party, kind) in [
            (Party::Verifier, FaultKind::Late),
            (Party::Verifier, FaultKind::Cancelled),
            (Party::Verifier, FaultKind::Internal),
            (Party::Client, FaultKind::BadInput),
        ] {
            assert_eq!(after(&mut Route::default(), &fault(party, kind), ALONE), None);
        }
    }
}
