//! Who gets in.

use std::sync::Arc;

use espalier_proto::Slots;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::VerifierError;

/// A sequence's slot; given back when dropped.
pub(crate) type Slot = OwnedSemaphorePermit;

/// Hands out a fixed number of slots, and never makes anybody wait: who finds
/// none is refused at once, before anything was computed.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    limit: usize,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(limit)), limit }
    }

    /// How many slots are taken, of how many.
    pub(crate) fn slots(&self) -> Slots {
        Slots { open: self.limit.saturating_sub(self.slots.available_permits()), max: self.limit }
    }

    /// A slot, or [`VerifierError::Full`].
    pub(crate) fn admit(&self) -> Result<Slot, VerifierError> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        slot.map_err(|_| VerifierError::Full { limit: self.limit })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_slot_that_is_given_back_can_be_had_again() {
        let admission = Admission::new(2);
        let first = admission.admit().unwrap();
        let _second = admission.admit().unwrap();
        assert_eq!(admission.admit().unwrap_err(), VerifierError::Full { limit: 2 });
        assert_eq!(admission.slots(), Slots { open: 2, max: 2 });
        drop(first);
        assert_eq!(admission.slots(), Slots { open: 1, max: 2 });
        assert!(admission.admit().is_ok());
    }
}
