//! What runs kernels: a GPU, or a processor that stands in for one in tests.

use std::any::Any;

use candle_core::{Result, Tensor};

/// Memory of a machine, zero at first. It is freed once all is done that the machine was asked to before this is dropped.
pub(super) struct Memory {
    pub(super) address: u64,
    pub(super) bytes: usize,
    _owner: Box<dyn Any + Send>,
}

/// A kernel to run: it takes one structure, which it is given by value. It may begin before the one that it follows has ended,
/// up to where it waits for it.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) kernel: &'static str,
    /// Blocks of threads.
    pub(super) grid: [u32; 3],
    /// Threads of a block.
    pub(super) threads: u32,
    /// Bytes of shared memory that it is lent.
    pub(super) lent: u32,
    pub(super) arguments: Vec<u8>,
}

/// What runs kernels, one after the other in the order in which it was asked to.
pub(super) trait Machine: Send {
    /// Makes the present thread the one that asks it for something.
    fn begin(&mut self) -> Result<()>;

    /// # Errors
    /// There is not so much memory.
    fn allocate(&self, bytes: usize) -> Result<Memory>;

    /// Memory that the machines of other ranks write to.
    ///
    /// # Errors
    /// There is not so much memory.
    fn allocate_for_ranks(&self, bytes: usize) -> Result<Memory>;

    /// Copies bytes there, before what it is asked to next.
    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()>;

    /// Waits for all it was asked to, and tells the numbers that are there then.
    fn download(&mut self, from: u64, count: usize) -> Result<Vec<f32>>;

    /// Waits for all it was asked to.
    fn finish(&mut self) -> Result<()>;

    fn launch(&mut self, launch: &Launch) -> Result<()>;

    /// From now on launches are noted down, not done.
    fn begin_graph(&mut self) -> Result<()>;

    /// The number of the graph of what was noted down since it began.
    fn end_graph(&mut self) -> Result<usize>;

    /// Does what was noted down.
    fn replay(&mut self, graph: usize) -> Result<()>;

    /// Forgets all graphs; numbers begin anew.
    fn forget_graphs(&mut self);

    /// Where the numbers of a tensor on this machine lie.
    fn address(&self, tensor: &Tensor) -> Result<u64>;
}

impl Memory {
    /// Memory that lasts as long as its owner.
    pub(super) fn new(address: u64, bytes: usize, owner: impl Any + Send) -> Self {
        Self { address, bytes, _owner: Box::new(owner) }
    }
}
