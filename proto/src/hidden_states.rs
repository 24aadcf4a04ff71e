//! A target's hidden states on their way to a drafter that reads them.

use half::bf16;

use crate::common::{at_least_one, check_length, wire_count};
use crate::error::WireError;
use crate::pb;
use crate::verifier_card::Model;

/// The most bytes of hidden states that one message carries.
pub const STATES_BYTES_MAX: usize = 1 << 20;

/// The most numbers of one state, so that every message has room for one.
const STATE_WIDTH_MAX: usize = STATES_BYTES_MAX / size_of::<bf16>();

/// Where a model's hidden states are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tap {
    /// The layer, counted from 1, after which the residual stream is read.
    pub layer: usize,
    /// The width of the stream.
    pub width: usize,
}

impl Tap {
    /// Reads what is asked of `model`.
    pub(crate) fn read(wire: pb::Tap, model: &Model) -> Result<Self, WireError> {
        let field = "hidden_states.layer";
        let (layer, width) = (at_least_one(field, wire.layer)?, wire.width as usize);
        check_length(field, layer, model.layers)?;
        check_length("hidden_states.width", width, STATE_WIDTH_MAX)?;
        check_width(width, model.hidden_size)?;
        Ok(Self { layer, width })
    }
}

impl From<Tap> for pb::Tap {
    fn from(tap: Tap) -> Self {
        Self { layer: wire_count(tap.layer), width: wire_count(tap.width) }
    }
}

fn check_width(found: usize, expected: usize) -> Result<(), WireError> {
    if found == expected { Ok(()) } else { Err(WireError::StatesWidth { found, expected }) }
}

/// The hidden states of positions in a row, each rounded to bfloat16.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenStates {
    first: usize,
    width: usize,
    /// (rows, width)
    values: Vec<bf16>,
}

impl HiddenStates {
    /// No states yet; the first is to be that of position `first`. A state has `width` numbers, at least one.
    pub fn new(first: usize, width: usize) -> Self {
        Self { first, width: width.max(1), values: Vec::new() }
    }

    /// The position of the first.
    pub fn first(&self) -> usize {
        self.first
    }

    /// One more than the position of the last.
    pub fn end(&self) -> usize {
        self.first + self.rows()
    }

    /// Number of states.
    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// Bytes of one state.
    pub fn row_bytes(&self) -> usize {
        self.width * size_of::<bf16>()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// Adds the state (width) of the next position.
    pub fn push(&mut self, state: &[f32]) {
        self.values.extend(state.iter().copied().map(bf16::from_f32));
    }

    /// Adds the states of the next positions.
    ///
    /// # Errors
    /// [`WireError::StatesWidth`], and [`WireError::StatesOrder`] if they are not those of the next positions.
    pub fn append(&mut self, next: Self) -> Result<(), WireError> {
        check_width(next.width, self.width)?;
        let (found, expected) = (next.first, self.end());
        if found != expected {
            return Err(WireError::StatesOrder { found, expected });
        }
        self.values.extend(next.values);
        Ok(())
    }

    /// The first `rows` states, or as many as there are.
    #[must_use]
    pub fn front(&self, rows: usize) -> Self {
        let values = self.values[..rows.min(self.rows()) * self.width].to_vec();
        Self { first: self.first, width: self.width, values }
    }

    /// Takes the first `rows` states away, or as many as there are.
    #[must_use]
    pub fn split_front(&mut self, rows: usize) -> Self {
        let rows = rows.min(self.rows());
        let rest = self.values.split_off(rows * self.width);
        let values = std::mem::replace(&mut self.values, rest);
        let front = Self { first: self.first, width: self.width, values };
        self.first += rows;
        front
    }

    /// The states (rows, width) as numbers that models compute with.
    pub fn to_f32(&self) -> Vec<f32> {
        self.values.iter().map(|value| value.to_f32()).collect()
    }

    /// The last state (width) as numbers that models compute with; none if there are no states.
    pub fn last(&self) -> Option<Vec<f32>> {
        let last = self.values.chunks_exact(self.width).next_back()?;
        Some(last.iter().map(|value| value.to_f32()).collect())
    }

    /// The same in pieces of at most [`STATES_BYTES_MAX`]; none if there are no states.
    pub(crate) fn into_pieces(self) -> Vec<Self> {
        let rows = (STATE_WIDTH_MAX / self.width).max(1);
        let chunks = self.values.chunks(rows * self.width).enumerate();
        let piece = |(i, values): (usize, &[bf16])| Self {
            first: self.first + i * rows,
            width: self.width,
            values: values.to_vec(),
        };
        chunks.map(piece).collect()
    }
}

impl From<HiddenStates> for pb::HiddenStates {
    fn from(states: HiddenStates) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(&states.values[..]));
        states.values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        Self { first_position: wire_count(states.first), width: wire_count(states.width), states: bytes }
    }
}

