//! What an engine needs to run forward passes, and keeps between them.

use std::time::Duration;

use crate::kernels::Kernels;
use crate::linear::Inputs;
use crate::pass::Results;
use crate::pool::Pool;
use crate::team::Team;

/// Threads and buffers of one engine.
pub struct Workspace {
    pub(crate) team: Team,
    pub(crate) kernels: &'static Kernels,
    /// The residual stream (rows, hidden).
    pub(crate) stream: Vec<f32>,
    pub(crate) buffers: Buffers,
    pub(crate) results: Results,
    /// Of threads that have rows of their own.
    pub(crate) per_thread: Vec<PerThread>,
    /// Of the stages of a model that come before its last: nothing.
    pub(crate) of_stages: Vec<Results>,
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
            stream: Vec::new(),
            buffers: Buffers::default(),
            results: Results::default(),
            per_thread: Vec::new(),
            of_stages: Vec::new(),
            waited: Duration::ZERO,
        }
    }

    /// As [`Self::new`], with the kernels of the instruction set `name`, as [`Processor::kernels`](crate::Processor) spells
    /// it, if this processor has it.
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

    /// Whether its threads compute for another workspace's pass, or are about to. Not to be asked while it has one of its own.
    pub fn others_compute(&self) -> bool {
        self.team.is_busy()
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }
}

/// What a pass works on, grown on demand and kept. Row after row, but for inputs of layers.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The stream, normalised: inputs of what reads it.
    pub(crate) normed: Inputs,
    /// Queries, keys and values (rows, (heads + 2 kv_heads) * head_dim).
    pub(crate) qkv: Vec<f32>,
    /// Attention's result: inputs of the output projection.
    pub(crate) attended: Inputs,
    /// The same (rows, heads * head_dim) where heads are no whole groups of inputs.
    pub(crate) heads: Vec<f32>,
    /// The feed-forward's inner activations: inputs of the down projection.
    pub(crate) inner: Inputs,
    /// The position of each row.
    pub(crate) positions: Vec<usize>,
}

/// What a thread works with that has rows of its own.
pub(crate) struct PerThread {
    pub(crate) pool: Pool,
    pub(crate) buffers: Buffers,
}

impl Default for PerThread {
    fn default() -> Self {
        Self { pool: Pool::new(1), buffers: Buffers::default() }
    }
}
