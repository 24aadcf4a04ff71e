//! A constraint that has been understood.

use std::sync::Arc;

use espalier_speculation::{ConstraintKind, Restriction, Token};
use llguidance::Matcher;

use crate::error::ConstraintError;
use crate::follower::Follower;
use crate::vocabulary::Vocabulary;

/// A compiled constraint: texts begin with a copy of it.
pub struct Compiled {
    kind: ConstraintKind,
    /// At the beginning of a text.
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Compiled {
    pub(crate) fn new(kind: ConstraintKind, matcher: Matcher, vocabulary: Arc<Vocabulary>) -> Self {
        Self { kind, matcher, vocabulary }
    }

    /// Follows a text of which `generated` is there already, and which any of the tokens `ends` ends.
    ///
    /// # Errors
    /// [`ConstraintError::Broken`]: what is there is not allowed.
    pub fn follow(&self, generated: &[Token], ends: &[Token]) -> Result<Follower, ConstraintError> {
        // A copy shares nothing that grows: what one text takes is not taken from another.
        let mut follower = Follower::new(self.matcher.deep_clone(), Arc::clone(&self.vocabulary), ends);
        if let Some(place) = follower.breaks_at(generated) {
            let token = generated[place];
            return Err(ConstraintError::Broken { kind: self.kind, token, place });
        }
        follower.push(generated);
        Ok(follower)
    }
}
