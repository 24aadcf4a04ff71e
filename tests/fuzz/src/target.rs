//! What is tried.

/// A property that holds for all bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// The property, in a sentence.
    pub about: &'static str,
    /// Tries some bytes, and says whether they were accepted; it panics where the property does not hold.
    pub run: fn(&[u8]) -> bool,
    /// Bytes to begin with; the first are accepted.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many changed seeds `cargo test` tries.
    pub tries: usize,
    /// The most bytes of memory that one thread may hold for a try; more for each byte that is tried.
    pub memory_max: usize,
}

/// Bytes of memory that each byte of an input may take, besides [`Target::memory_max`].
const MEMORY_FOR_A_BYTE: usize = 64;

impl Target {
    /// The most bytes of memory for an input of so many bytes.
    pub fn memory_for(&self, bytes: usize) -> usize {
        self.memory_max + MEMORY_FOR_A_BYTE * bytes
    }
}

/// That bytes were not accepted: whoever brought them is told why.
pub(crate) fn refused(refusal: &dyn std::error::Error) -> bool {
    assert!(!refusal.to_string().is_empty(), "a refusal without words");
    false
}
