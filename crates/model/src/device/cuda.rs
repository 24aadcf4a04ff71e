//! Asks a machine for its GPUs, before anything of CUDA's is used, so that the answer is a sentence.

#[cfg(feature = "cuda")]
mod asked {
    use std::time::{Duration, Instant};

    use candle_core::cuda_backend::cudarc::driver::{result, sys};
    use candle_core::{CudaDevice, Device};

    use crate::device::cuda_fault::{Machine, check};
    use crate::error::Result;

    /// What programs call functions of.
    const LIBRARIES: [&str; 3] = ["libcuda.so.1", "libcublas.so.13", "libcurand.so.10"];

    /// Opens a GPU, by its number.
    pub(crate) fn open(number: usize) -> Result<Device> {
        check(number, machine(number)?)?;
        // One stream whoever asks: candle's default has one for each thread, and what loads weights or moves keys and values
        // is another thread than what runs passes.
        let device = Device::new_cuda_with_stream(number)?;
        // SAFETY: all that is done on the device is done on that one stream, in its order.
        unsafe { device.as_cuda_device()?.disable_event_tracking() };
        Ok(device)
    }

    /// Has a GPU keep what memory tensors give back for the next ones: else it is taken away whenever the host waits, and
    /// mapped anew afterwards.
    pub(crate) fn keep_memory(number: usize) -> Result<()> {
        let mut all = u64::MAX;
        let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let device = device(number)?;
        // SAFETY: the driver gave the device, and the attribute is a number of 64 bits.
        let kept = unsafe {
            result::device::get_default_mem_pool(device)
                .and_then(|pool| result::mem_pool::set_attribute(pool, attribute, (&raw mut all).cast()))
        };
        Ok(kept.map_err(candle_core::Error::wrap)?)
    }

    /// Bytes that are free on a GPU.
    pub(crate) fn free(device: &CudaDevice) -> Result<usize> {
        let stream = device.cuda_stream();
        let (free, _) = stream.context().mem_get_info().map_err(candle_core::Error::wrap)?;
        Ok(free)
    }

    /// Copies so many bytes on a GPU so often, and tells in how much time, once it has done so before.
    pub(crate) fn copy(device: &CudaDevice, bytes: usize, times: usize) -> Result<Duration> {
        let stream = device.cuda_stream();
        let allocate = || stream.alloc_zeros::<u8>(bytes).map_err(candle_core::Error::wrap);
        let (from, mut to) = (allocate()?, allocate()?);
        let mut copy = || stream.memcpy_dtod(&from, &mut to).map_err(candle_core::Error::wrap);
        copy()?;
        stream.synchronize().map_err(candle_core::Error::wrap)?;
        let begun = Instant::now();
        (0..times).try_for_each(|_| copy())?;
        stream.synchronize().map_err(candle_core::Error::wrap)?;
        Ok(begun.elapsed())
    }

    /// GPUs of the machine.
    pub(crate) fn count() -> Result<usize> {
        let machine = machine(0)?;
        check(0, machine)?;
        Ok(machine.devices)
    }

    fn machine(number: usize) -> Result<Machine> {
        // SAFETY: libraries of the driver's and of CUDA's, whose beginnings and ends do nothing to us.
        let missing = LIBRARIES.into_iter().find(|library| unsafe { libloading::Library::new(*library) }.is_err());
        let none = Machine { missing, release: 0, devices: 0, capability: 0 };
        if missing.is_some() {
            return Ok(none);
        }
        let mut release = 0;
        // SAFETY: a place for a number.
        let told = unsafe { sys::cuDriverGetVersion(&mut release) };
        told.result().map_err(candle_core::Error::wrap)?;
        // A driver without a device says so here.
        let Ok(()) = result::init() else { return Ok(Machine { release, ..none }) };
        let devices = usize::try_from(result::device::get_count().map_err(candle_core::Error::wrap)?).unwrap_or(0);
        let capability = if number < devices { capability(number)? } else { 0 };
        Ok(Machine { missing, release, devices, capability })
    }

    fn device(number: usize) -> Result<sys::CUdevice> {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        Ok(result::device::get(number).map_err(candle_core::Error::wrap)?)
    }

    fn capability(number: usize) -> Result<i32> {
        use sys::CUdevice_attribute_enum::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let device = device(number)?;
        let ask = |attribute| {
            // SAFETY: the driver gave the device.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(candle_core::Error::wrap)
        };
        Ok(10 * ask(MAJOR)? + ask(MINOR)?)
    }
}

#[cfg(not(feature = "cuda"))]
mod asked {
    use std::time::Duration;

    use candle_core::{CudaDevice, Device};

    use crate::device::cuda_fault::CudaFault;
    use crate::device_kind::DeviceKind;
    use crate::error::Result;

    /// Refuses a GPU.
    pub(crate) fn open(number: usize) -> Result<Device> {
        Err(CudaFault::NotBuilt { device: DeviceKind::Cuda(number) }.into())
    }

    /// There is no GPU.
    pub(crate) fn keep_memory(_: usize) -> Result<()> {
        count().map(drop)
    }

    /// There is no GPU.
    pub(crate) fn free(_: &CudaDevice) -> Result<usize> {
        count()
    }

    /// There is no GPU.
    pub(crate) fn copy(_: &CudaDevice, _: usize, _: usize) -> Result<Duration> {
        count().map(|_| Duration::ZERO)
    }

    /// Refuses to count GPUs.
    pub(crate) fn count() -> Result<usize> {
        Err(CudaFault::NotBuilt { device: DeviceKind::Cuda(0) }.into())
    }
}

pub(crate) use asked::{copy, count, free, keep_memory, open};
