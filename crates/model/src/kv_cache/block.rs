//! The unit in which memory for keys and values is handed out.

use crate::kernels::GROUP;

/// Positions of one block.
pub const BLOCK: usize = 64;

/// Groups of positions in a block, as products add them up.
pub(crate) const GROUPS: usize = BLOCK / GROUP;

/// A block's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(pub(super) usize);

/// One position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRow {
    pub(super) block: BlockId,
    pub(super) row: usize,
}
