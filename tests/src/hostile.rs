//! Messages that no client of ours would send, for every RPC of every service, and what may be answered to them.
//!
//! All is decided by a seed, an RPC and a number: a case that fails can be sent again by itself.

mod body;
mod call;
mod case;
mod http;
mod line;
mod rpc;
mod usual;
mod values;
mod verdict;
mod volley;

pub use case::{Case, Kind};
pub use line::{Ended, Line};
pub use rpc::Rpc;
pub use usual::Surroundings;
pub use verdict::wrong;
pub use volley::{Addresses, Plan, Sent, volley};
