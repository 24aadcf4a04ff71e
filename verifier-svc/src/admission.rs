//! Who gets in.

use std::sync::Arc;

use espalier_proto::Places;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::VerifierError;

/// A sequence's place; given back when dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// Hands out a fixed number of places, and never makes anybody wait: who finds
/// none is refused at once, before anything was computed.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    limit: usize,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(limit)), limit }
    }

    /// How many places are taken, of how many.
    pub(crate) fn places(&self) -> Places {
        Places { open: self.limit.saturating_sub(self.places.available_permits()), max: self.limit }
    }

    /// A place, or [`VerifierError::Full`].
    pub(crate) fn admit(&self) -> Result<Place, VerifierError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| VerifierError::Full { limit: self.limit })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_place_that_is_given_back_can_be_had_again() {
        let admission = Admission::new(2);
        let first = admission.admit().unwrap();
        let _second = admission.admit().unwrap();
        assert_eq!(admission.admit().unwrap_err(), VerifierError::Full { limit: 2 });
        assert_eq!(admission.places(), Places { open: 2, max: 2 });
        drop(first);
        assert_eq!(admission.places(), Places { open: 1, max: 2 });
        assert!(admission.admit().is_ok());
    }
}
