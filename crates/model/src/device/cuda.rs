//! Asks a machine for its GPUs, before anything of CUDA's is used, so that the answer is a sentence.

#[cfg(feature = "cuda")]
mod asked {
    use candle_core::cuda_backend::cudarc::driver::{result, sys};
    use candle_core::{CudaDevice, Device};

    use crate::device::cuda_fault::{Machine, check};
    use crate::error::Result;

    /// What programs call functions of.
    const LIBRARIES: [&str; 3] = ["libcuda.so.1", "libcublas.so.13", "libcurand.so.10"];

    /// Opens a GPU, by its number.
    pub(crate) fn open(number: usize) -> Result<Device> {
        check(number, machine(number)?)?;
        Ok(Device::new_cuda(number)?)
    }

    /// Bytes that are free on a GPU.
    pub(crate) fn free(device: &CudaDevice) -> Result<usize> {
        let stream = device.cuda_stream();
        let (free, _) = stream.context().mem_get_info().map_err(candle_core::Error::wrap)?;
        Ok(free)
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

    fn capability(number: usize) -> Result<i32> {
        use sys::CUdevice_attribute_enum::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let device =
            result::device::get(i32::try_from(number).unwrap_or(i32::MAX)).map_err(candle_core::Error::wrap)?;
        let ask = |attribute| {
            // SAFETY: the driver gave the device.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(candle_core::Error::wrap)
        };
        Ok(10 * ask(MAJOR)? + ask(MINOR)?)
    }
}

#[cfg(not(feature = "cuda"))]
mod asked {
    use candle_core::{CudaDevice, Device};

    use crate::device::cuda_fault::CudaFault;
    use crate::device_kind::DeviceKind;
    use crate::error::Result;

    /// Refuses a GPU.
    pub(crate) fn open(number: usize) -> Result<Device> {
        Err(CudaFault::NotBuilt { device: DeviceKind::Cuda(number) }.into())
    }

    /// There is no GPU.
    pub(crate) fn free(_: &CudaDevice) -> Result<usize> {
        count()
    }

    /// Refuses to count GPUs.
    pub(crate) fn count() -> Result<usize> {
        Err(CudaFault::NotBuilt { device: DeviceKind::Cuda(0) }.into())
    }
}

pub(crate) use asked::{count, free, open};
