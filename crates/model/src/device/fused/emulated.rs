//! A processor that stands in for a GPU: it runs the same kernels, thread by thread.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use candle_core::{Error, Result, Storage, Tensor};
use half::bf16;

use super::machine::{Launch, Machine, Memory};

/// What a kernel is given begins at a multiple of so many bytes.
const ALIGNED: usize = 16;

/// Bytes of shared memory that a kernel may be lent.
const LENT_MAX: u32 = 208 << 10;

unsafe extern "C" {
    fn espalier_emulate(
        name: *const c_char,
        grid: *const u32,
        threads: u32,
        lent: u32,
        arguments: *const c_void,
    ) -> c_int;
}

/// The stand-in: a thread that does what it is told, in that order.
pub(super) struct Emulated {
    tasks: Sender<Task>,
    graphs: Vec<Arc<[Launch]>>,
    noting: Option<Vec<Launch>>,
}

/// What the thread is told.
enum Task {
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    Run(Arc<[Launch]>),
    Free(Box<[Line]>),
    /// To say what it failed of, if it did.
    Finish(SyncSender<Result<()>>),
}

/// Memory that is freed once the thread has done what it was told before.
struct Lent {
    lines: Box<[Line]>,
    tasks: Sender<Task>,
}

/// 16 bytes, side by side.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Line([u8; ALIGNED]);

impl Emulated {
    /// # Errors
    /// The system has no threads left.
    pub(super) fn start() -> Result<Self> {
        let (tasks, told) = mpsc::channel();
        thread::Builder::new().name("emulated-gpu".to_owned()).spawn(move || work(&told))?;
        Ok(Self { tasks, graphs: Vec::new(), noting: None })
    }

    fn tell(&self, task: Task) -> Result<()> {
        self.tasks.send(task).map_err(|_| Error::Msg("the emulated GPU has ended".to_owned()))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Where the thread is gone, nobody uses it.
        let _ = self.tasks.send(Task::Free(std::mem::take(&mut self.lines)));
    }
}

/// Does what it is told, until nobody can tell it anything any more: neither the machine is there, nor any memory of it.
fn work(told: &Receiver<Task>) {
    let mut failed = Ok(());
    for task in told {
        match task {
            // SAFETY: whoever asks has as much memory there.
            Task::Upload { to, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len());
            },
            Task::Run(launches) => failed = failed.and_then(|()| launches.iter().try_for_each(run)),
            Task::Free(lines) => drop(lines),
            // Who asked may be gone.
            Task::Finish(done) => drop(done.send(std::mem::replace(&mut failed, Ok(())))),
        }
    }
}

impl Machine for Emulated {
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<Memory> {
        let lines = vec![Line([0; ALIGNED]); bytes.div_ceil(ALIGNED).max(1)].into();
        let lent = Lent { lines, tasks: self.tasks.clone() };
        Ok(Memory::new(lent.lines.as_ptr() as u64, bytes, lent))
    }

    fn allocate_for_ranks(&self, bytes: usize) -> Result<Memory> {
        self.allocate(bytes)
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        self.tell(Task::Upload { to, bytes: bytes.to_vec() })
    }

    fn download(&mut self, from: u64, count: usize) -> Result<Vec<f32>> {
        self.finish()?;
        // SAFETY: whoever asks has as much memory there, and the thread is done with it.
        Ok(unsafe { std::slice::from_raw_parts(from as *const f32, count) }.to_vec())
    }

    fn finish(&mut self) -> Result<()> {
        let (done, all_done) = mpsc::sync_channel(1);
        self.tell(Task::Finish(done))?;
        all_done.recv().map_err(Error::wrap)?
    }

    fn launch(&mut self, launch: &Launch) -> Result<()> {
        if launch.lent > LENT_MAX {
            return Err(Error::Msg(format!(
                "kernel {} is lent {} bytes, {LENT_MAX} at most",
                launch.kernel, launch.lent
            )));
        }
        match &mut self.noting {
            Some(noting) => noting.push(launch.clone()),
            None => self.tell(Task::Run([launch.clone()].into()))?,
        }
        Ok(())
    }

    fn begin_graph(&mut self) -> Result<()> {
        self.noting = Some(Vec::new());
        Ok(())
    }

    fn end_graph(&mut self) -> Result<usize> {
        self.graphs.extend(self.noting.take().map(Arc::from));
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, graph: usize) -> Result<()> {
        self.tell(Task::Run(self.graphs[graph].clone()))
    }

    fn forget_graphs(&mut self) {
        self.graphs.clear();
    }

    fn address(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        match &*storage {
            Storage::Cpu(storage) => Ok(storage.as_slice::<bf16>()?[layout.start_offset()..].as_ptr() as u64),
            _ => Err(Error::Msg("a tensor elsewhere than on the processor".to_owned())),
        }
    }
}

/// Runs a kernel to its end.
fn run(launch: &Launch) -> Result<()> {
    let name = CString::new(launch.kernel).map_err(Error::wrap)?;
    let mut arguments = vec![Line([0; ALIGNED]); launch.arguments.len().div_ceil(ALIGNED)];
    for (line, bytes) in arguments.iter_mut().zip(launch.arguments.chunks(ALIGNED)) {
        line.0[..bytes.len()].copy_from_slice(bytes);
    }
    let arguments = arguments.as_ptr().cast();
    // SAFETY: the structure that the kernel takes, whose addresses are of memory that is there.
    let missing =
        unsafe { espalier_emulate(name.as_ptr(), launch.grid.as_ptr(), launch.threads, launch.lent, arguments) };
    if missing == 0 { Ok(()) } else { Err(Error::Msg(format!("there is no kernel {}", launch.kernel))) }
}
