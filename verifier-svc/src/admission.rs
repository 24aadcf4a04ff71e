//! Who gets in.

use std::collections::BTreeMap;
use std::sync::Arc;

use espalier_proto::{SequenceId, Slots};
use parking_lot::Mutex;

use crate::error::VerifierError;

/// Hands out a fixed number of slots, and never makes anybody wait: who finds none is refused at once, before anything was
/// computed. Who opens a sequence that is open already takes over the slot of the stream that it ends: that stream may be
/// one of a peer that was stopped, and all slots may be held by such.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    held: Arc<Mutex<Held>>,
    limit: usize,
}

/// Slots that were handed out: of each sequence one, or two while one stream takes it over from another.
type Held = BTreeMap<SequenceId, usize>;

/// A sequence's slot; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    held: Arc<Mutex<Held>>,
    sequence: SequenceId,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// How many sequences are open, of how many.
    pub(crate) fn slots(&self) -> Slots {
        Slots { open: self.held.lock().len(), max: self.limit }
    }

    /// A slot, or [`VerifierError::Full`].
    pub(crate) fn admit(&self, sequence: &SequenceId) -> Result<Slot, VerifierError> {
        let mut held = self.held.lock();
        let own = held.get(sequence).copied().unwrap_or(0);
        if own > 1 || (own == 0 && held.len() >= self.limit) {
            return Err(VerifierError::Full { limit: self.limit });
        }
        held.insert(sequence.clone(), own + 1);
        Ok(Slot { held: Arc::clone(&self.held), sequence: sequence.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        match held.get_mut(&self.sequence) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.sequence)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn id(number: u128) -> SequenceId {
        SequenceId::from(number)
    }

    #[test]
    fn a_slot_that_is_given_back_can_be_had_again() {
        let admission = Admission::new(2);
        let first = admission.admit(&id(1)).unwrap();
        let _second = admission.admit(&id(2)).unwrap();
        assert_eq!(admission.admit(&id(3)).unwrap_err(), VerifierError::Full { limit: 2 });
        assert_eq!(admission.slots(), Slots { open: 2, max: 2 });
        drop(first);
        assert_eq!(admission.slots(), Slots { open: 1, max: 2 });
        assert!(admission.admit(&id(3)).is_ok());
    }

    #[test]
    fn a_sequence_that_is_taken_over_needs_no_further_slot() {
        let admission = Admission::new(1);
        let stale = admission.admit(&id(1)).unwrap();
        let taken = admission.admit(&id(1)).unwrap();
        assert_eq!(admission.slots(), Slots { open: 1, max: 1 });
        assert!(admission.admit(&id(1)).is_err(), "one takes over at a time");
        drop(stale);
        assert!(admission.admit(&id(2)).is_err(), "the slot is still held");
        drop(taken);
        assert_eq!(admission.slots(), Slots { open: 0, max: 1 });
        assert!(admission.admit(&id(2)).is_ok());
    }
}
