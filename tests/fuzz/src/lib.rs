//! Whatever the bytes, they become a valid type or are refused: what must hold for each kind of bytes that this project
//! reads, and what tries to break it.
//!
//! A [`Target`] is a property of bytes, and some good ones to begin with. [`TARGETS`] has them all. `cargo test` tries
//! each with some hundreds or thousands of [changed](mutated) seeds, the same ones each time; `tests/fuzz/run` has
//! libFuzzer look for bytes that reach what none has reached before.

mod attempt;
mod dice;
mod folder;
mod memory;
mod mutate;
mod parts;
mod registry;
mod search;
mod spoil;
mod target;
mod targets;
mod tiny;

pub use attempt::{Attempt, Failure, Limits};
pub use dice::Dice;
pub use memory::CountingAllocator;
pub use mutate::mutated;
pub use registry::TARGETS;
pub use search::{case, search};
pub use spoil::spoil;
pub use target::Target;
