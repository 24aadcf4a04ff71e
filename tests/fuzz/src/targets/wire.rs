//! What the targets of all messages share.

use std::fmt::Debug;

use espalier_proto::{WireError, pb};
use prost::Message;

use crate::target::{Target, refused};

/// What the targets of messages have in common: memory is that of one that is refused before anything large is made of it.
pub(crate) const MESSAGE: Target =
    Target { name: "", about: "", run: |_| false, seeds: Vec::new, tries: 4000, memory_max: 1 << 20 };

/// How a message becomes what a service takes, and the other way round.
pub(crate) struct Crossing<Wire, Domain> {
    pub(crate) read: fn(Wire) -> Result<Domain, WireError>,
    pub(crate) write: fn(Domain) -> Wire,
}

impl<Wire, Domain> Crossing<Wire, Domain>
where
    Wire: Message + Default,
    Domain: Clone + Debug + PartialEq,
{
    /// Reads bytes: what is refused is refused with a sentence, and what is accepted is the same after it was sent on.
    pub(crate) fn survives(&self, bytes: &[u8]) -> bool {
        let Ok(wire) = Wire::decode(bytes) else { return false };
        match (self.read)(wire) {
            Err(refusal) => refused(&refusal),
            Ok(accepted) => {
                let sent = (self.write)(accepted.clone()).encode_to_vec();
                let wire = Wire::decode(&sent[..]).expect("what is encoded can be decoded");
                assert_eq!((self.read)(wire), Ok(accepted), "what was accepted does not survive the wire");
                true
            }
        }
    }
}

/// [`Crossing::survives`] for a message that is read and written without anything being known besides.
pub(crate) fn survives<Wire, Domain>(bytes: &[u8]) -> bool
where
    Wire: Message + Default + From<Domain>,
    Domain: TryFrom<Wire, Error = WireError> + Clone + Debug + PartialEq,
{
    Crossing::<Wire, Domain> { read: Domain::try_from, write: Wire::from }.survives(bytes)
}

/// Messages as they go over the wire.
pub(crate) fn encoded<Wire: Message>(messages: impl IntoIterator<Item = Wire>) -> Vec<Vec<u8>> {
    messages.into_iter().map(|message| message.encode_to_vec()).collect()
}

/// Sampling with everything that there is.
pub(crate) fn sampling() -> pb::Sampling {
    pb::Sampling {
        temperature: 0.8,
        top_k: 40,
        top_p: Some(0.9),
        seed: Some(11),
        min_p: 0.01,
        repetition_penalty: Some(1.1),
        presence_penalty: 0.1,
        frequency_penalty: -0.1,
        logit_bias: [(7, 1.5)].into(),
        acceptance: 2,
    }
}

/// A sequence of a model with a vocabulary of 100 and a context of 64.
pub(crate) fn sequence() -> pb::SequenceSpec {
    pb::SequenceSpec {
        id: "fuzz-1".to_owned(),
        committed: vec![1, 2, 3, 99],
        generated: 1,
        sampling: Some(sampling()),
        max_tokens: 4,
        stop_tokens: vec![9],
        logprobs: Some(2),
        tenant: 3,
        constraint: Some(pb::Constraint { kind: Some(pb::constraint::Kind::Regex("[0-9]+".to_owned())) }),
    }
}

pub(crate) fn vocabulary() -> pb::Vocabulary {
    pb::Vocabulary { size: 100, fingerprint: "abc".to_owned() }
}

/// Those of so many tokens.
pub(crate) fn logprobs(tokens: usize) -> Vec<pb::Logprobs> {
    let top = |id, logprob| pb::TopLogprob { id, logprob };
    vec![pb::Logprobs { chosen: -0.5, top: vec![top(4, -0.25), top(9, -3.0)] }; tokens]
}
