//! What a drafter says of itself.

use crate::common::{Vocabulary, at_least_one, check_text, wire_count};
use crate::error::WireError;
use crate::pb;
use crate::sequence::SequenceBounds;
use crate::verifier_card::{MODEL_NAME_BYTES_MAX, VerifierCard, check_arithmetic, check_fingerprint};

/// A draft model, as its service describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrafterCard {
    /// The drafter's name.
    pub name: String,
    /// Its vocabulary.
    pub vocabulary: Vocabulary,
    /// How it drafts: `independent`, `sorted`, `edd` or `early-exit`.
    pub kind: String,
    /// Layers of the checkpoint in use.
    pub layers: usize,
    /// The longest sequence it can follow, in tokens.
    pub context: usize,
    /// The only target it can serve; any of its vocabulary if absent.
    pub only_target: Option<OnlyTarget>,
    /// After how many of its layers it may answer, the last included; at least 1.
    pub exits: usize,
    /// What its products are computed in, like `f32` or `int8`.
    pub arithmetic: String,
}

/// What a drafter that was made for one target knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlyTarget {
    /// Its name when the drafter was made.
    pub name: String,
    /// The fingerprint of its model.
    pub fingerprint: String,
    /// The layer, counted from 1, whose hidden states the drafter reads, if it does.
    pub tapped_layer: Option<usize>,
}

impl DrafterCard {
    /// What sequences on this drafter are held to.
    pub fn bounds(&self) -> SequenceBounds {
        SequenceBounds { vocab: self.vocabulary.size, context: self.context }
    }

    /// Whether it can serve a target: one of its tokenizer, and the only one if it was made for one.
    pub fn suits(&self, target: &VerifierCard) -> bool {
        let only = self.only_target.as_ref();
        self.vocabulary.fingerprint == target.vocabulary.fingerprint
            && only.is_none_or(|only| only.fingerprint == target.model.fingerprint)
    }
}

impl From<DrafterCard> for pb::DescribeDrafterResponse {
    fn from(card: DrafterCard) -> Self {
        Self {
            name: card.name,
            vocabulary: Some(card.vocabulary.into()),
            kind: card.kind,
            layers: wire_count(card.layers),
            context: wire_count(card.context),
            only_target: card.only_target.map(Into::into),
            exits: wire_count(card.exits),
            arithmetic: card.arithmetic,
        }
    }
}

impl TryFrom<pb::DescribeDrafterResponse> for DrafterCard {
    type Error = WireError;

    fn try_from(wire: pb::DescribeDrafterResponse) -> Result<Self, WireError> {
        check_text("name", &wire.name, MODEL_NAME_BYTES_MAX)?;
        check_text("kind", &wire.kind, MODEL_NAME_BYTES_MAX)?;
        check_arithmetic("arithmetic", &wire.arithmetic)?;
        Ok(Self {
            name: wire.name,
            vocabulary: wire.vocabulary.try_into()?,
            kind: wire.kind,
            layers: at_least_one("layers", wire.layers)?,
            context: at_least_one("context", wire.context)?,
            only_target: wire.only_target.map(OnlyTarget::try_from).transpose()?,
            exits: at_least_one("exits", wire.exits)?,
            arithmetic: wire.arithmetic,
        })
    }
}

impl From<OnlyTarget> for pb::OnlyTarget {
    fn from(target: OnlyTarget) -> Self {
        let tapped_layer = target.tapped_layer.map(wire_count);
        Self { name: target.name, fingerprint: target.fingerprint, tapped_layer }
    }
}

impl TryFrom<pb::OnlyTarget> for OnlyTarget {
    type Error = WireError;

    fn try_from(wire: pb::OnlyTarget) -> Result<Self, WireError> {
        check_text("only_target.name", &wire.name, MODEL_NAME_BYTES_MAX)?;
        check_fingerprint("only_target.fingerprint", &wire.fingerprint)?;
        let layer = |layer| at_least_one("only_target.tapped_layer", layer);
        let tapped_layer = wire.tapped_layer.map(layer).transpose()?;
        Ok(Self { name: wire.name, fingerprint: wire.fingerprint, tapped_layer })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::verifier_card::Model;
    use crate::verifier_card::tests::card as target;

    fn only_target() -> OnlyTarget {
        OnlyTarget { name: "medium".to_owned(), fingerprint: "m".to_owned(), tapped_layer: Some(5) }
    }

    fn card(only_target: Option<OnlyTarget>) -> DrafterCard {
        DrafterCard {
            name: "small".to_owned(),
            vocabulary: Vocabulary { size: 4096, fingerprint: "abc".to_owned() },
            kind: "independent".to_owned(),
            layers: 4,
            context: 2048,
            only_target,
            exits: 3,
            arithmetic: "f32".to_owned(),
        }
    }

    #[test]
    fn a_card_survives_the_wire() {
        for card in [card(None), card(Some(only_target()))] {
            let wire = pb::DescribeDrafterResponse::from(card.clone());
            assert_eq!(DrafterCard::try_from(wire), Ok(card));
        }
    }

    #[test]
    fn a_card_whose_target_is_none_is_refused() {
        let refusal = |only_target| {
            let wire = pb::DescribeDrafterResponse::from(card(Some(only_target)));
            DrafterCard::try_from(wire).unwrap_err().to_string()
        };
        let nameless = OnlyTarget { fingerprint: String::new(), ..only_target() };
        assert_eq!(refusal(nameless), "only_target.fingerprint is empty");
        let shallow = OnlyTarget { tapped_layer: Some(0), ..only_target() };
        assert_eq!(refusal(shallow), "only_target.tapped_layer is 0, below the minimum of 1");
    }

    #[test]
    fn a_drafter_that_was_made_for_one_target_serves_no_other() {
        let mut other = target();
        other.model = Model { fingerprint: "n".to_owned(), ..other.model };
        assert!(card(None).suits(&target()) && card(None).suits(&other));
        assert!(card(Some(only_target())).suits(&target()) && !card(Some(only_target())).suits(&other));
        other.vocabulary.fingerprint = "xyz".to_owned();
        assert!(!card(None).suits(&other));
    }
}
