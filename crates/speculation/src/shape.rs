//! How sure a drafter is.

/// The shape of a draft distribution `q` over the whole vocabulary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The greatest probability of `q`.
    pub confidence: f64,
    /// Entropy of `q` in nats.
    pub entropy: f64,
}
