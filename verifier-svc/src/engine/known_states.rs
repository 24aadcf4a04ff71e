//! Hidden states of texts that were read lately, for sequences that begin alike.
//!
//! Keys and values of a common beginning are found in the pool, but a sequence whose drafter reads hidden states needs
//! those of every position too: it can share what both are known of.

use std::collections::VecDeque;
use std::sync::Arc;

use espalier_model::Tenant;
use espalier_proto::{HiddenStates, Tap};
use espalier_speculation::Token;
use parking_lot::{Mutex, MutexGuard};

/// The most memory for them. Of a longer text its beginning is kept; those kept longest make room.
const BYTES_MAX: usize = 64 << 20;

/// What all sequences of a target know. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct KnownStates(Arc<Mutex<Texts>>);

#[derive(Default)]
struct Texts {
    /// Oldest first.
    texts: VecDeque<Text>,
    bytes: usize,
}

/// Of which states a text is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// Whose texts: others are not to learn what they are.
    pub(super) tenant: Tenant,
    /// After which layer.
    pub(super) layer: usize,
}

struct Text {
    origin: Origin,
    tokens: Vec<Token>,
    /// One for each of the tokens.
    states: HiddenStates,
}

impl KnownStates {
    /// The states of the longest beginning of `tokens` that is known; perhaps of none.
    pub(super) fn find(&self, tenant: Tenant, tap: Tap, tokens: &[Token]) -> HiddenStates {
        let (texts, origin) = (self.lock(), Origin { tenant, layer: tap.layer });
        let of_origin = texts.texts.iter().rev().filter(|text| text.origin == origin);
        let best = of_origin.map(|text| (text.common(tokens), text)).max_by_key(|(common, _)| *common);
        best.map_or(HiddenStates::new(0, tap.width), |(common, text)| text.states.front(common))
    }

    /// Keeps the states of the first tokens of a text, as far as there are any.
    pub(super) fn keep(&self, origin: Origin, tokens: &[Token], states: &HiddenStates) {
        let rows = tokens.len().min(states.rows()).min(BYTES_MAX / states.row_bytes());
        let tokens = &tokens[..rows];
        let mut texts = self.lock();
        if texts.texts.iter().any(|text| text.origin == origin && text.common(tokens) == rows) {
            return;
        }
        let states = states.front(rows);
        texts.bytes += states.bytes();
        texts.texts.push_back(Text { origin, tokens: tokens.to_vec(), states });
        while texts.bytes > BYTES_MAX
            && let Some(oldest) = texts.texts.pop_front()
        {
            texts.bytes -= oldest.states.bytes();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        self.0.lock()
    }
}

impl Text {
    /// How many tokens it has in common with the beginning of others.
    fn common(&self, tokens: &[Token]) -> usize {
        self.tokens.iter().zip(tokens).take_while(|(own, other)| own == other).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAP: Tap = Tap { layer: 3, width: 1 };
    const TENANT: Tenant = Tenant(1);
    const ORIGIN: Origin = Origin { tenant: TENANT, layer: TAP.layer };

    /// A state for each token, which tells it.
    fn states(tokens: &[Token]) -> HiddenStates {
        let mut states = HiddenStates::new(0, 1);
        tokens.iter().for_each(|&token| states.push(&[token as f32]));
        states
    }

    #[test]
    fn the_longest_common_beginning_is_found() {
        let known = KnownStates::default();
        assert_eq!(known.find(TENANT, TAP, &[1, 2]), HiddenStates::new(0, 1));
        for text in [&[1, 2, 3, 4][..], &[1, 2, 5], &[9]] {
            known.keep(ORIGIN, text, &states(text));
        }
        for (text, common) in [(&[1, 2, 3, 7][..], 3), (&[1, 2, 5, 6], 3), (&[1], 1), (&[7], 0)] {
            assert_eq!(known.find(TENANT, TAP, text), states(&text[..common]));
        }
        assert_eq!(
            known.find(TENANT, Tap { layer: 2, ..TAP }, &[1, 2]).rows(),
            0,
            "states of another layer are others"
        );
        assert_eq!(known.find(Tenant(2), TAP, &[1, 2]).rows(), 0, "another tenant is not to know");
    }

    #[test]
    fn memory_is_bounded_and_what_is_known_takes_none() {
        let known = KnownStates::default();
        let mut wide = HiddenStates::new(0, 1 << 20);
        (0..4).for_each(|_| wide.push(&vec![0.5; 1 << 20]));
        for first in 0..20 {
            known.keep(ORIGIN, &[first, 7, 7, 7], &wide);
            known.keep(ORIGIN, &[first, 7], &wide);
        }
        let texts = known.lock();
        assert_eq!((texts.texts.len(), texts.bytes), (8, BYTES_MAX));
        assert_eq!(texts.texts.front().map(|text| text.tokens[0]), Some(12));
    }
}
