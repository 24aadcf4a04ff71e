//! Where the rows of a pass stand, as tensor operations need it.

use super::attention::Group;
use super::linear::bucketed;
use crate::placed::Placed;
use crate::rope::RotaryTable;

/// Where rows stand.
pub(super) struct Placement {
    pub(super) groups: Vec<Group>,
    /// Cosines and sines of the rows' rotations: (rows, rotary_dim / 2) each, rows being a multiple of a bucket.
    pub(super) turns: [Vec<f32>; 2],
    /// Half of the dimensions of a head that are rotated.
    pub(super) half: usize,
}

impl Placement {
    pub(super) fn new(placed: &[Placed], rotary: &RotaryTable) -> Self {
        let half = rotary.rotary_dim / 2;
        let rows = bucketed(placed.iter().map(Placed::rows).sum());
        let (mut cos, mut sin) = (vec![0.0; rows * half], vec![0.0; rows * half]);
        let turns = cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half));
        for (position, (cos, sin)) in placed.iter().flat_map(Placed::positions).zip(turns) {
            rotary.write(position, cos, sin);
        }
        Self { groups: Group::all(placed), turns: [cos, sin], half }
    }
}
