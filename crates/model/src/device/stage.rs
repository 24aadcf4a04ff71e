//! Some of a model's layers, on the devices of the ranks that share them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::fused::{self, FusedModel, FusedPass};
use super::loading;
use super::pass::DevicePass;
use super::pipeline::StagePass;
use super::rank_place::RankPlace;
use super::ranks::Ranks;
use super::weights::DeviceModel;
use crate::config::ModelConfig;
use crate::device_kind::DeviceKind;
use crate::error::Result;
use crate::kv_cache::DevicePart;
use crate::load_options::LoadOptions;
use crate::model_info::ModelInfo;
use crate::pass::Results;
use crate::raw_parts::RawStage;

/// Some of a model's layers, or all of them.
pub(super) struct Stage {
    layers: Range<usize>,
    /// Of these layers, as if they were a model.
    info: Arc<ModelInfo>,
    pub(super) places: Vec<RankPlace>,
    engine: Engine,
    /// Of one row with all weights of the stage.
    pub(super) multiply_adds: usize,
}

/// What computes passes.
enum Engine {
    /// Operations on candle's tensors, by a thread for each rank.
    Ranks(Ranks),
    /// Kernels of our own, by whoever's pass it is.
    Fused(Box<Mutex<FusedModel>>),
}

impl Stage {
    /// Loads layers for the ranks that share them; `progress` is told `(layers loaded, layers of the stage)`.
    ///
    /// # Errors
    /// An arithmetic that devices do not have, what is wrong with the model, or a device's.
    pub(super) fn load(
        info: &ModelInfo,
        raw: &RawStage<'_>,
        options: &LoadOptions,
        places: &[RankPlace],
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let info = Arc::new(info.part(raw.layers.clone()));
        let (engine, multiply_adds) = if is_fused(options, &info.config, places) {
            let model = FusedModel::load(&info, raw, places, progress)?;
            let multiply_adds = model.multiply_adds();
            (Engine::Fused(Box::new(Mutex::new(model))), multiply_adds)
        } else {
            let dtype = loading::dtype(options.arithmetic)?;
            let models = DeviceModel::load(&info.config, raw, dtype, places, progress)?;
            let multiply_adds = models.iter().map(DeviceModel::multiply_adds).sum();
            (Engine::Ranks(Ranks::start(&info, models)?), multiply_adds)
        };
        Ok(Self { layers: raw.layers.clone(), info, places: places.to_vec(), engine, multiply_adds })
    }

    /// What each of its devices keeps of keys and values.
    pub(super) fn kv_parts(&self) -> impl Iterator<Item = DevicePart> {
        self.places.iter().map(|place| DevicePart {
            device: place.device.clone(),
            layers: self.info.cache_layers(),
            kv_heads: place.shard.kv_heads(&self.info.config).len(),
        })
    }

    /// Whether kept rows are moved by the next pass, not at once.
    pub(super) fn moves_later(&self) -> bool {
        matches!(self.engine, Engine::Fused(_))
    }

    /// How long each device pass takes that does its work of the last pass anew so many times, one after the other; none
    /// where it was not a list of work that can be.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn repeat(&self, times: usize) -> Result<Option<Duration>> {
        match &self.engine {
            Engine::Ranks(_) => Ok(None),
            Engine::Fused(model) => model.lock().repeat(times),
        }
    }

    /// Its part of a pass, once no other pass is at work there.
    pub(super) fn begin<'a>(&'a self, results: &'a mut Results) -> StagePass<'a> {
        StagePass {
            layers: self.layers.clone(),
            pass: match &self.engine {
                Engine::Ranks(ranks) => Box::new(DevicePass::new(&self.info, ranks, results)),
                Engine::Fused(model) => Box::new(FusedPass::new(model.lock(), results)),
            },
            is_placed: false,
        }
    }
}

/// Whether kernels of our own run a model, not operations on tensors.
fn is_fused(options: &LoadOptions, config: &ModelConfig, places: &[RankPlace]) -> bool {
    matches!(options.device, DeviceKind::Cuda(_) | DeviceKind::Emulated)
        && fused::supports(config, options.arithmetic, places.iter().map(|place| place.shard))
}
