//! How sequences are told apart.

/// A sequence of a request: its life is another each time that it is opened again, so what is late is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) request: u32,
    pub(crate) life: u32,
}

/// Tells sequences of a verifier apart; older ones have smaller numbers.
pub(crate) type Key = u64;
