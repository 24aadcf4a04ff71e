//! What can go wrong between a checkpoint folder and a row of logits.

use std::path::{Path, PathBuf};

use espalier_gguf::{FileError, WriteError};
use espalier_speculation::LogitsError;

use crate::arithmetic::Arithmetic;
use crate::config::ConfigFault;
use crate::device::CudaFault;
use crate::draft::DraftFault;
use crate::gguf::GgufFault;
use crate::kv_cache::PoolFault;

/// A failure of loading or running a model.
///
/// Every message is one whole sentence that names the offending value, so nothing hides in a source chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The operating system refused to read a file.
    #[error("cannot read {}: {fault}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        fault: std::io::Error,
    },
    /// A folder lacks a file that a checkpoint needs.
    #[error("{} has no {name}", folder.display())]
    MissingFile {
        /// The folder, which may itself not exist.
        folder: PathBuf,
        /// The file, or the alternatives, that were looked for.
        name: &'static str,
    },
    /// A text file is larger than any sane one.
    #[error("{} has {bytes} bytes, more than the {limit} that are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        limit: u64,
    },
    /// `config.json` or `generation_config.json`, or what stands for them in a GGUF file, does not describe a model that
    /// can be run.
    #[error("{}: {fault}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The rule that it breaks.
        fault: ConfigFault,
    },
    /// A drafter's folder does not say what it must, or does not suit the target.
    #[error("{}: {fault}", folder.display())]
    Draft {
        /// The drafter's folder.
        folder: PathBuf,
        /// What is wrong.
        fault: DraftFault,
    },
    /// A JSON file other than the configuration is malformed.
    #[error("{}: {fault}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        fault: serde_json::Error,
    },
    /// The index of a sharded checkpoint names something that cannot be a shard beside it.
    #[error("{}: {what}", path.display())]
    ShardIndex {
        /// The index.
        path: PathBuf,
        /// The fault, with the value.
        what: String,
    },
    /// A GGUF file cannot be had, or it is none.
    #[error(transparent)]
    GgufFile(#[from] FileError),
    /// A GGUF file cannot be written.
    #[error(transparent)]
    GgufWrite(#[from] WriteError),
    /// A GGUF file does not hold a model that can be run, or a model cannot be written as one.
    #[error("{}: {fault}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: Box<GgufFault>,
    },
    /// The header of a safetensors file is malformed.
    #[error("{} is not a safetensors file: {fault}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with the header.
        fault: safetensors::SafeTensorError,
    },
    /// A safetensors file ends before its header or its tensors do, or after them.
    #[error("{} is truncated or overlong: its {bytes} bytes do not match its header", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// The checkpoint lacks a tensor.
    #[error("tensor {name} is missing from the checkpoint")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor does not have the shape that the configuration implies.
    #[error("{name} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// The shape that the configuration implies.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A tensor's elements are of a type that is not run.
    #[error("tensor {name} has element type {found}, expected {expected}")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The types that are read.
        expected: &'static str,
    },
    /// A list of tokens holds a number that cannot be one.
    #[error("{name} holds {value}, which is not a token")]
    NotAToken {
        /// The list.
        name: String,
        /// The number.
        value: i64,
    },
    /// More layers were asked for than the model has, or none.
    #[error("{asked} layers were asked for, but the model has {available} and at least 1 is needed")]
    Layers {
        /// The number asked for.
        asked: usize,
        /// The number in the model.
        available: usize,
    },
    /// Exits that are not a rising list of layers.
    #[error("exits {exits:?} must rise within the model's {layers} layers, and there must be one")]
    Exits {
        /// The layers after which rows would leave.
        exits: Vec<usize>,
        /// The number in the model.
        layers: usize,
    },
    /// Only what has one layer can know positions by hidden states.
    #[error("hidden states are read by a model of one layer, but this one has {layers}")]
    NotOneLayer {
        /// The number in the model.
        layers: usize,
    },
    /// A forward pass was given no rows.
    #[error("a forward pass needs at least one token")]
    NoTokens,
    /// A token is outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocab}")]
    Token {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        vocab: usize,
    },
    /// A position is outside the context.
    #[error("position {position} is outside the context of {context} tokens")]
    Position {
        /// The position, counted from 0.
        position: usize,
        /// The number of positions.
        context: usize,
    },
    /// A row would attend to nothing, not even itself.
    #[error("row {row} does not see itself")]
    Blind {
        /// The row.
        row: usize,
    },
    /// The operating system gave no memory for packed weights.
    #[error("no memory for packed weights: {0}")]
    Memory(std::io::Error),
    /// A sequence would outgrow what its cache was opened for.
    #[error("{needed} positions are needed, but there is room for {limit}")]
    ContextFull {
        /// Positions that the sequence would have, its tail included.
        needed: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// There are not enough blocks for keys and values.
    #[error(transparent)]
    Pool(#[from] PoolFault),
    /// A budget for keys and values is too small to be of use.
    #[error("a budget of {bytes} bytes of KV memory holds no block of {block} bytes")]
    KvBudget {
        /// The budget.
        bytes: usize,
        /// Bytes of a block.
        block: usize,
    },
    /// Devices have no room for as many keys and values.
    #[error("no room for {bytes} bytes of KV memory: {fault}; --kv-memory asks for less")]
    KvDevice {
        /// What was asked of all devices together.
        bytes: usize,
        /// What one of them said.
        fault: String,
    },
    /// One forward pass was asked for more rows than it runs.
    #[error("{rows} rows were asked for in one forward pass, the limit is {limit}")]
    Rows {
        /// Rows asked for.
        rows: usize,
        /// The most that are run.
        limit: usize,
    },
    /// A parent is not a row of the cache's tail.
    #[error("parent {row} is not one of the tail's {rows} rows")]
    TailRow {
        /// The parent.
        row: usize,
        /// Rows in the tail.
        rows: usize,
    },
    /// A row would run deeper than the one it follows, of which no state was kept to catch up from.
    #[error("a row cannot run through {needed} layers after one that has been through {found}")]
    Shallow {
        /// Layers that the earlier row has been through.
        found: usize,
        /// Layers that it would need.
        needed: usize,
    },
    /// Hidden states came for positions after one that is known by its token alone.
    #[error("the hidden states of position {position} are missing")]
    NoStates {
        /// The position, counted from 0.
        position: usize,
    },
    /// Rows to keep are not a path of the tail.
    #[error("tail row {row} of {rows} does not continue the path to keep")]
    NotAPath {
        /// The first row that is not the child of the one before it.
        row: usize,
        /// Rows in the tail.
        rows: usize,
    },
    /// A predictor was asked about a step that no round has.
    #[error("the steps of a round are counted from 1, not from 0")]
    NoStep,
    /// A number that must be finite is not.
    #[error("{what} is not finite")]
    NotFinite {
        /// What it is.
        what: &'static str,
    },
    /// Logits that no token can be chosen from, as weights that are not finite give.
    #[error(transparent)]
    Logits(#[from] LogitsError),
    /// A GPU that cannot be used.
    #[error(transparent)]
    Cuda(#[from] CudaFault),
    /// An arithmetic that only kernels on the processor have.
    #[error("{arithmetic} is computed by the processor alone; other devices compute in f32 or bf16")]
    NotOnDevices {
        /// The arithmetic.
        arithmetic: Arithmetic,
    },
    /// More ranks than can share a model.
    #[error(
        "{heads} heads with {kv_heads} of keys and values cannot be shared by {ranks} ranks; {possible:?} ranks can share \
         them, and --pipeline-parallel splits layers instead"
    )]
    Ranks {
        /// Ranks asked for.
        ranks: usize,
        /// Query heads of the model.
        heads: usize,
        /// Key and value heads of the model.
        kv_heads: usize,
        /// Numbers of ranks that can share it.
        possible: Vec<usize>,
    },
    /// No stages, or more than layers.
    #[error("{layers} layers cannot be split into {stages} stages: each has at least one")]
    Stages {
        /// Stages asked for.
        stages: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Several ranks where there is one processor with all threads.
    #[error("{way} parallelism over {ranks} ranks needs GPUs; device cpu runs a model whole, on all threads")]
    RanksOnCpu {
        /// Tensor or pipeline.
        way: &'static str,
        /// Ranks asked for.
        ranks: usize,
    },
    /// What computes has failed, and is not asked again.
    #[error("rank {rank} of {ranks} on device {device} failed: {fault}")]
    RankFailed {
        /// The rank, counted from 0.
        rank: usize,
        /// Ranks that have the model, in all stages.
        ranks: usize,
        /// Where it runs.
        device: &'static str,
        /// What it said.
        fault: String,
    },
    /// A device has not the memory that a pass needs.
    #[error("rank {rank} of {ranks} on device {device} has no memory left for a pass: {fault}")]
    DeviceMemory {
        /// The rank, counted from 0.
        rank: usize,
        /// Ranks that have the model, in all stages.
        ranks: usize,
        /// Where it runs.
        device: &'static str,
        /// What it said.
        fault: String,
    },
    /// The system has no thread for a rank.
    #[error("no thread for a rank: {0}")]
    Thread(std::io::Error),
    /// Keys and values of a model that runs elsewhere.
    #[error("a cache has its keys and values on another device than the model")]
    CacheElsewhere,
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl ModelError {
    /// Whether the model cannot be used any more.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::RankFailed { .. })
    }

    pub(crate) fn io(path: &Path, fault: std::io::Error) -> Self {
        let path = path.to_owned();
        Self::Io { path, fault }
    }
}

/// The result of loading or running a model.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
