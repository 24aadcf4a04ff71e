//! What goes over the wire, and its conversion to and from valid domain types.
//!
//! The messages are described in `espalier/v1/*.proto`. A service reads a
//! message once, here, into a type that can only hold valid values; everything
//! behind its edge takes those. A message that breaks a rule is refused with a
//! [`WireError`] that names the field, the value and the limit. A [`Fault`] is
//! how a failure travels from service to service: it keeps the party at fault.
//!
//! This crate does no I/O and knows no model.

mod api_key;
mod common;
mod conversation;
mod drafted_tree;
mod drafter;
mod drafter_card;
mod error;
mod fault;
mod generation;
mod hidden_states;
mod numbered_tree;
mod round_trace;
mod sequence;
mod speculation_summary;
mod status;
mod submission;
mod tokenizer_files;
mod verifier;
mod verifier_card;

/// The generated messages, clients and servers of package `espalier.v1`.
pub mod pb {
    #![allow(missing_docs, unreachable_pub, unused_qualifications)]
    #![allow(clippy::all, clippy::unwrap_used, clippy::semicolon_if_nothing_returned)]
    tonic::include_proto!("espalier.v1");
}

pub use api_key::{API_KEY_BYTES_MAX, API_KEY_HEADER, ApiKey, ApiKeyError, KeyHash, KeyHashError};
pub use common::Vocabulary;
pub use conversation::{CallForm, Conversation, Message, TOOLS_MAX, Tool, ToolCall, ToolChoice, Tools};
pub use drafted_tree::DraftedTree;
pub use drafter::{DrafterEvent, GRANT_ROUNDS_MAX, Grant, RoundCost, RoundReport, Start};
pub use drafter_card::{DrafterCard, OnlyTarget};
pub use error::WireError;
pub use fault::{Fault, FaultKind, Party};
pub use generation::{
    Alternative, Begun, Chunk, Completion, GeneratedToken, GenerationEvent, GenerationRequest, Prompt, TargetCard,
};
pub use hidden_states::{HiddenStates, STATES_BYTES_MAX, Tap};
pub use numbered_tree::NumberedTree;
pub use round_trace::{NodeFate, RoundTrace, TraceNode};
pub use sequence::{SEQUENCE_ID_BYTES_MAX, STOP_TOKENS_MAX, SequenceBounds, SequenceId, SequenceSpec};
pub use speculation_summary::SpeculationSummary;
pub use status::{
    DrafterStatus, EndCounts, GatewayStatus, KvMemory, ModelAtWork, PassCounters, PassCounts, Process, RoundCounters,
    RoundCounts, ServiceState, Slots, SystemStatus, TARGETS_MAX, TargetStatus, VerifierStatus,
};
pub use submission::{Credit, Submission};
pub use tokenizer_files::{TOKENIZER_FILES_BYTES_MAX, TokenizerCollector, TokenizerFiles};
pub use verifier::{Open, Outcome, VerifierEvent};
pub use verifier_card::{Model, RowCost, VerifierCard};

/// The most bytes that a service reads as one message.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// The metadata in which a client may say who it is: slots are shared between names.
pub const CLIENT_NAME_KEY: &str = "x-espalier-client";

/// The longest name of a client, in bytes.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// Whether a client, or the API key that it shows, may have this name.
pub fn is_client_name(name: &str) -> bool {
    (1..=CLIENT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// The encoded description of the protocol, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/espalier_descriptor.bin"));
