//! Where weights lie in panels.

use crate::kernels::LANES;

/// Outputs of one panel.
pub(crate) const PANEL: usize = 64;

/// Outputs of one pair of vectors.
pub(super) const PAIR: usize = 2 * LANES;

/// Where the weight of output `o` for input `i` lies.
pub(super) fn place(inputs: usize, o: usize, i: usize) -> usize {
    (o / PAIR * inputs + i) * PAIR + o % PAIR
}
