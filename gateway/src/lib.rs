//! The gateway: the only door.
//!
//! A request is let in, waits in a fair and bounded queue, or is refused at once. It is validated once, against a directory of
//! the verifiers and drafters that have described themselves, and tokenized with
//! the target's own tokenizer, which came over the wire. Then a sequence is
//! opened with a drafter, rounds are granted as fast as the client reads, and
//! text is streamed. When a drafter or a verifier is lost, the sequence is opened
//! again from what is committed, with others of their kind or, if need be, on the
//! verifier alone, with n-gram proposals.
//!
//! It holds no weights and links no tensor library.

mod address;
mod admission;
mod balance;
mod call_form;
mod calling;
mod caps;
mod chance;
mod config;
mod counts;
mod directory;
mod drafting;
mod error;
mod generation;
mod guard;
mod health;
mod http;
mod intake;
mod keys;
mod known;
mod locks;
mod peers;
mod pool;
mod profiles;
mod renderer;
mod reopening;
mod resolver;
mod retry_budget;
mod rounds;
mod route;
mod service;
mod serving;
mod session;
mod status;
mod stream;
mod surroundings;
mod tally;
mod usual;
mod validate;
mod wanted;
mod window;

pub use address::AddressError;
pub use admission::{
    Admission, AdmissionLimits, Claim, Client, ClientNameError, ClientWeights, Decision, Occupancy, REQUESTS_LIMIT,
    Reason, Refusal, Ticket, WEIGHT_LIMIT,
};
pub use balance::{AFFINITY_SLACK, Candidate, PeerOccupancy, choose};
pub use caps::{CapError, UnknownPolicy};
pub use chance::Chance;
pub use config::{Args, Config, ConfigError, ConfigFault, PEERS_MAX};
pub use error::{GatewayError, RequestError};
pub use health::RETRY_INTERVAL;
pub use keys::{KEYS_BYTES_MAX, KEYS_MAX, KeyError, KeysError, KeysParseError, count_keys};
pub use known::Known;
pub use locks::LockArgs;
pub use profiles::{PROFILES_BYTES_MAX, ParseError, Profiles, ProfilesError};
pub use renderer::{RenderError, Renderer, render_chat_templates};
pub use resolver::Resolver;
pub use route::{Detour, Offers, Progress, Route, Turn, is_refusal};
pub use service::Gateway;
pub use serving::serve;
pub use session::{SESSION_BYTES_MAX, SessionError};
pub use surroundings::Surroundings;
