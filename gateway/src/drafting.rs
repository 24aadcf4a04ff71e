//! Who proposes for a sequence: who is wanted, who may, and who does.

use std::sync::Arc;

use espalier_proto::DrafterCard;

use crate::directory::Directory;
use crate::error::RequestError;
use crate::peers::{Held, Peer};
use crate::validate::{ValidRequest, list};

/// Asks for n-gram proposals instead of a draft model's.
const NGRAM: &str = "ngram";

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

    fn includes(&self, card: &DrafterCard) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => *name == card.name,
            Self::Ngram | Self::Nobody => false,
        }
    }
}

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

    fn held(&self) -> Option<&Held<DrafterCard>> {
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

impl ValidRequest {
    /// A drafter that is asked for by name must be known and suit.
    pub(crate) fn check_wanted(&self, directory: &Directory) -> Result<(), RequestError> {
        let Wanted::Named(name) = &self.wanted else {
            return Ok(());
        };
        let known = directory.drafters();
        let mut named = known.iter().filter(|card| card.name == *name).map(|card| self.check_drafter(card));
        match named.next() {
            None => Err(RequestError::UnknownDrafter { found: name.clone(), known: names(&known) }),
            Some(Err(_)) if named.any(|checked| checked.is_ok()) => Ok(()),
            Some(checked) => checked,
        }
    }

    /// Whether a drafter can follow this target through prompt and answer.
    fn check_drafter(&self, card: &DrafterCard) -> Result<(), RequestError> {
        let (drafter, target) = (card.name.clone(), &self.target.card);
        if card.vocabulary.fingerprint != target.vocabulary.fingerprint {
            return Err(RequestError::Tokenizers { drafter, target: target.name.clone() });
        }
        if let Some(only) = card.only_target.as_ref().filter(|only| only.fingerprint != target.model.fingerprint) {
            let (made_for, expected) = (only.name.clone(), only.fingerprint.clone());
            let (target, found) = (target.name.clone(), target.model.fingerprint.clone());
            return Err(RequestError::OtherTarget { drafter, made_for, expected, target, found });
        }
        let needed = self.prompt.len() + self.max_tokens;
        if needed > card.context {
            return Err(RequestError::DrafterContext { drafter, needed, context: card.context });
        }
        Ok(())
    }
}

/// The drafters that may be asked for; each name once, though several may bear it.
fn names(known: &[Arc<DrafterCard>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in known.iter().map(|card| card.name.as_str()).chain([NGRAM, NOBODY]) {
        if !names.iter().any(|before| before == name) {
            names.push(name.to_owned());
        }
    }
    list(names.into_iter())
}
