//! A tokenizer that a verifier sends to a gateway.

use espalier_proto::pb::FetchTokenizerResponse;
use espalier_proto::{TokenizerCollector, TokenizerFiles};
use prost::Message;

use crate::target::Target;
use crate::targets::wire::MESSAGE;

pub(crate) const TARGET: Target = Target {
    name: "tokenizer-pieces",
    about: "A tokenizer in pieces is refused, or is the same after it was sent on.",
    run: |bytes| {
        let Some(files) = collected(bytes) else { return false };
        assert!(files.bytes() <= bytes.len(), "more came than was sent");
        let again = collected(&written(files.clone().into_chunks()));
        assert_eq!(again, Some(files), "what was put together does not survive the wire");
        true
    },
    seeds: || {
        let (tokenizer, config) = (b"{\"version\": \"1.0\"}".to_vec(), Some(b"{}".to_vec()));
        let files = TokenizerFiles { tokenizer, config, chat_template: Some(b"{{ messages }}".to_vec()) };
        vec![written(files.into_chunks())]
    },
    ..MESSAGE
};

/// The messages of a stream, each after its length.
fn written(pieces: impl Iterator<Item = FetchTokenizerResponse>) -> Vec<u8> {
    pieces.flat_map(|piece| piece.encode_length_delimited_to_vec()).collect()
}

/// What the messages of a stream make, if they can all be read.
fn collected(mut stream: &[u8]) -> Option<TokenizerFiles> {
    let mut collector = TokenizerCollector::default();
    while !stream.is_empty() {
        collector.add(&FetchTokenizerResponse::decode_length_delimited(&mut stream).ok()?).ok()?;
    }
    collector.finish().ok()
}
