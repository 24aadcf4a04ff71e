//! A GPU that runs our kernels.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaModule, CudaStream, DevicePtr, PinnedHostSlice, result, sys,
};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use candle_core::{CudaDevice, Device, Error, Result, Storage, Tensor};
use half::bf16;

use super::machine::{Launch, Machine, Memory};
use super::peers;

/// All kernels, for GPUs that were named when they were compiled.
static KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// Bytes of shared memory that a kernel may be lent.
const LENT_MAX: i32 = 208 << 10;

/// The GPU.
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Where launches are noted down: on the other one another thread may make room for keys and values meanwhile.
    noting: Arc<CudaStream>,
    is_noting: bool,
    module: Arc<CudaModule>,
    functions: HashMap<&'static str, CudaFunction>,
    graphs: Vec<Graph>,
    /// The host's side of copies, which the GPU reads and writes by itself.
    staging: Option<PinnedHostSlice<u8>>,
    /// Whether a copy from there may not have been done yet.
    is_copying: bool,
}

/// Made and used by whoever has the model to himself.
struct Graph(CudaGraph);

// SAFETY: the model that has it is behind a lock, so no two threads use it at once.
unsafe impl Send for Graph {}

impl Gpu {
    /// A GPU whose kernels write to the memory of others, itself perhaps among them.
    ///
    /// # Errors
    /// It cannot write there, or the driver's.
    pub(super) fn new<'a>(device: &CudaDevice, others: impl Iterator<Item = &'a Device>) -> Result<Self> {
        let stream = device.cuda_stream();
        let context = stream.context().clone();
        for other in others {
            peers::open_to(&context, other.as_cuda_device()?.cuda_stream().context())?;
        }
        let module = context.load_module(Ptx::from_binary(KERNELS.to_vec())).map_err(Error::wrap)?;
        let noting = context.new_stream().map_err(Error::wrap)?;
        Ok(Self {
            context,
            stream,
            noting,
            is_noting: false,
            module,
            functions: HashMap::new(),
            graphs: Vec::new(),
            staging: None,
            is_copying: false,
        })
    }

    /// The host's side of a copy of so many bytes, once no other copy needs it.
    fn staging(&mut self, bytes: usize) -> Result<&mut [u8]> {
        if self.is_copying {
            self.finish()?;
        }
        if self.staging.as_ref().is_none_or(|staging| staging.len() < bytes) {
            self.staging = None;
            // SAFETY: it is written before it is read.
            let staging = unsafe { self.context.alloc_pinned_with_flags(bytes.next_power_of_two(), 0) };
            self.staging = Some(staging.map_err(Error::wrap)?);
        }
        let staging = self.staging.as_mut().ok_or_else(|| Error::Msg("no memory for copies".to_owned()))?;
        Ok(&mut staging.as_mut_slice().map_err(Error::wrap)?[..bytes])
    }

    fn function(&mut self, name: &'static str) -> Result<sys::CUfunction> {
        if let Some(function) = self.functions.get(name) {
            return Ok(function.cu_function());
        }
        let function = self.module.load_function(name).map_err(Error::wrap)?;
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(most, LENT_MAX).map_err(Error::wrap)?;
        // Kernels that share a processor must agree on how much of its memory is shared memory.
        let share = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        function.set_attribute(share, 100).map_err(Error::wrap)?;
        let loaded = function.cu_function();
        self.functions.insert(name, function);
        Ok(loaded)
    }
}

impl Machine for Gpu {
    fn begin(&mut self) -> Result<()> {
        self.context.bind_to_thread().map_err(Error::wrap)
    }

    fn allocate(&self, bytes: usize) -> Result<Memory> {
        let slice = self.stream.alloc_zeros::<u8>(bytes.max(1)).map_err(Error::wrap)?;
        let (address, _) = slice.device_ptr(&self.stream);
        Ok(Memory::new(address, bytes, slice))
    }

    fn allocate_for_ranks(&self, bytes: usize) -> Result<Memory> {
        peers::allocate(&self.context, bytes)
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        self.staging(bytes.len())?.copy_from_slice(bytes);
        self.is_copying = true;
        let stream = self.stream.cu_stream();
        let staging = self.staging.as_mut().ok_or_else(|| Error::Msg("no memory for copies".to_owned()))?;
        let staged = &staging.as_slice().map_err(Error::wrap)?[..bytes.len()];
        // SAFETY: whoever asks has as much memory there, and nobody writes what is staged before the copy is done.
        unsafe { result::memcpy_htod_async(to, staged, stream) }.map_err(Error::wrap)
    }

    fn download(&mut self, from: u64, count: usize) -> Result<Vec<f32>> {
        let stream = self.stream.cu_stream();
        let staging = self.staging(count * size_of::<f32>())?;
        // SAFETY: whoever asks has as much memory there; it is read once the stream has come to its end.
        unsafe { result::memcpy_dtoh_async(staging, from, stream) }.map_err(Error::wrap)?;
        self.is_copying = true;
        self.finish()?;
        let (numbers, _) = self.staging(count * size_of::<f32>())?.as_chunks();
        Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    fn finish(&mut self) -> Result<()> {
        self.is_copying = false;
        self.stream.synchronize().map_err(Error::wrap)
    }

    fn launch(&mut self, launch: &Launch) -> Result<()> {
        let function = self.function(launch.kernel)?;
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.lent,
            hStream: if self.is_noting { &self.noting } else { &self.stream }.cu_stream(),
            attrs: &raw mut early,
            numAttrs: 1,
        };
        let mut arguments: [*mut c_void; 1] = [launch.arguments.as_ptr().cast_mut().cast()];
        // SAFETY: the one structure that the kernel takes, whose addresses are of memory that is there.
        let told =
            unsafe { sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), std::ptr::null_mut()) };
        told.result().map_err(|fault| Error::Msg(format!("kernel {}: {fault}", launch.kernel)))
    }

    fn begin_graph(&mut self) -> Result<()> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.is_noting = true;
        self.noting.begin_capture(mode).map_err(Error::wrap)
    }

    fn end_graph(&mut self) -> Result<usize> {
        self.is_noting = false;
        let graph = self.noting.end_capture(sys::CUgraphInstantiate_flags(0)).map_err(Error::wrap)?;
        let graph = graph.ok_or_else(|| Error::Msg("a graph without a kernel".to_owned()))?;
        graph.upload().map_err(Error::wrap)?;
        self.graphs.push(Graph(graph));
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, graph: usize) -> Result<()> {
        // SAFETY: the graph is there as long as this, and nobody else uses it meanwhile.
        unsafe { result::graph::launch(self.graphs[graph].0.cu_graph_exec(), self.stream.cu_stream()) }
            .map_err(Error::wrap)
    }

    fn forget_graphs(&mut self) {
        self.graphs.clear();
    }

    fn address(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => {
                let slice = storage.as_cuda_slice::<bf16>()?.slice(layout.start_offset()..);
                Ok(slice.device_ptr(&self.stream).0)
            }
            _ => Err(Error::Msg("a tensor elsewhere than on the GPU".to_owned())),
        }
    }
}
