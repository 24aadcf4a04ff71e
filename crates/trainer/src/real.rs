//! The two element types that training computes in: f32, and f64 where gradients are checked.

use candle_core::{CpuStorage, DType, Layout, Storage, Tensor, WithDType};

/// A floating-point number.
pub(crate) trait Real: WithDType {
    fn exp(self) -> Self;
    fn sqrt(self) -> Self;
    /// All elements of a tensor's memory, if they are of this type.
    fn elements_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

impl Real for f32 {
    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn elements_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        if let CpuStorage::F32(elements) = storage { Some(elements) } else { None }
    }
}

impl Real for f64 {
    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn elements_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        if let CpuStorage::F64(elements) = storage { Some(elements) } else { None }
    }
}

/// Runs `$body` with `$real` standing for the element type `$dtype`, which must be one of the two.
macro_rules! with_real {
    ($name:expr, $dtype:expr, $real:ident => $body:expr) => {
        match $dtype {
            candle_core::DType::F32 => {
                type $real = f32;
                $body
            }
            candle_core::DType::F64 => {
                type $real = f64;
                $body
            }
            other => Err($crate::real::unsupported($name, other)),
        }
    };
}
pub(crate) use with_real;

pub(crate) fn unsupported(name: &'static str, dtype: DType) -> candle_core::Error {
    candle_core::Error::UnsupportedDTypeForOp(dtype, name).bt()
}

/// The elements of a tensor whose memory is in order.
pub(crate) fn slice<'a, T: Real>(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<&'a [T]> {
    let (start, end) = in_order(layout)?;
    Ok(&T::cpu_storage_as_slice(storage)?[start..end])
}

/// The same, to write to.
pub(crate) fn slice_mut<'a, T: Real>(storage: &'a mut CpuStorage, layout: &Layout) -> candle_core::Result<&'a mut [T]> {
    let (start, end) = in_order(layout)?;
    match T::elements_mut(storage) {
        Some(elements) => Ok(&mut elements[start..end]),
        None => candle_core::bail!("the elements of a tensor are not of type {:?}", T::DTYPE),
    }
}

/// Hands the elements of a tensor on the CPU, whose memory is in order, to `take`.
pub(crate) fn read<T: Real, R>(tensor: &Tensor, take: impl FnOnce(&[T]) -> R) -> candle_core::Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(take(slice(storage, layout)?)),
        _ => candle_core::bail!("this operation is for the CPU"),
    }
}

fn in_order(layout: &Layout) -> candle_core::Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some(range) => Ok(range),
        None => candle_core::bail!("the elements of a tensor of shape {:?} are not in order", layout.shape()),
    }
}
