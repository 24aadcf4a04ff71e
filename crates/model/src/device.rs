//! A model on devices of candle's: the same pass, composed of tensor operations, so it runs wherever candle does; on one
//! device or, shared by ranks, on several.
//!
//! A row's bits depend on nothing but its own inputs here too. Products have a fixed number of rows, [`linear::BUCKET`], so
//! that their algorithm does not depend on how many share a pass; attention goes over positions in tiles of a fixed size,
//! in their order, for each row by itself; what ranks have parts of is added in the order of ranks.

mod answers;
mod attention;
mod best;
mod collective;
mod cuda;
mod cuda_fault;
mod fused;
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
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use crate::config::ModelConfig;
use crate::device_kind::DeviceKind;
use crate::error::Result;
use crate::kv_cache::{DevicePlace, KvPlace};
use crate::load_options::LoadOptions;
use crate::model_info::ModelInfo;
use crate::pass::Pass;
use crate::raw_parts::RawParts;
use crate::workspace::Workspace;
pub(crate) use cuda::count;
pub use cuda_fault::CudaFault;
use fused::{FusedModel, FusedPass};
use loading::Upload;
use parking_lot::Mutex;
use pass::DevicePass;
use ranks::Ranks;
use shard::Shard;
pub(crate) use shard::divides;
use weights::DeviceModel;

/// Copies that are timed together: what it takes to begin and to wait for them counts little then.
const COPIES: usize = 16;

/// A model shared by ranks, each on a device.
pub(crate) struct OnDevices {
    engine: Engine,
    /// What the devices are called.
    kind: &'static str,
    devices: Vec<Device>,
    dtype: DType,
    /// Of one row with all weights.
    multiply_adds: usize,
    /// Key and value heads that the ranks keep between them.
    kv_heads: usize,
}

/// What computes passes.
enum Engine {
    /// Operations on candle's tensors, by a thread for each rank.
    Ranks(Ranks),
    /// Kernels of our own on one device, by whoever's pass it is.
    Fused(Box<Mutex<FusedModel>>),
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
        let dtype = uploads.first().map_or(DType::F32, |upload| upload.dtype());
        let kind = kind(options.device);
        let (engine, multiply_adds) = match &devices[..] {
            [device] if is_fused(options, config) => {
                let model = FusedModel::load(info, raw, device, progress)?;
                let multiply_adds = model.multiply_adds();
                (Engine::Fused(Box::new(Mutex::new(model))), multiply_adds)
            }
            _ => {
                let models = DeviceModel::load(raw, &uploads, progress)?;
                let multiply_adds = models.iter().map(DeviceModel::multiply_adds).sum();
                (Engine::Ranks(Ranks::start(info, kind, models)?), multiply_adds)
            }
        };
        let kv_heads = shards.iter().map(|shard| shard.kv_heads(config).len()).sum();
        Ok(Self { engine, kind, devices, dtype, multiply_adds, kv_heads })
    }

    /// What it computes on, and on how many of them if there are several.
    pub(crate) fn kind(&self) -> String {
        match self.devices.len() {
            1 => self.kind.to_owned(),
            ranks => format!("{ranks}x{}", self.kind),
        }
    }

    /// Where keys and values are kept, and as what.
    pub(crate) fn kv_place(&self) -> KvPlace {
        KvPlace::Devices(DevicePlace {
            devices: self.devices.clone(),
            dtype: self.dtype,
            moves_later: matches!(self.engine, Engine::Fused(_)),
        })
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

    /// Bytes a second that the first device reads and writes when it copies so many, several times.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn copy_bandwidth(&self, bytes: usize) -> Result<f64> {
        let took = match self.devices.first() {
            Some(Device::Cuda(device)) => cuda::copy(device, bytes, COPIES)?,
            Some(device) => {
                let numbers = Tensor::zeros(bytes / size_of::<f32>(), DType::F32, device)?;
                let begun = Instant::now();
                (0..COPIES).try_for_each(|_| numbers.copy().map(drop))?;
                begun.elapsed()
            }
            None => return Ok(0.0),
        };
        Ok((2 * bytes * COPIES) as f64 / took.as_secs_f64())
    }

    /// How long each device pass takes that does the last pass's work anew so many times, one after the other; none where
    /// it was not a list of work that can be.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn repeat(&self, times: usize) -> Result<Option<Duration>> {
        match &self.engine {
            Engine::Ranks(_) => Ok(None),
            Engine::Fused(model) => model.lock().repeat(times),
        }
    }

    /// A pass of this model, once no other is at work.
    pub(crate) fn begin<'a>(&'a self, info: &'a ModelInfo, work: &'a mut Workspace) -> Box<dyn Pass + 'a> {
        match &self.engine {
            Engine::Ranks(ranks) => Box::new(DevicePass::new(info, ranks, work)),
            Engine::Fused(model) => Box::new(FusedPass::new(|| model.lock(), work)),
        }
    }
}

/// Whether kernels of our own run a model, not operations on tensors.
fn is_fused(options: &LoadOptions, config: &ModelConfig) -> bool {
    matches!(options.device, DeviceKind::Cuda(_) | DeviceKind::Emulated) && fused::supports(config, options.arithmetic)
}

/// What a device is called.
fn kind(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::Cpu | DeviceKind::Candle => "candle",
        DeviceKind::Emulated => "emulated",
        DeviceKind::Cuda(_) => "cuda",
    }
}

/// Opens a device for tensors of one's own. Those of a [`Decoder`](crate::Decoder) that is loaded for the same device are
/// not to be mixed with them: it opens the device anew. A GPU keeps what memory tensors take for the process until its end.
///
/// # Errors
/// A GPU that the program was not built for or the machine does not have.
pub fn open_device(kind: DeviceKind) -> Result<Device> {
    let device = open(kind, 0)?;
    if let DeviceKind::Cuda(number) = kind {
        cuda::keep_memory(number)?;
    }
    Ok(device)
}

/// Opens the device of a rank.
fn open(kind: DeviceKind, rank: usize) -> Result<Device> {
    match kind {
        DeviceKind::Cpu | DeviceKind::Candle | DeviceKind::Emulated => Ok(Device::Cpu),
        DeviceKind::Cuda(first) => cuda::open(first + rank),
    }
}
