//! Which drafted tokens survive: the target's own decision at each node, and the walk that
//! follows it through the tree.

mod coupled;
mod greedy;
mod walk;

pub use coupled::winner;
pub use greedy::arg_max;
pub use walk::{Walk, accept, walk};
