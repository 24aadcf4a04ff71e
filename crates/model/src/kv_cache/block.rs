//! The unit in which memory for keys and values is handed out.

/// Positions of one block.
pub const BLOCK: usize = 64;

/// A block's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(pub(super) usize);

/// One position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRow {
    pub(super) block: BlockId,
    pub(super) row: usize,
}
