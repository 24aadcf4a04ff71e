//! A model ready to run, and what can be said of it whatever computes it.

use std::time::Duration;

use crate::arithmetic::Arithmetic;
use crate::checkpoint::Checkpoint;
use crate::config::ModelConfig;
use crate::device::OnDevices;
use crate::device_kind::DeviceKind;
use crate::error::Result;
use crate::kv_cache::{BLOCK, BlockPool, CacheShape, KvCache, KvFormat, KvPlace};
use crate::load_options::LoadOptions;
use crate::model_info::ModelInfo;
use crate::packed::{Packed, PackedPass};
use crate::pass::Pass;
use crate::raw_parts::{Part, RawParts};
use crate::rotations::Rotations;
use crate::weights::Weights;
use crate::workspace::Workspace;

/// A model ready to run: immutable, shared by any number of [`Workspace`]s.
pub struct Decoder {
    info: ModelInfo,
    arithmetic: Arithmetic,
    engine: Engine,
}

/// What has the weights, and computes passes.
enum Engine {
    /// Kernels on the CPU.
    Packed(Packed),
    /// Devices of candle's.
    Devices(OnDevices),
}

impl Decoder {
    /// Loads and packs a checkpoint.
    ///
    /// # Errors
    /// Whatever is wrong with the folder: files, tensors, shapes; or more layers asked for than there are.
    pub fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self> {
        Self::load_with_progress(checkpoint, options, |_, _| {})
    }

