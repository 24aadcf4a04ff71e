//! GPUs that write to each other's memory.

use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{CudaContext, result, sys};
use candle_core::{Error, Result};

use super::machine::Memory;

/// Memory that other GPUs write to: of the kind that is open to all that [`open_to`] was called for.
struct Open {
    context: Arc<CudaContext>,
    address: sys::CUdeviceptr,
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: it was allocated once, and whoever wrote there has ended. A GPU that fails now has failed before.
        let _ = self.context.bind_to_thread().and_then(|()| unsafe { result::free_sync(self.address) });
    }
}

/// Has a GPU write to another's memory.
///
/// # Errors
/// They are not joined in a way that allows it.
pub(super) fn open_to(from: &CudaContext, to: &CudaContext) -> Result<()> {
    if from.cu_device() == to.cu_device() {
        return Ok(());
    }
    let mut can = 0;
    // SAFETY: a place for a number, and devices that the driver gave.
    let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, from.cu_device(), to.cu_device()) };
    asked.result().map_err(Error::wrap)?;
    if can == 0 {
        let [from, to] = [from, to].map(CudaContext::ordinal);
        return Err(Error::Msg(format!(
            "GPU {from} cannot write to the memory of GPU {to}; --pipeline-parallel splits layers instead"
        )));
    }
    from.bind_to_thread().map_err(Error::wrap)?;
    // SAFETY: both contexts are those of whole devices, and outlive all models.
    match unsafe { sys::cuCtxEnablePeerAccess(to.cu_ctx(), 0) } {
        sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        told => told.result().map_err(Error::wrap),
    }
}

/// Memory of a GPU for others to write to, zero at first.
///
/// # Errors
/// There is not so much.
pub(super) fn allocate(context: &Arc<CudaContext>, bytes: usize) -> Result<Memory> {
    context.bind_to_thread().map_err(Error::wrap)?;
    // SAFETY: it is given to nobody before it is zero, or freed with `Open`.
    let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(Error::wrap)?;
    let owner = Open { context: context.clone(), address };
    // SAFETY: as above.
    unsafe { result::memset_d8_sync(address, 0, bytes.max(1)) }.map_err(Error::wrap)?;
    // The driver may return before, and is not in the order of any stream of ours.
    context.synchronize().map_err(Error::wrap)?;
    Ok(Memory::new(address, bytes, owner))
}
