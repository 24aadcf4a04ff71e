//! Hidden states of texts that were read lately, for sequences that begin alike.
//!
//! Keys and values of a common beginning are found in the pool, but a sequence whose drafter reads hidden states needs
//! those of every position too: it can share what both are known of.

use std::collections::VecDeque;
use std::sync::Arc;

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

struct Text {
    layer: usize,
    tokens: Vec<Token>,
    /// One for each of the tokens.
    states: HiddenStates,
}

impl KnownStates {
    /// The states of the longest beginning of `tokens` that is known; perhaps of none.
    pub(super) fn find(&self, tap: Tap, tokens: &[Token]) -> HiddenStates {
        let texts = self.lock();
        let of_layer = texts.texts.iter().rev().filter(|text| text.layer == tap.layer);
        let best = of_layer.map(|text| (text.common(tokens), text)).max_by_key(|(common, _)| *common);
        best.map_or(HiddenStates::new(0, tap.width), |(common, text)| text.states.front(common))
    }

    /// Keeps the states of the first tokens of a text, as far as there are any.
    pub(super) fn keep(&self, layer: usize, tokens: &[Token], states: &HiddenStates) {
        let rows = tokens.len().min(states.rows()).min(BYTES_MAX / states.row_bytes());
        let tokens = &tokens[..rows];
        let mut texts = self.lock();
        if texts.texts.iter().any(|text| text.layer == layer && text.common(tokens) == rows) {
            return;
        }
        let states = states.front(rows);
        texts.bytes += states.bytes();
        texts.texts.push_back(Text { layer, tokens: tokens.to_vec(), states });
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

    /// A state for each token, which tells it.
    fn states(tokens: &[Token]) -> HiddenStates {
        let mut states = HiddenStates::new(0, 1);
        tokens.iter().for_each(|&token| states.push(&[token as f32]));
        states
    }

    #[test]
    fn the_longest_common_beginning_is_found() {
        let known = KnownStates::default();
        assert_eq!(known.find(TAP, &[1, 2]), HiddenStates::new(0, 1));
        for text in [&[1, 2, 3, 4][..], &[1, 2, 5], &[9]] {
            known.keep(TAP.layer, text, &states(text));
        }
        for (text, common) in [(&[1, 2, 3, 7][..], 3), (&[1, 2, 5, 6], 3), (&[1], 1), (&[7], 0)] {
            assert_eq!(known.find(TAP, text), states(&text[..common]));
        }
        assert_eq!(known.find(Tap { layer: 2, ..TAP }, &[1, 2]).rows(), 0, "states of another layer are others");
    }

    #[test]
    fn memory_is_bounded_and_what_is_known_takes_none() {
        let known = KnownStates::default();
        let mut wide = HiddenStates::new(0, 1 << 20);
        (0..4).for_each(|_| wide.push(&vec![0.5; 1 << 20]));
        for first in 0..20 {
            known.keep(1, &[first, 7, 7, 7], &wide);
            known.keep(1, &[first, 7], &wide);
        }
        let texts = known.lock();
        assert_eq!((texts.texts.len(), texts.bytes), (8, BYTES_MAX));
        assert_eq!(texts.texts.front().map(|text| text.tokens[0]), Some(12));
    }
}
