//! Who a request wants to propose.

use espalier_proto::DrafterCard;

/// Asks for n-gram proposals instead of a draft model's.
pub(crate) const NGRAM: &str = "ngram";

/// Asks for plain decoding.
pub(crate) const NOBODY: &str = "none";

/// Who is to propose, as a request has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any draft model that suits.
    Any,
    /// A draft model of this name.
    Named(String),
    /// What followed before.
    Ngram,
    /// Nobody: plain decoding.
    Nobody,
}

impl Wanted {
    pub(crate) fn new(asked: Option<&str>) -> Self {
        match asked {
            None => Self::Any,
            Some(NGRAM) => Self::Ngram,
            Some(NOBODY) => Self::Nobody,
            Some(name) => Self::Named(name.to_owned()),
        }
    }

    /// Whether a draft model is to propose.
    pub(crate) fn is_model(&self) -> bool {
        matches!(self, Self::Any | Self::Named(_))
    }

    pub(crate) fn includes(&self, card: &DrafterCard) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => *name == card.name,
            Self::Ngram | Self::Nobody => false,
        }
    }
}
