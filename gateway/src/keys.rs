//! API keys: who may ask, for how much, and how that is changed while a gateway runs.
//!
//! A file lists the keys by their hashes ([`file`]). All of one file are a [`ring`], in which a key is looked up; each has
//! a [`meter`] of what was used of its limits, which outlives the ring: a new file is a new ring, with the meters of keys
//! that stay ([`live`]). A request takes its [`Holder`] with it, so it goes on whatever becomes of its key.

mod allowance;
mod error;
mod file;
mod live;
mod meter;
mod ring;

pub(crate) use allowance::Left;
pub use error::{KEYS_BYTES_MAX, KEYS_MAX, KeyError, KeysError, KeysParseError};
pub use file::count_keys;
pub(crate) use live::Keys;
pub(crate) use ring::Holder;
