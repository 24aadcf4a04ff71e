//! What a command line says of a system that is to be started.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;

use espalier_gateway::Renderer;
use espalier_model::{Compute, ComputeConflict, Degree, DeviceKind, Parallel, Quantize};
use espalier_service_kit::MemoryBudget;

/// What a system that is started here is made of.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SystemArgs {
    /// The folder that holds checkpoints by name; found beside the program when absent.
    #[arg(long, global = true, env = "ESPALIER_MODELS", value_name = "DIR")]
    pub models: Option<PathBuf>,
    /// Threads that the models compute with, in turns; all processors when absent.
    #[arg(long, global = true, env = "ESPALIER_THREADS", value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Predictors of acceptance for the policy `cali-ts`, by name in the folder of models or by path: each goes to the
    /// drafter that it was trained with.
    #[arg(
        long = "predictor",
        global = true,
        env = "ESPALIER_PREDICTORS",
        value_delimiter = ',',
        value_name = "P[,P…]"
    )]
    pub predictors: Vec<String>,
    /// Thresholds of exits by target and drafter, as `espalier tune thresholds` writes them; when absent `profiles.json` of
    /// the folder of models, if all models are from there. A drafter with several exits that is not named there tunes its
    /// own for each target while it serves.
    #[arg(long, global = true, env = "ESPALIER_PROFILES", value_name = "FILE.json")]
    pub profiles: Option<PathBuf>,
    /// Memory for the keys and values of each model that is served, like `512MiB`, or `40%` of what is free once it is
    /// loaded; what suits model and machine when absent.
    #[arg(long, global = true, env = "ESPALIER_KV_MEMORY", value_name = "BYTES|PERCENT")]
    pub kv_memory: Option<MemoryBudget>,
    /// What targets multiply matrices in: `f32`; `bf16` or `bf16-dot`, weights and inputs rounded to that; `int8`, both
    /// rounded to 8 bits; `int8-q4`, weights to 4; `stored`, `int8-q4` or `int8` for quantized files, by what they hold, and
    /// `f32` for floats; or `auto`, the same but for floats of 16 bits what this processor has instructions for.
    #[arg(long, global = true, env = "ESPALIER_COMPUTE", default_value_t, value_name = "ARITHMETIC")]
    pub compute: Compute,
    /// What drafters multiply matrices in, which changes no text: as for targets, or `draft`, `int8-q4` for files of 4 bits
    /// and `int8` for all else; `draft` when absent.
    #[arg(long, global = true, env = "ESPALIER_DRAFT_COMPUTE", value_name = "ARITHMETIC")]
    pub draft_compute: Option<Compute>,
    /// Where targets run and models are trained: `cpu`; `cuda` or `cuda:N`, an NVIDIA GPU, if the program was built for it;
    /// or `candle`, what runs on GPUs on the processor, to try it.
    #[arg(long, global = true, env = "ESPALIER_DEVICE", default_value_t, value_name = "DEVICE")]
    pub device: DeviceKind,
    /// GPUs that share each layer of a target, from the device on: a number, or `auto` for as many as there are and can
    /// share it.
    #[arg(long, global = true, env = "ESPALIER_TENSOR_PARALLEL", default_value_t, value_name = "N")]
    pub tensor_parallel: Degree,
    /// Stages that a target's layers are split into, each on GPUs of its own, from the device on: a number, or `auto` for as
    /// many as there are GPUs.
    #[arg(long, global = true, env = "ESPALIER_PIPELINE_PARALLEL", default_value_t, value_name = "N")]
    pub pipeline_parallel: Degree,
    /// Where drafters run; where targets do when absent.
    #[arg(long, global = true, env = "ESPALIER_DRAFT_DEVICE", value_name = "DEVICE")]
    pub draft_device: Option<DeviceKind>,
    /// Round weights of targets to `q8` or `q4` at load, to be multiplied in `int8`.
    #[arg(long, global = true, env = "ESPALIER_QUANTIZE", value_name = "BITS")]
    pub quantize: Option<Quantize>,
    /// How the gateway renders chat templates; in this process unless the program says otherwise.
    #[arg(skip)]
    pub renderer: Renderer,
}

impl SystemArgs {
    /// What targets multiply matrices in.
    ///
    /// # Errors
    /// Weights that are to be rounded for another arithmetic.
    pub fn target_compute(&self) -> Result<Compute, ComputeConflict> {
        self.compute.quantized(self.quantize)
    }

    /// What drafters multiply matrices in.
    pub fn draft_compute(&self) -> Compute {
        self.draft_compute.unwrap_or(Compute::Draft)
    }

    /// How targets are spread over devices.
    pub fn parallel(&self) -> Parallel {
        Parallel { tensor: self.tensor_parallel, pipeline: self.pipeline_parallel }
    }

    /// Where drafters run.
    pub fn draft_device(&self) -> DeviceKind {
        self.draft_device.unwrap_or(self.device)
    }

    /// Threads that the models compute with, in turns.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(processors, usize::from)
    }
}

/// All processors.
pub fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}