impl TryFrom<pb::HiddenStates> for HiddenStates {
    type Error = WireError;

    fn try_from(wire: pb::HiddenStates) -> Result<Self, WireError> {
        let width = at_least_one("hidden_states.width", wire.width)?;
        let bytes = wire.states.len();
        check_length("hidden_states.states", bytes, STATES_BYTES_MAX)?;
        if bytes == 0 || !bytes.is_multiple_of(size_of::<bf16>() * width) {
            return Err(WireError::StatesBytes { bytes, width });
        }
        let (pairs, _) = wire.states.as_chunks();
        let values: Vec<bf16> = pairs.iter().copied().map(bf16::from_le_bytes).collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(WireError::State {
                position: wire.first_position as usize + at / width,
                value: values[at].to_f32(),
            });
        }
        Ok(Self { first: wire.first_position as usize, width, values })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn states(first: usize, values: &[f32]) -> HiddenStates {
        let mut states = HiddenStates::new(first, 2);
        values.chunks(2).for_each(|state| states.push(state));
        states
    }

    #[test]
    fn states_survive_the_wire_as_bfloat16() {
        let sent = states(3, &[1.0, -0.5, 3.140_625, 1e-3]);
        let read = HiddenStates::try_from(pb::HiddenStates::from(sent.clone())).unwrap();
        assert_eq!((read.first(), read.end(), read.rows()), (3, 5, 2));
        assert_eq!(read, sent);
        let found = read.to_f32();
        assert_eq!(found[..3], [1.0, -0.5, 3.140_625]);
        assert!((found[3] - 1e-3).abs() < 4e-6);
    }

    #[test]
    fn states_are_joined_in_order_only() {
        let mut known = states(0, &[1.0, 2.0]);
        known.append(states(1, &[3.0, 4.0, 5.0, 6.0])).unwrap();
        assert_eq!(known, states(0, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        for first in [2, 4] {
            let gap = known.append(states(first, &[7.0, 8.0])).unwrap_err().to_string();
            assert_eq!(gap, format!("the hidden states of position {first} came where those of 3 were expected"));
        }
        let wide = known.append(HiddenStates::new(3, 4)).unwrap_err().to_string();
        assert_eq!(wide, "hidden states are 4 wide where 2 were expected");
        assert_eq!(known.front(2), states(0, &[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(known.split_front(2), states(0, &[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(known.front(2), states(2, &[5.0, 6.0]));
        assert_eq!(known.split_front(2), states(2, &[5.0, 6.0]));
        assert_eq!((known.first(), known.rows()), (3, 0));
        assert_eq!((states(5, &[1.0, 2.0, 3.0, 4.0]).last(), known.last()), (Some(vec![3.0, 4.0]), None));
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let refusal = |width, states: &[u8]| {
            let wire = pb::HiddenStates { first_position: 7, width, states: states.to_vec() };
            HiddenStates::try_from(wire).unwrap_err().to_string()
        };
        assert_eq!(refusal(0, &[0; 4]), "hidden_states.width is 0, below the minimum of 1");
        for (bytes, width) in [(0, 2), (3, 1), (6, 2)] {
            let told = format!("{bytes} bytes are no hidden states of {width} numbers each");
            assert_eq!(refusal(width, &vec![0; bytes]), told);
        }
        let [low, high] = bf16::INFINITY.to_le_bytes();
        assert_eq!(refusal(1, &[0, 0, low, high]), "the hidden state of position 8 holds inf");
        let much = "hidden_states.states is 1048578, beyond the limit of 1048576";
        assert_eq!(refusal(1, &vec![0; STATES_BYTES_MAX + 2]), much);
    }

    proptest! {
        // A case is megabytes.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn pieces_are_small_and_make_the_whole(rows in 0..9usize, width in STATE_WIDTH_MAX / 4..STATE_WIDTH_MAX) {
            let mut whole = HiddenStates::new(5, width);
            (0..rows).for_each(|row| whole.push(&vec![row as f32; width]));
            let mut joined = HiddenStates::new(5, width);
            for piece in whole.clone().into_pieces() {
                prop_assert!(piece.rows() > 0 && pb::HiddenStates::from(piece.clone()).states.len() <= STATES_BYTES_MAX);
                joined.append(piece).unwrap();
            }
            prop_assert_eq!(joined, whole);
        }
    }
}
