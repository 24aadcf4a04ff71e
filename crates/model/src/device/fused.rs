//! A model on one GPU or several in bf16, by kernels of our own: few launches a layer, one upload and one download a pass.
//!
//! Passes are lists of [`work::Work`]; a list that comes again is replayed as a graph, so that the host is told what to do
//! next while the GPU works. Products read weights once for up to 64 rows, and a row's bits depend on nothing but its own
//! path: the order in which its sums are added up is that of the matrix, whatever rows are beside it.
#![cfg_attr(
    not(any(feature = "cuda", feature = "emulated")),
    expect(dead_code, reason = "some of it is for what only GPUs can do")
)]

mod arguments;
mod buffers;
#[cfg(all(test, feature = "emulated"))]
mod decide_tests;
#[cfg(feature = "emulated")]
mod emulated;
mod exchange;
#[cfg(feature = "cuda")]
mod gpu;
mod kernel_names;
mod machine;
mod model;
mod partition;
mod pass;
#[cfg(feature = "cuda")]
mod peers;
mod run;
mod sheet;
mod weights;
mod work;

use crate::arithmetic::Arithmetic;
use crate::config::ModelConfig;
use crate::device::shard::Shard;
pub(super) use model::FusedModel;
pub(super) use pass::FusedPass;

/// Whether kernels can run a model on devices of which each has such a part of its layers.
pub(super) fn supports(
    config: &ModelConfig,
    arithmetic: Arithmetic,
    shards: impl ExactSizeIterator<Item = Shard>,
) -> bool {
    arithmetic == Arithmetic::Bf16
        && kernel_names::attend_kernel(config.head_dim).is_ok()
        && config.hidden.is_multiple_of(4)
        && shards.len() <= partition::PARTS_MAX
        && shards.into_iter().all(|shard| !shard.tokens(config).is_empty() && !shard.inner(config).is_empty())
}
