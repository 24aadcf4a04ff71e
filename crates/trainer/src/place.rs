//! Where a training computes.

use candle_core::Device;
use espalier_model::{Arithmetic, Compute, DeviceKind, LoadOptions, Weights, open_device};

use crate::error::Result;

/// Where a training computes: the tensors in training, the optimiser's memory and the batches are there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    kind: DeviceKind,
    device: Device,
}

impl Place {
    /// Opens a device. On a GPU products of f32 are in TF32 from here on, in the whole process: factors are rounded to 11
    /// significant bits, sums are in f32, and they take a tenth of the time.
    ///
    /// # Errors
    /// A GPU that the program was not built for or the machine does not have.
    pub(crate) fn open(kind: DeviceKind) -> Result<Self> {
        let device = open_device(kind)?;
        if matches!(kind, DeviceKind::Cuda(_)) {
            candle_core::cuda::set_gemm_reduced_precision_f32(true);
        }
        Ok(Self { kind, device })
    }

    /// What was asked for.
    pub(crate) fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Where tensors are.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// How a model with these weights is loaded that runs here as it is served.
    pub(crate) fn load_options(&self, weights: &Weights) -> LoadOptions {
        served_on(self.kind, weights)
    }

    /// Whether kernels of our own stand in for tensor operations that would read and write the same memory several times:
    /// they are for the processor.
    pub(crate) fn has_kernels(&self) -> bool {
        self.kind == DeviceKind::Cpu
    }
}

/// How a model with these weights is loaded that runs on a device as it is served: in f32 on the processor, and elsewhere
/// in what it is served in unless told otherwise.
pub(crate) fn served_on(device: DeviceKind, weights: &Weights) -> LoadOptions {
    let arithmetic = match device {
        DeviceKind::Cpu => Arithmetic::F32,
        _ => Compute::Stored.of(weights, device),
    };
    LoadOptions { arithmetic, device, ..LoadOptions::default() }
}
