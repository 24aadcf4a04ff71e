//! A processor that stands in for a GPU: it runs the same kernels, thread by thread.

use std::ffi::{CString, c_char, c_int, c_void};

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

/// The stand-in.
#[derive(Default)]
pub(super) struct Emulated {
    graphs: Vec<Vec<Noted>>,
    noting: Option<Vec<Noted>>,
}

/// A launch that was noted down.
struct Noted {
    kernel: &'static str,
    grid: [u32; 3],
    threads: u32,
    lent: u32,
    arguments: Vec<u8>,
}

/// 16 bytes, side by side.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Line([u8; ALIGNED]);

impl Machine for Emulated {
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<Memory> {
        let mut lines = vec![Line([0; ALIGNED]); bytes.div_ceil(ALIGNED)].into_boxed_slice();
        let address = lines.as_mut_ptr() as u64;
        Ok(Memory::new(address, bytes, lines))
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: whoever asks has as much memory there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }

    fn download(&mut self, from: u64, count: usize) -> Result<Vec<f32>> {
        // SAFETY: whoever asks has as much memory there.
        Ok(unsafe { std::slice::from_raw_parts(from as *const f32, count) }.to_vec())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<()> {
        if launch.lent > LENT_MAX {
            return Err(Error::Msg(format!(
                "kernel {} is lent {} bytes, {LENT_MAX} at most",
                launch.kernel, launch.lent
            )));
        }
        let noted = Noted {
            kernel: launch.kernel,
            grid: launch.grid,
            threads: launch.threads,
            lent: launch.lent,
            arguments: launch.arguments.to_vec(),
        };
        match &mut self.noting {
            Some(noting) => noting.push(noted),
            None => noted.run()?,
        }
        Ok(())
    }

    fn begin_graph(&mut self) -> Result<()> {
        self.noting = Some(Vec::new());
        Ok(())
    }

    fn end_graph(&mut self) -> Result<usize> {
        self.graphs.extend(self.noting.take());
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, graph: usize) -> Result<()> {
        self.graphs[graph].iter().try_for_each(Noted::run)
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

impl Noted {
    fn run(&self) -> Result<()> {
        let name = CString::new(self.kernel).map_err(Error::wrap)?;
        let mut arguments = vec![Line([0; ALIGNED]); self.arguments.len().div_ceil(ALIGNED)];
        for (line, bytes) in arguments.iter_mut().zip(self.arguments.chunks(ALIGNED)) {
            line.0[..bytes.len()].copy_from_slice(bytes);
        }
        let arguments = arguments.as_ptr().cast();
        // SAFETY: the structure that the kernel takes, whose addresses are of memory that is there.
        let missing =
            unsafe { espalier_emulate(name.as_ptr(), self.grid.as_ptr(), self.threads, self.lent, arguments) };
        if missing == 0 { Ok(()) } else { Err(Error::Msg(format!("there is no kernel {}", self.kernel))) }
    }
}
