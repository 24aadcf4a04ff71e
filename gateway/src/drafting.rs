//! Who proposes for a sequence: who is wanted, who may, and who does.

use espalier_proto::DrafterCard;

use crate::directory::Directory;
use crate::peers::{Held, Peer};
use crate::validate::ValidRequest;
use crate::wanted::{NGRAM, NOBODY, Wanted};

/// Who proposes at present.
#[derive(Debug)]
pub(crate) enum Drafting {
    /// A draft model.
    Model(Held<DrafterCard>),
    /// What followed before.
    Ngram,
    /// Nobody: plain decoding.
    Nobody,
}

impl Drafting {
    /// The name that clients are told.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Model(drafter) => &drafter.card().name,
            Self::Ngram => NGRAM,
            Self::Nobody => NOBODY,
        }
    }

    /// What the drafter at work says of itself, if one is.
    pub(crate) fn card(&self) -> Option<&DrafterCard> {
        Some(self.held()?.card())
    }

    /// The drafter at work, if one is.
    pub(crate) fn drafter(&self) -> Option<&Peer<DrafterCard>> {
        Some(self.held()?.peer())
    }

    /// The same, with its place there.
    pub(crate) fn held(&self) -> Option<&Held<DrafterCard>> {
        match self {
            Self::Model(drafter) => Some(drafter),
            Self::Ngram | Self::Nobody => None,
        }
    }

    /// Finds who proposes for a request: a drafter that answers, suits, and is none of the `failed` ones, by their
    /// URLs; n-grams where there is none.
    pub(crate) fn find(request: &ValidRequest, directory: &Directory, failed: &[String]) -> Self {
        if request.wanted == Wanted::Nobody {
            return Self::Nobody;
        }
        let suits = |peer: &Peer<DrafterCard>, card: &DrafterCard| {
            request.wanted.includes(card)
                && !failed.iter().any(|url| url == peer.url())
                && request.check_drafter(card).is_ok()
        };
        directory.drafter(request.key, suits).map_or(Self::Ngram, Self::Model)
    }
}