    /// [`Self::load`], reporting `(layers packed, layers in all)` as it goes.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with_progress(
        checkpoint: &Checkpoint,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let model = Part { config: checkpoint.config.clone(), weights: checkpoint.weights()? };
        Self::pack(checkpoint.config.clone(), &RawParts::new(model, options.layers)?, options, progress)
    }

    /// A model of random weights, as bf16 as checkpoints have them: what passes of its sizes cost can be measured, and
    /// what it says is noise. The same seed gives the same weights. `progress` is told `(layers packed, layers in all)`.
    ///
    /// # Errors
    /// More layers asked for than there are, or no memory left.
    pub fn random(
        config: &ModelConfig,
        seed: u64,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let model = Part { config: config.clone(), weights: Weights::random(seed) };
        Self::pack(config.clone(), &RawParts::new(model, options.layers)?, options, progress)
    }

    /// A model of the parts of one or two, of the shapes that `config` implies.
    pub(crate) fn pack(
        config: ModelConfig,
        raw: &RawParts,
        options: &LoadOptions,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let layers_of_states = if raw.has_states() { raw.layers() } else { 0 };
        let rotations = Rotations::new(&config);
        let info = ModelInfo { config, rotations, layers: raw.layers(), layers_of_states };
        let engine = match options.device {
            DeviceKind::Cpu => {
                options.parallel.of(options.device, &info)?;
                Engine::Packed(Packed::load(&info.config, raw, options, progress)?)
            }
            _ => Engine::Devices(OnDevices::load(&info, raw, options, progress)?),
        };
        Ok(Self { info, arithmetic: options.arithmetic, engine })
    }

    /// The model's sizes and conventions.
    pub fn config(&self) -> &ModelConfig {
        &self.info.config
    }

    /// What its products are computed in.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// The arithmetic of our kernels that it computes in, if they are what computes.
    pub fn by_kernels(&self) -> Option<Arithmetic> {
        match &self.engine {
            Engine::Packed(_) => Some(self.arithmetic),
            Engine::Devices(_) => None,
        }
    }

    /// Bytes a second at which so many can be read over and over where its weights are; on a device, those that a copy
    /// reads and writes.
    ///
    /// # Errors
    /// The device's.
    pub fn bandwidth(&self, work: &mut Workspace, bytes: usize) -> Result<f64> {
        match &self.engine {
            Engine::Packed(_) => Ok(work.read_bandwidth(bytes)),
            Engine::Devices(model) => model.copy_bandwidth(bytes),
        }
    }

    /// How long a device takes for the last pass, done anew so many times without the host in between; none where that is
    /// not known.
    ///
    /// # Errors
    /// The device's.
    pub fn device_time(&self, times: usize) -> Result<Option<Duration>> {
        match &self.engine {
            Engine::Packed(_) => Ok(None),
            Engine::Devices(model) => model.repeat(times),
        }
    }

    /// What it computes in, and where if that is no processor with kernels of ours: texts are the same to the byte
    /// where this is the same.
    pub fn computes_in(&self) -> String {
        match &self.engine {
            Engine::Packed(_) => self.arithmetic.to_string(),
            Engine::Devices(model) => format!("{}@{}", self.arithmetic, model.kind()),
        }
    }

    /// Layers loaded.
    pub fn layers(&self) -> usize {
        self.info.layers
    }

    /// An empty cache with memory of its own, for one sequence of this model.
    pub fn new_cache(&self) -> KvCache {
        KvCache::alone(self.cache_shape(), &self.kv_place())
    }

    /// A pool of at most `bytes` for the caches of this model.
    ///
    /// # Errors
    /// [`KvBudget`](crate::ModelError::KvBudget) when that is less than one block.
    pub fn block_pool(&self, bytes: usize) -> Result<BlockPool> {
        BlockPool::new(self.cache_shape(), &self.kv_place(), bytes)
    }

    /// Bytes of the blocks of one sequence that fills the context.
    pub fn context_bytes(&self) -> usize {
        let shape = self.cache_shape();
        shape.context_blocks().saturating_mul(shape.block_bytes())
    }

    /// Bytes that are free for keys and values on the devices that keep them; none where the host's memory does.
    ///
    /// # Errors
    /// A device's.
    pub fn free_on_devices(&self) -> Result<Option<usize>> {
        match &self.engine {
            Engine::Packed(_) => Ok(None),
            Engine::Devices(model) => model.free(),
        }
    }

    /// Layers of a cache: after the model's own those of states that stand beside tokens.
    pub(crate) fn cache_layers(&self) -> usize {
        self.info.cache_layers()
    }

    fn cache_shape(&self) -> CacheShape {
        CacheShape {
            layers: self.cache_layers(),
            kv_heads: self.kv_heads(),
            head_dim: self.info.config.head_dim,
            context: self.info.config.context,
            format: self.kv_format(),
        }
    }

    fn kv_place(&self) -> KvPlace {
        match &self.engine {
            Engine::Packed(_) => KvPlace::Host,
            Engine::Devices(model) => model.kv_place(),
        }
    }

    /// Key and value heads that are kept.
    fn kv_heads(&self) -> usize {
        match &self.engine {
            Engine::Packed(_) => self.info.config.kv_heads,
            Engine::Devices(model) => model.kv_heads(),
        }
    }

    /// What keys and values are kept as.
    fn kv_format(&self) -> KvFormat {
        KvFormat::of(self.arithmetic)
    }

    /// Bytes of weights that one forward pass reads, whatever its number of rows.
    pub fn weight_bytes(&self) -> usize {
        match &self.engine {
            Engine::Packed(model) => model.bytes(),
            Engine::Devices(model) => model.bytes(),
        }
    }

    /// Bytes of keys and values that a row with `context` visible positions reads.
    pub fn cache_bytes(&self, context: usize) -> usize {
        self.cache_shape().block_bytes() * context / BLOCK
    }

    /// Multiply-adds of one row at `context` visible positions, as floating-point operations (two each).
    pub fn flops(&self, context: usize) -> usize {
        let products = match &self.engine {
            Engine::Packed(model) => model.multiply_adds(),
            Engine::Devices(model) => model.multiply_adds(),
        };
        2 * (products + self.cache_layers() * 2 * self.info.config.heads * self.info.config.head_dim * context)
    }

    /// Refuses a token that there is not.
    pub(crate) fn check_token(&self, token: u32) -> Result<()> {
        self.info.check_token(token)
    }

    /// A pass of this model, as soon as what computes it is free.
    pub(crate) fn begin<'a>(&'a self, work: &'a mut Workspace) -> Box<dyn Pass + 'a> {
        match &self.engine {
            Engine::Packed(model) => Box::new(PackedPass::new(&self.info, model, work)),
            Engine::Devices(model) => model.begin(work),
        }
    }
}
