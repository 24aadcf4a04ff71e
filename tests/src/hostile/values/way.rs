//! Ways to spoil a message.

use prost::Message;

use espalier_fuzz::Dice;

/// What must become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hostile) enum Must {
    /// It is refused because of what it says.
    Refuse,
    /// It may be refused or answered.
    Any,
}

/// A way to spoil a message, and what must become of it then.
pub(super) struct Way<T> {
    must: Must,
    spoil: fn(&mut T, &mut Dice),
}

impl<T> Clone for Way<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Way<T> {}

/// A way that must be refused.
pub(super) const fn refused<T>(spoil: fn(&mut T, &mut Dice)) -> Way<T> {
    Way { must: Must::Refuse, spoil }
}

/// A way that is odd, and may be allowed.
pub(super) const fn odd<T>(spoil: fn(&mut T, &mut Dice)) -> Way<T> {
    Way { must: Must::Any, spoil }
}

/// Spoils a message in one of several ways.
pub(super) fn spoiled<T>(mut message: T, ways: &[Way<T>], dice: &mut Dice) -> Spoiled<T> {
    let way = *dice.pick(ways);
    (way.spoil)(&mut message, dice);
    Spoiled { message, must: way.must }
}

/// A message that was spoiled.
pub(in crate::hostile) struct Spoiled<T> {
    pub(in crate::hostile) message: T,
    pub(in crate::hostile) must: Must,
}

impl<T: Message> Spoiled<T> {
    /// As it goes over the wire.
    pub(super) fn encoded(self) -> Spoiled<Vec<u8>> {
        Spoiled { message: self.message.encode_to_vec(), must: self.must }
    }
}

/// A text of up to so many bytes.
pub(super) fn long(dice: &mut Dice, most: usize) -> String {
    "All work and no play. ".repeat(1 + dice.below(most / 22))
}
