//! What a target says of itself.

use std::time::Duration;

use espalier_speculation::Token;

use crate::common::{Vocabulary, at_least_one, check_length, check_text, required, wire_count, wire_micros};
use crate::error::WireError;
use crate::pb;
use crate::sequence::SequenceBounds;

/// The longest name of a model, in bytes.
pub(crate) const MODEL_NAME_BYTES_MAX: usize = 128;

/// The longest fingerprint of a model, in bytes.
const FINGERPRINT_BYTES_MAX: usize = 128;

/// The longest name of an arithmetic, in bytes.
const ARITHMETIC_BYTES_MAX: usize = 16;

/// End tokens and cost points that a card may list.
const CARD_LIST_MAX: usize = 64;

/// A target model, as its verifier describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierCard {
    /// The target's name.
    pub name: String,
    /// Its vocabulary.
    pub vocabulary: Vocabulary,
    /// Prompt and answer together, in tokens.
    pub context: usize,
    /// The largest tree it takes, in nodes.
    pub tree_nodes_max: usize,
    /// How many sequences it serves at once.
    pub sequences_max: usize,
    /// Tokens with which the model ends its text.
    pub end_tokens: Vec<Token>,
    /// What a verification costs while nothing else runs, fewest rows first.
    pub costs: Vec<RowCost>,
    /// Which model it is.
    pub model: Model,
}

/// What tells a model from every other, and what of its shape matters to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// SHA-256 over configuration and weights, in hexadecimal.
    pub fingerprint: String,
    /// Its layers.
    pub layers: usize,
    /// The width of its hidden states.
    pub hidden_size: usize,
    /// What its products are computed in, like `f32` or `int8`.
    pub arithmetic: String,
    /// The revision of that arithmetic: another one may compute other bits.
    pub revision: u32,
}

impl Model {
    /// Whether it says the same as another, to the bit.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.fingerprint, &self.arithmetic, self.revision) == (&other.fingerprint, &other.arithmetic, other.revision)
    }
}

/// The cost of a forward pass over so many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCost {
    /// Rows of the pass, the root included.
    pub rows: usize,
    /// Median time of the pass.
    pub time: Duration,
}

impl VerifierCard {
    /// What sequences on this verifier are held to.
    pub fn bounds(&self) -> SequenceBounds {
        SequenceBounds { vocab: self.vocabulary.size, context: self.context }
    }
}

impl From<VerifierCard> for pb::DescribeVerifierResponse {
    fn from(card: VerifierCard) -> Self {
        let cost = |cost: RowCost| pb::MeasuredCost { rows: wire_count(cost.rows), time_us: wire_micros(cost.time) };
        Self {
            name: card.name,
            vocabulary: Some(card.vocabulary.into()),
            context: wire_count(card.context),
            tree_nodes_max: wire_count(card.tree_nodes_max),
            sequences_max: wire_count(card.sequences_max),
            end_tokens: card.end_tokens,
            costs: card.costs.into_iter().map(cost).collect(),
            model: Some(card.model.into()),
        }
    }
}

impl TryFrom<pb::DescribeVerifierResponse> for VerifierCard {
    type Error = WireError;

    fn try_from(wire: pb::DescribeVerifierResponse) -> Result<Self, WireError> {
        check_text("name", &wire.name, MODEL_NAME_BYTES_MAX)?;
        check_length("end_tokens", wire.end_tokens.len(), CARD_LIST_MAX)?;
        check_length("costs", wire.costs.len(), CARD_LIST_MAX)?;
        Ok(Self {
            name: wire.name,
            vocabulary: wire.vocabulary.try_into()?,
            context: at_least_one("context", wire.context)?,
            tree_nodes_max: wire.tree_nodes_max as usize,
            sequences_max: at_least_one("sequences_max", wire.sequences_max)?,
            end_tokens: wire.end_tokens,
            costs: wire.costs.into_iter().map(read_cost).collect::<Result<_, _>>()?,
            model: required("model", wire.model)?.try_into()?,
        })
    }
}

fn read_cost(wire: pb::MeasuredCost) -> Result<RowCost, WireError> {
    let rows = at_least_one("costs.rows", wire.rows)?;
    Ok(RowCost { rows, time: Duration::from_micros(wire.time_us) })
}

impl From<Model> for pb::Model {
    fn from(model: Model) -> Self {
        let (layers, hidden_size) = (wire_count(model.layers), wire_count(model.hidden_size));
        let Model { fingerprint, arithmetic, revision, .. } = model;
        Self { fingerprint, layers, hidden_size, arithmetic, revision }
    }
}

impl TryFrom<pb::Model> for Model {
    type Error = WireError;

    fn try_from(wire: pb::Model) -> Result<Self, WireError> {
        check_fingerprint("model.fingerprint", &wire.fingerprint)?;
        check_arithmetic("model.arithmetic", &wire.arithmetic)?;
        Ok(Self {
            layers: at_least_one("model.layers", wire.layers)?,
            hidden_size: at_least_one("model.hidden_size", wire.hidden_size)?,
            fingerprint: wire.fingerprint,
            arithmetic: wire.arithmetic,
            revision: wire.revision,
        })
    }
}

/// Checks that a text may be the name of an arithmetic.
pub(crate) fn check_arithmetic(field: &'static str, text: &str) -> Result<(), WireError> {
    check_text(field, text, ARITHMETIC_BYTES_MAX)
}

/// Checks that a text may be the fingerprint of a model.
pub(crate) fn check_fingerprint(field: &'static str, text: &str) -> Result<(), WireError> {
    check_text(field, text, FINGERPRINT_BYTES_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A target of 100 tokens and 16 positions.
    pub(crate) fn card() -> VerifierCard {
        VerifierCard {
            name: "medium".to_owned(),
            vocabulary: Vocabulary { size: 100, fingerprint: "abc".to_owned() },
            context: 16,
            tree_nodes_max: 64,
            sequences_max: 8,
            end_tokens: vec![2],
            costs: vec![RowCost { rows: 1, time: Duration::from_micros(900) }],
            model: Model {
                fingerprint: "m".to_owned(),
                layers: 8,
                hidden_size: 2,
                arithmetic: "f32".to_owned(),
                revision: 1,
            },
        }
    }

    #[test]
    fn another_arithmetic_or_another_revision_of_it_is_another_model() {
        let model = || card().model;
        assert!(model().is_same_as(&Model { layers: 9, ..model() }));
        assert!(!model().is_same_as(&Model { arithmetic: "int8".to_owned(), ..model() }));
        assert!(!model().is_same_as(&Model { fingerprint: "n".to_owned(), ..model() }));
        assert!(!model().is_same_as(&Model { revision: 2, ..model() }));
    }

    #[test]
    fn a_card_survives_the_wire() {
        let wire = pb::DescribeVerifierResponse::from(card());
        assert_eq!(VerifierCard::try_from(wire), Ok(card()));
    }

    #[test]
    fn a_card_without_a_model_is_refused() {
        let refusal = |model| {
            let wire = pb::DescribeVerifierResponse { model, ..card().into() };
            VerifierCard::try_from(wire).unwrap_err().to_string()
        };
        let model = || pb::Model::from(card().model);
        assert_eq!(refusal(None), "model is missing");
        assert_eq!(refusal(Some(pb::Model { fingerprint: String::new(), ..model() })), "model.fingerprint is empty");
        let flat = pb::Model { hidden_size: 0, ..model() };
        assert_eq!(refusal(Some(flat)), "model.hidden_size is 0, below the minimum of 1");
    }
}
