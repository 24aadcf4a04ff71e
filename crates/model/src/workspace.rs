//! What an engine needs to run forward passes, and keeps between them.

use std::time::Duration;

use crate::kernels::Kernels;
use crate::linear::Rounded;
use crate::pass::Results;
use crate::team::Team;

/// Threads and buffers of one engine.
pub struct Workspace {
    pub(crate) team: Team,
    pub(crate) kernels: &'static Kernels,
    pub(crate) buffers: Buffers,
    pub(crate) results: Results,
    /// What a linear layer multiplies, where that is rounded first.
    pub(crate) rounded: Rounded,
    /// How long the last pass waited for others of the team.
    pub(crate) waited: Duration,
}

impl Workspace {
    /// A workspace of `threads` threads of its own (at least one, the caller's) with the fastest kernels of this
    /// processor.
    pub fn new(threads: usize) -> Self {
        Self::of_team(&Team::new(threads))
    }

    /// The same on threads that other workspaces share.
    pub fn of_team(team: &Team) -> Self {
        Self {
            team: team.clone(),
            kernels: Kernels::detect(),
            buffers: Buffers::default(),
            results: Results::default(),
            rounded: Rounded::default(),
            waited: Duration::ZERO,
        }
    }

    /// As [`Self::new`], with the kernels of the instruction set `name` (`amx`, `avx512bf16`, `avx512vnni`, `avx512`,
    /// `avx2`, `portable`), if this processor has it.
    pub fn with_instruction_set(threads: usize, name: &str) -> Option<Self> {
        let kernels = Kernels::available().into_iter().find(|k| k.name == name)?;
        Some(Self { kernels, ..Self::new(threads) })
    }

    /// The instruction sets of this processor, the fastest first.
    pub fn instruction_sets() -> Vec<&'static str> {
        Kernels::available().iter().map(|k| k.name).collect()
    }

    /// The instruction set in use.
    pub fn instruction_set(&self) -> &'static str {
        self.kernels.name
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }
}

/// Row-major buffers, grown on demand and kept.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The residual stream (rows, hidden).
    pub(crate) x: Vec<f32>,
    /// A normalised input (rows, hidden).
    pub(crate) normed: Vec<f32>,
    /// Queries, keys and values (rows, (heads + 2 kv_heads) * head_dim).
    pub(crate) qkv: Vec<f32>,
    /// Attention's result (rows, heads * head_dim).
    pub(crate) attended: Vec<f32>,
    /// The feed-forward's inner activations (rows, ffn).
    pub(crate) inner: Vec<f32>,
    /// cos and sin (rows, rotary_dim / 2) each.
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}
