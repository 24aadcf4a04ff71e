//! Rows times a matrix, with sums that are told in f32 whatever the matrix is kept in.
//!
//! Candle's product of two tensors in bf16 is in bf16 too: near 8, neighbouring logits would be 1/16 apart.

use candle_core::{CpuStorage, CudaStorage, CustomOp2, DType, Device, Error, Layout, Result, Shape, Tensor};

/// A matrix (out, in) as products take it. Where the device has no product with wide sums, that is a copy in f32.
pub(super) struct Operand(Tensor);

/// Products of bf16 with sums in f32.
struct WideSums;

impl Operand {
    pub(super) fn new(weight: &Tensor) -> Result<Self> {
        match weight.device() {
            Device::Cuda(_) => Ok(Self(weight.clone())),
            Device::Cpu | Device::Metal(_) => weight.to_dtype(DType::F32).map(Self),
        }
    }

    /// `x` (rows, in), in what the matrix is kept in, to (rows, out) in f32.
    pub(super) fn product(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.to_dtype(self.0.dtype())?;
        match self.0.dtype() {
            DType::BF16 => x.force_contiguous()?.apply_op2_no_bwd(&self.0, &WideSums),
            _ => x.matmul(&self.0.t()?),
        }
    }
}

impl CustomOp2 for WideSums {
    fn name(&self) -> &'static str {
        "bf16-product-in-f32"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Err(Error::Msg("on the processor such products are computed in f32".to_owned()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        on_gpu::product(x, x_layout, weight, weight_layout)
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        Err(Error::NotCompiledWithCudaSupport)
    }
}

#[cfg(feature = "cuda")]
mod on_gpu {
    use candle_core::backend::BackendStorage;
    use candle_core::cuda_backend::WrapErr;
    use candle_core::cuda_backend::cudarc::cublas::{result, sys};
    use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut};
    use candle_core::{CudaStorage, Error, Layout, Result, Shape};
    use half::bf16;

    /// cuBLAS's product. It reads and writes columns first, where a matrix (a, b) of ours is one of (b, a): so what it is
    /// asked for is the weight times the rows.
    pub(super) fn product(
        x: &CudaStorage,
        x_layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let ((rows, inputs), (outputs, _)) = (x_layout.shape().dims2()?, weight_layout.shape().dims2()?);
        let (Some(x_at), Some(weight_at)) = (x_layout.contiguous_offsets(), weight_layout.contiguous_offsets()) else {
            return Err(Error::Msg("a product of tensors that are not contiguous".to_owned()));
        };
        let device = x.device().clone();
        let x = x.as_cuda_slice::<bf16>()?.slice(x_at.0..x_at.1);
        let weight = weight.as_cuda_slice::<bf16>()?.slice(weight_at.0..weight_at.1);
        // SAFETY: the product writes all of it.
        let mut sums = unsafe { device.alloc::<f32>(rows * outputs) }?;
        {
            let (blas, stream) = (device.cublas_handle(), device.cuda_stream());
            let (x, _x_is_read) = x.device_ptr(&stream);
            let (weight, _weight_is_read) = weight.device_ptr(&stream);
            let (out, _sums_are_written) = sums.device_ptr_mut(&stream);
            let (one, zero) = (1.0_f32, 0.0_f32);
            let [rows, inputs, outputs] = [rows, inputs, outputs].map(|count| count as i32);
            // SAFETY: pointers to tensors of these sizes on the device whose handle and stream these are.
            unsafe {
                result::gemm_ex(
                    *blas.handle(),
                    sys::cublasOperation_t::CUBLAS_OP_T,
                    sys::cublasOperation_t::CUBLAS_OP_N,
                    outputs,
                    rows,
                    inputs,
                    (&raw const one).cast(),
                    weight as *const _,
                    sys::cudaDataType_t::CUDA_R_16BF,
                    inputs,
                    x as *const _,
                    sys::cudaDataType_t::CUDA_R_16BF,
                    inputs,
                    (&raw const zero).cast(),
                    out as *mut _,
                    sys::cudaDataType_t::CUDA_R_32F,
                    outputs,
                    sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                    sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT_TENSOR_OP,
                )
            }
            .w()?;
        }
        Ok((CudaStorage::wrap_cuda_slice(sums, device), (rows, outputs).into()))
    }
}
