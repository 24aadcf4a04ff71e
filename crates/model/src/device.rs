//! A model on devices of candle's: the same pass, composed of tensor operations, so it runs wherever candle does; on one
//! device or, shared by ranks, on several.
//!
//! A row's bits depend on nothing but its own inputs here too. Products have a fixed number of rows, [`linear::BUCKET`], so
//! that their algorithm does not depend on how many share a pass; attention goes over positions in tiles of a fixed size,
//! in their order, for each row by itself; what ranks have parts of is added in the order of ranks.

mod attention;
mod best;
mod collective;
mod cuda;
mod cuda_fault;
mod linear;
mod loading;
mod pass;
mod placement;
mod product;
mod rank;
mod ranks;
mod shard;
mod weights;

use std::sync::Arc;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};

use crate::device_kind::DeviceKind;
use crate::error::Result;
use crate::kv_cache::KvPlace;
use crate::load_options::LoadOptions;
use crate::model_info::ModelInfo;
use crate::raw_parts::RawParts;
use crate::workspace::Workspace;
pub(crate) use cuda::count;
pub use cuda_fault::CudaFault;
use loading::Upload;
pub(crate) use pass::DevicePass;
use ranks::Ranks;
use shard::Shard;
pub(crate) use shard::divides;
use weights::{DeviceModel, kind};

/// How often a copy is timed.
const COPIES: usize = 7;

/// A model shared by ranks, each on a device.
pub(crate) struct OnDevices {
    ranks: Ranks,
    devices: Vec<Device>,
    dtype: DType,
    /// Of one row with all weights.
    multiply_adds: usize,
    /// Key and value heads that the ranks keep between them.
    kv_heads: usize,
}

impl OnDevices {
    /// Loads a model for the ranks that are asked for; `progress` is told `(layers loaded, layers in all)`.
    ///
    /// # Errors
    /// Devices that the program was not built for or the machine does not have, ranks that cannot share the model, an
    /// arithmetic that devices do not have, or what is wrong with the model.
    pub(crate) fn load(
        info: &Arc<ModelInfo>,
        raw: &RawParts,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let config = &info.config;
        let shards = Shard::all(config, options.ranks.of(options.device, config)?)?;
        let devices: Vec<Device> =
            shards.iter().map(|shard| open(options.device, shard.rank)).collect::<Result<_>>()?;
        let uploads = shards.iter().zip(&devices);
        let uploads: Vec<Upload<'_>> = uploads
            .map(|(shard, device)| Upload::new(config, options.arithmetic, device.clone(), *shard))
            .collect::<Result<_>>()?;
        let models = DeviceModel::load(raw, &uploads, progress)?;
        let multiply_adds = models.iter().map(DeviceModel::multiply_adds).sum();
        let dtype = models.first().map_or(DType::F32, |model| model.dtype);
        let kv_heads = shards.iter().map(|shard| shard.kv_heads(config).len()).sum();
        Ok(Self { ranks: Ranks::start(info, models)?, devices, dtype, multiply_adds, kv_heads })
    }

    /// What it computes on, and on how many of them if there are several.
    pub(crate) fn kind(&self) -> String {
        let kind = self.devices.first().map_or("candle", kind);
        match self.devices.len() {
            1 => kind.to_owned(),
            ranks => format!("{ranks}x{kind}"),
        }
    }

    /// Where keys and values are kept, and as what.
    pub(crate) fn kv_place(&self) -> KvPlace {
        KvPlace::Devices(self.devices.clone(), self.dtype)
    }

    /// Key and value heads that all ranks keep between them: more than the model has where several keep the same.
    pub(crate) fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Bytes that are free for keys and values on all devices together; none where they are in the host's memory. Each
    /// rank keeps as many, so the device with the least counts for all.
    ///
    /// # Errors
    /// A device's.
    pub(crate) fn free(&self) -> Result<Option<usize>> {
        let free = |device: &Device| match device {
            Device::Cuda(device) => cuda::free(device).map(Some),
            Device::Cpu | Device::Metal(_) => Ok(None),
        };
        let each: Option<Vec<usize>> = self.devices.iter().map(free).collect::<Result<_>>()?;
        Ok(each.and_then(|each| Some(each.iter().min()? * each.len())))
    }

    /// Bytes of weights that one pass reads, whatever its number of rows.
    pub(crate) fn bytes(&self) -> usize {
        self.multiply_adds * self.dtype.size_in_bytes()
    }

    /// Multiply-adds of one row with weights.
    pub(crate) fn multiply_adds(&self) -> usize {
        self.multiply_adds
    }

    /// Bytes a second that the first device reads and writes when it copies so many: the best of several times.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn copy_bandwidth(&self, bytes: usize) -> Result<f64> {
        let Some(device) = self.devices.first() else { return Ok(0.0) };
        let numbers = Tensor::zeros(bytes / size_of::<f32>(), DType::F32, device)?;
        let mut best = f64::INFINITY;
        for _ in 0..COPIES {
            device.synchronize()?;
            let begun = Instant::now();
            let copy = numbers.copy()?;
            device.synchronize()?;
            best = best.min(begun.elapsed().as_secs_f64());
            drop(copy);
        }
        Ok(2.0 * bytes as f64 / best)
    }

    /// A pass of this model, once no other is at work.
    pub(crate) fn begin<'a>(&'a self, info: &'a ModelInfo, work: &'a mut Workspace) -> DevicePass<'a> {
        DevicePass::new(info, &self.ranks, work)
    }
}

/// Opens the device of a rank.
fn open(kind: DeviceKind, rank: usize) -> Result<Device> {
    match kind {
        DeviceKind::Cpu | DeviceKind::Candle => Ok(Device::Cpu),
        DeviceKind::Cuda(first) => cuda::open(first + rank),
    }
}
