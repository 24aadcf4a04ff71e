//! A model on devices of candle's: the same pass, composed of tensor operations, so it runs wherever candle does; on one
//! device or on several: ranks share every layer, and stages have some of the layers each.
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
mod pipeline;
mod placement;
mod product;
mod rank;
mod rank_place;
mod ranks;
mod shard;
mod split;
mod stage;
mod weights;

use std::ops::Range;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use crate::config::ModelConfig;
use crate::device_kind::DeviceKind;
use crate::error::Result;
use crate::kv_cache::{DevicePart, DevicePlace, KvPlace};
use crate::load_options::LoadOptions;
use crate::model_info::ModelInfo;
use crate::parallel::Degrees;
use crate::pass::{Pass, Results};
use crate::raw_parts::{RawParts, RawStage};
use crate::workspace::Workspace;
pub(crate) use cuda::count;
pub use cuda_fault::CudaFault;
use pipeline::PipelinePass;
use rank_place::RankPlace;
use shard::Shard;
pub(crate) use shard::divides;
use split::{Parameters, split};
use stage::Stage;

/// Copies that are timed together: what it takes to begin and to wait for them counts little then.
const COPIES: usize = 16;

/// A model on devices.
pub(crate) struct OnDevices {
    /// In the order of their layers; at least one.
    stages: Vec<Stage>,
    /// What the devices are called.
    kind: &'static str,
    /// Ranks that share each layer.
    ranks: usize,
    /// What matrices, keys and values are kept in.
    dtype: DType,
}

impl OnDevices {
    /// Loads a model for the ranks and stages that are asked for; `progress` is told `(layers loaded, layers in all)`.
    ///
    /// # Errors
    /// Devices that the program was not built for or the machine does not have, ranks that cannot share the model, more
    /// stages than layers, an arithmetic that devices do not have, or what is wrong with the model.
    pub(crate) fn load(
        info: &ModelInfo,
        raw: &RawParts,
        options: &LoadOptions,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let Degrees { tensor, pipeline } = options.parallel.of(options.device, info)?;
        let shards = Shard::all(&info.config, tensor)?;
        let stages = split(&Parameters::of(&info.config), info.layers, pipeline)?;
        let dtype = loading::dtype(options.arithmetic)?;
        let places = RankPlace::open_all(options.device, &shards, pipeline)?;
        let load = |(layers, places): (Range<usize>, &[RankPlace])| {
            let (first, raw) = (layers.start, RawStage { parts: raw, layers });
            Stage::load(info, &raw, options, places, |loaded, _| progress(first + loaded, info.layers))
        };
        let stages = stages.into_iter().zip(places.chunks(tensor)).map(load).collect::<Result<_>>()?;
        Ok(Self { stages, kind: rank_place::name(options.device), ranks: tensor, dtype })
    }

    /// What it computes on, and how many of them share each layer if there are several. Stages compute what one device
    /// computes.
    pub(crate) fn kind(&self) -> String {
        match self.ranks {
            1 => self.kind.to_owned(),
            ranks => format!("{ranks}x{}", self.kind),
        }
    }

    /// Where keys and values are kept, and as what.
    pub(crate) fn kv_place(&self) -> KvPlace {
        KvPlace::Devices(DevicePlace {
            parts: self.kv_parts().collect(),
            dtype: self.dtype,
            moves_later: self.stages.iter().any(Stage::moves_later),
        })
    }

    fn kv_parts(&self) -> impl Iterator<Item = DevicePart> {
        self.stages.iter().flat_map(Stage::kv_parts)
    }

    /// Key and value heads that the ranks of a layer keep between them: more than the model has where several keep the
    /// same.
    pub(crate) fn kv_heads(&self) -> usize {
        self.stages.first().map_or(0, |stage| stage.kv_parts().map(|part| part.kv_heads).sum())
    }

    /// Bytes that are free for keys and values on all devices together; none where they are in the host's memory. A block
    /// is on all of them, so the one with the least for each head that it keeps counts for all.
    ///
    /// # Errors
    /// A device's.
    pub(crate) fn free(&self) -> Result<Option<usize>> {
        let places = self.stages.iter().flat_map(|stage| &stage.places);
        let each: Option<Vec<usize>> = places.map(RankPlace::free).collect::<Result<_>>()?;
        Ok(each.map(|each| usable(&each, &self.kv_parts().map(|part| part.heads()).collect::<Vec<_>>())))
    }

    /// Bytes of weights that one pass reads, whatever its number of rows.
    pub(crate) fn bytes(&self) -> usize {
        self.multiply_adds() * self.dtype.size_in_bytes()
    }

    /// Multiply-adds of one row with weights.
    pub(crate) fn multiply_adds(&self) -> usize {
        self.stages.iter().map(|stage| stage.multiply_adds).sum()
    }

    /// Bytes a second that the first device reads and writes when it copies so many, several times.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn copy_bandwidth(&self, bytes: usize) -> Result<f64> {
        let first = self.stages.first().and_then(|stage| stage.places.first());
        let took = match first.map(|place| &place.device) {
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
    /// it was not a list of work that can be. Stages take the sum of their times.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn repeat(&self, times: usize) -> Result<Option<Duration>> {
        self.stages.iter().map(|stage| stage.repeat(times)).sum()
    }

    /// A pass of this model, once no other is at work. All passes wait for the stages in the same order.
    pub(crate) fn begin<'a>(&'a self, work: &'a mut Workspace) -> Box<dyn Pass + 'a> {
        let asked = Instant::now();
        work.of_stages.resize_with(self.stages.len() - 1, Results::default);
        let results = work.of_stages.iter_mut().chain([&mut work.results]);
        let mut stages: Vec<_> = self.stages.iter().zip(results).map(|(stage, results)| stage.begin(results)).collect();
        work.waited = asked.elapsed();
        match stages.len() {
            1 => stages.remove(0).pass,
            _ => Box::new(PipelinePass::new(stages)),
        }
    }
}

/// Opens a device for tensors of one's own. Those of a [`Decoder`](crate::Decoder) that is loaded for the same device are
/// not to be mixed with them: it opens the device anew. A GPU keeps what memory tensors take for the process until its end.
///
/// # Errors
/// A GPU that the program was not built for or the machine does not have.
pub fn open_device(kind: DeviceKind) -> Result<Device> {
    let device = rank_place::open(kind, 0)?;
    if let DeviceKind::Cuda(number) = kind {
        cuda::keep_memory(number)?;
    }
    Ok(device)
}

impl Parameters {
    /// Those of a model.
    fn of(config: &ModelConfig) -> Self {
        let ends = config.vocab * config.hidden;
        Self { embedding: ends, layer: config.layer_parameters(), head: ends }
    }
}

/// Bytes that may be used on all devices together, `free` of which each has, if they are used on each in proportion to
/// its share.
fn usable(free: &[usize], shares: &[usize]) -> usize {
    let all: usize = shares.iter().sum();
    let usable = free.iter().zip(shares).filter(|(_, share)| **share > 0).map(|(free, share)| free / share * all);
    usable.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_with_the_least_for_its_share_counts_for_all() {
        assert_eq!(usable(&[1000], &[8]), 1000);
        // Ranks share alike; of stages the one with most layers has to have most.
        assert_eq!(usable(&[1000, 800], &[4, 4]), 1600);
        assert_eq!(usable(&[1000, 1000, 400], &[10, 4, 2]), 1600);
        assert_eq!(usable(&[2000, 1000, 100], &[10, 4, 2]), 800);
    }
}
