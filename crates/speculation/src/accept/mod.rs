//! Which drafted tokens survive: the target's own decision at each node, and the walk that
//! follows it through the tree; or, by rejection, a trial of each drawn token.

mod coupled;
mod error;
mod greedy;
mod rejection;
mod walk;

pub use coupled::winner;
pub use error::AcceptError;
pub use greedy::arg_max;
pub use rejection::{
    DRAWN_TREES_MAX, DrawnTree, DrawnTreeError, LawError, RejectionLaw, accept_by_rejection, accept_drawn, round_law,
};
pub use walk::{Walk, accept, walk};
