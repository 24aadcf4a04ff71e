//! What a way to lay out the keys and values of a head in a block must be able to do.

/// Where the keys and values of a head begin in a block.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) keys: *mut u8,
    pub(crate) values: *mut u8,
    pub(crate) dim: usize,
}

/// A position of a head.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) head: Head,
    pub(super) row: usize,
}

/// One way to lay them out.
pub(super) trait Layout {
    /// Bytes of a block's keys.
    fn key_bytes(&self, head_dim: usize) -> usize;

    /// Bytes of a block's values.
    fn value_bytes(&self, head_dim: usize) -> usize;

    /// Stores a key and a value, as many elements each as the head has dimensions, in a row of the block.
    ///
    /// # Safety
    /// The head's memory is valid, and nobody else touches the row.
    unsafe fn store(&self, head: Head, row: usize, key: &[f32], value: &[f32]);

    /// Copies the keys and values of `rows` rows side by side.
    ///
    /// # Safety
    /// All rows are inside their blocks; nobody else touches what is written, or writes what is read.
    unsafe fn copy(&self, from: Place, to: Place, rows: usize);
}
