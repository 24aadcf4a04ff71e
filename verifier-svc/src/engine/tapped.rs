//! Hidden states of a sequence that were asked for.

use espalier_proto::HiddenStates;
use espalier_speculation::Token;

use super::known_states::{KnownStates, Origin};

/// Hidden states that were asked for.
pub(super) struct Tapped {
    /// After which layer, counted from 1, they are read, and of whose texts.
    pub(super) origin: Origin,
    /// Those of committed positions that have not been sent.
    pub(super) unsent: HiddenStates,
    /// Where those of the prompt are kept, until they are.
    pub(super) keeps: Option<KnownStates>,
}

impl Tapped {
    /// Takes the states of the positions that come next; `run` is all that has been run of the text, or is about to be.
    pub(super) fn keep<'s>(&mut self, states: impl Iterator<Item = &'s [f32]>, run: &[Token]) {
        states.for_each(|state| self.unsent.push(state));
        if self.unsent.end() >= run.len()
            && let Some(known) = self.keeps.take()
        {
            known.keep(self.origin, run, &self.unsent);
        }
    }

    /// The states that have not been sent.
    pub(super) fn take_unsent(&mut self) -> HiddenStates {
        self.unsent.split_front(self.unsent.rows())
    }
}
