//! The weights of a model, in the order in which products read them.

use std::ops::Range;
use std::thread::{self, available_parallelism};

use candle_core::{DType, Tensor};
use half::bf16;

use super::arguments::{Arguments, Pack};
use super::machine::{Launch, Machine, Memory};
use super::partition::{PARTS_MAX, Partition};
use crate::config::ModelConfig;
use crate::device::shard::{LinearPart, Shard};
use crate::error::Result;
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawMlp, RawNorm};
use crate::raw_parts::{RawStage, RawTop};
use crate::rope::RotaryTable;

/// Numbers of each row that a step of a product takes.
pub(super) const STEP: usize = 32;

/// Outputs of a tile, which a warp has.
const TILE: usize = 32;

/// A rank's weights of a stage.
pub(super) struct Weights {
    /// Tokens that the rank has in embedding and head.
    pub(super) tokens: Range<usize>,
    /// (tokens, hidden), if the stage is the first.
    pub(super) embedding: Option<Memory>,
    pub(super) layers: Vec<Layer>,
    /// If the stage is the last.
    pub(super) top: Option<Top>,
    /// (positions, rotary_dim / 2, 2): cosine and sine.
    pub(super) rotations: Memory,
}

/// What comes after the last layer.
pub(super) struct Top {
    pub(super) norm: NormWeights,
    pub(super) head: Map,
}

/// One block.
pub(super) struct Layer {
    pub(super) input: Projection,
    /// Of another model's hidden states, where they are keys and values beside those of tokens.
    pub(super) states: Option<Projection>,
    pub(super) qk_norm: Option<[Memory; 2]>,
    pub(super) output: Map,
    pub(super) post_norm: NormWeights,
    /// A gate and what it lets pass, alternating, or one map.
    pub(super) up: Map,
    pub(super) is_gated: bool,
    pub(super) down: Map,
    pub(super) window: Option<usize>,
}

/// What rows go through before attention.
pub(super) struct Projection {
    pub(super) norm: NormWeights,
    /// Queries, if there are any, then keys, then values.
    pub(super) map: Map,
}

/// A norm's weights in f32.
pub(super) struct NormWeights {
    pub(super) weight: Memory,
    pub(super) bias: Option<Memory>,
}

/// A linear map.
pub(super) struct Map {
    pub(super) weights: Memory,
    /// In f32, one for each output.
    pub(super) bias: Option<Memory>,
    /// Of [`TILE`] outputs.
    pub(super) tiles: usize,
    /// Of [`STEP`] inputs.
    pub(super) steps: usize,
    pub(super) outputs: usize,
    pub(super) partition: Partition,
    /// Of one row.
    multiply_adds: usize,
}

/// A part of a matrix and where its outputs go in a map.
struct Placed<'a> {
    part: &'a LinearPart<'a>,
    first: usize,
    /// Whether 16 outputs of it alternate with 16 of another.
    alternates: bool,
}

/// The size of a map.
struct Partitioned {
    outputs: usize,
    tiles: usize,
    splits_max: usize,
}

/// Puts a rank's weights on its machine.
pub(super) struct Loader<'a> {
    pub(super) machine: &'a mut dyn Machine,
    /// Of the whole model.
    pub(super) config: &'a ModelConfig,
    pub(super) shard: Shard,
}

impl Weights {
    /// Loads all parts for the ranks of a stage, in their order; `progress` is told `(layers loaded, layers in all)`.
    ///
    /// # Errors
    /// What is wrong with the model, or a machine's.
    pub(super) fn load(
        mut loaders: Vec<Loader<'_>>,
        raw: &RawStage<'_>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Self>> {
        let (embedding, top) = (raw.embedding()?, raw.top()?);
        let ends = |loader: &mut Loader<'_>| loader.ends(embedding.as_ref(), top.as_ref());
        let mut all: Vec<Self> = loaders.iter_mut().map(ends).collect::<Result<_>>()?;
        for i in 0..raw.layers() {
            let layer = raw.layer(i)?;
            for (weights, loader) in all.iter_mut().zip(&mut loaders) {
                weights.layers.push(loader.layer(&layer, i)?);
            }
            progress(i + 1, raw.layers());
        }
        Ok(all)
    }

    /// Numbers that the products of a row come to at most, parts of sums among them.
    pub(super) fn sums_of_row(&self) -> usize {
        let of_layer = |layer: &Layer| {
            let states = layer.states.as_ref().map(|states| &states.map);
            let maps = [&layer.input.map, &layer.output, &layer.down].into_iter().chain(states);
            maps.map(|map| map.partition.splits * map.outputs).max().unwrap_or(0)
        };
        self.layers.iter().map(of_layer).max().unwrap_or(0)
    }

    /// Multiply-adds of one row.
    pub(super) fn multiply_adds(&self) -> usize {
        let of_layer = |layer: &Layer| -> usize {
            [&layer.input.map, &layer.output, &layer.up, &layer.down].map(|map| map.multiply_adds).iter().sum()
        };
        let of_head = self.top.as_ref().map_or(0, |top| top.head.multiply_adds);
        self.layers.iter().map(of_layer).sum::<usize>() + of_head
    }
}

/// Where something is; 0 where there is nothing.
pub(super) fn address(memory: Option<&Memory>) -> u64 {
    memory.map_or(0, |memory| memory.address)
}

impl Loader<'_> {
    /// All but layers.
    fn ends(&mut self, embedding: Option<&RawMatrix>, top: Option<&RawTop>) -> Result<Weights> {
        self.machine.begin()?;
        let tokens = self.shard.tokens(self.config);
        let own = |embedding: &RawMatrix| rounded(embedding, tokens.clone(), 0..embedding.inputs());
        Ok(Weights {
            embedding: embedding.map(|embedding| self.bytes(&own(embedding))).transpose()?,
            layers: Vec::new(),
            top: top.map(|top| self.top(top)).transpose()?,
            rotations: self.rotations(&RotaryTable::new(self.config))?,
            tokens,
        })
    }

    fn top(&mut self, raw: &RawTop) -> Result<Top> {
        let head = self.shard.with_outputs(&raw.head, self.shard.tokens(self.config));
        // Decisions are made of whole sums.
        Ok(Top { norm: self.norm(&raw.norm)?, head: self.map(&[head], 1)? })
    }

    fn layer(&mut self, raw: &RawLayer, layer: usize) -> Result<Layer> {
        self.machine.begin()?;
        let (shard, config) = (self.shard, self.config);
        let (queries, kv) = (shard.query_dims(config), shard.kv_dims(config));
        let [k, v] = [&raw.k, &raw.v].map(|raw| shard.with_outputs(raw, kv.clone()));
        let maps = [shard.with_outputs(&raw.q, queries.clone()), k, v];
        let input = Projection { norm: self.norm(&raw.input_norm)?, map: self.map(&maps, PARTS_MAX)? };
        let states = match &raw.states {
            Some(states) => {
                let maps = [&states.k, &states.v].map(|raw| shard.with_outputs(raw, kv.clone()));
                Some(Projection { norm: self.norm(&states.norm)?, map: self.map(&maps, PARTS_MAX)? })
            }
            None => None,
        };
        let qk_norm = match (&raw.q_norm, &raw.k_norm) {
            (Some(q), Some(k)) => Some([self.floats(q)?, self.floats(k)?]),
            _ => None,
        };
        let inner = shard.inner(config);
        let into = |raw| shard.with_outputs(raw, inner.clone());
        // What activations come to is whole at once.
        let (up, is_gated, down) = match &raw.mlp {
            RawMlp::Gated { gate, up, down } => (self.gated(&[into(gate), into(up)])?, true, down),
            RawMlp::Plain { up, down } => (self.map(&[into(up)], 1)?, false, down),
        };
        Ok(Layer {
            input,
            states,
            qk_norm,
            output: self.map(&[shard.with_inputs(&raw.o, queries)], PARTS_MAX)?,
            post_norm: self.norm(&raw.post_norm)?,
            up,
            is_gated,
            down: self.map(&[shard.with_inputs(down, inner)], PARTS_MAX)?,
            window: config.windows.get(layer).copied().flatten(),
        })
    }

    fn norm(&mut self, raw: &RawNorm) -> Result<NormWeights> {
        let bias = raw.bias.as_ref().map(|bias| self.floats(bias)).transpose()?;
        Ok(NormWeights { weight: self.floats(&raw.weight)?, bias })
    }

    fn floats(&mut self, tensor: &Tensor) -> Result<Memory> {
        self.numbers(&tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn numbers(&mut self, numbers: &[f32]) -> Result<Memory> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<Memory> {
        let memory = self.machine.allocate(bytes.len())?;
        self.machine.upload(memory.address, bytes)?;
        Ok(memory)
    }

    /// Maps of the same inputs, the outputs of one after those of the other, whose sums come in so many parts at most.
    fn map(&mut self, maps: &[LinearPart<'_>], splits_max: usize) -> Result<Map> {
        let mut first = 0;
        let placed: Vec<Placed<'_>> = maps
            .iter()
            .map(|part| {
                let placed = Placed { part, first, alternates: false };
                first += part.outputs.len();
                placed
            })
            .collect();
        self.packed(&placed, &Partitioned { outputs: first, tiles: first.div_ceil(TILE), splits_max })
    }

    /// A gate and what it lets pass, 16 outputs of each after the other.
    fn gated(&mut self, maps: &[LinearPart<'_>; 2]) -> Result<Map> {
        let outputs = maps[0].outputs.len();
        let placed = [0, 1].map(|at| Placed { part: &maps[at], first: 16 * at, alternates: true });
        self.packed(&placed, &Partitioned { outputs, tiles: outputs.next_multiple_of(STEP) / 16, splits_max: 1 })
    }

    fn packed(&mut self, parts: &[Placed<'_>], of: &Partitioned) -> Result<Map> {
        let &Partitioned { outputs, tiles, splits_max } = of;
        let inputs = parts.first().map_or(0, |placed| placed.part.inputs.len());
        let steps = inputs.div_ceil(STEP);
        let partition = Partition::best(tiles, steps, splits_max);
        let filled = tiles.next_multiple_of(partition.wide);
        let weights = self.machine.allocate(filled * TILE * steps * STEP * size_of::<bf16>())?;
        for placed in parts {
            self.pack(placed, &weights, steps, partition.wide)?;
        }
        let bias = self.biases(parts)?;
        let multiply_adds = parts.iter().map(|placed| placed.part.outputs.len() * inputs).sum();
        Ok(Map { weights, bias, tiles, steps, outputs, partition, multiply_adds })
    }

    fn pack(&mut self, placed: &Placed<'_>, to: &Memory, steps: usize, wide: usize) -> Result<()> {
        const THREADS: u32 = 256;
        let LinearPart { map, outputs, inputs, .. } = placed.part;
        let from = self.bytes(&rounded(&map.weight, outputs.clone(), inputs.clone()))?;
        let arguments = Pack {
            from: from.address,
            to: to.address,
            outputs: outputs.len() as i32,
            inputs: inputs.len() as i32,
            steps: steps as i32,
            wide: wide as i32,
            first: placed.first as i32,
            alternate: i32::from(placed.alternates),
        };
        let blocks = (outputs.len() * inputs.len()).div_ceil(THREADS as usize) as u32;
        let (grid, arguments) = ([blocks, 1, 1], arguments.bytes().to_vec());
        Ok(self.machine.launch(&Launch { kernel: "pack", grid, threads: THREADS, lent: 0, arguments })?)
    }

    /// The biases of maps, one after the other; those that have none add nothing.
    fn biases(&mut self, parts: &[Placed<'_>]) -> Result<Option<Memory>> {
        let all = parts.iter().map(|placed| placed.part.bias()).collect::<Result<Vec<_>>>()?;
        if all.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut biases = Vec::new();
        for (bias, Placed { part, .. }) in all.iter().zip(parts) {
            match bias {
                Some(bias) => biases.extend(bias.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?),
                None => biases.extend(std::iter::repeat_n(0.0, part.outputs.len())),
            }
        }
        self.numbers(&biases).map(Some)
    }

    fn rotations(&mut self, table: &RotaryTable) -> Result<Memory> {
        let half = table.rotary_dim / 2;
        let mut turns = vec![0.0; self.config.context * half * 2];
        in_parts(&mut turns, half * 2, |positions, turns| {
            let (mut cos, mut sin) = (vec![0.0; half], vec![0.0; half]);
            for (position, turns) in positions.zip(turns.chunks_exact_mut(half * 2)) {
                table.write(position, &mut cos, &mut sin);
                let pairs = cos.iter().zip(&sin).flat_map(|(cos, sin)| [*cos, *sin]);
                turns.iter_mut().zip(pairs).for_each(|(turn, number)| *turn = number);
            }
        });
        self.numbers(&turns)
    }
}

/// The bytes of some rows and columns of a matrix in bf16, row by row.
fn rounded(matrix: &RawMatrix, outputs: Range<usize>, inputs: Range<usize>) -> Vec<u8> {
    let width = inputs.len() * size_of::<bf16>();
    let mut bytes = vec![0_u8; outputs.len() * width];
    in_parts(&mut bytes, width, |some, bytes| {
        let mut row = vec![0.0; matrix.inputs()];
        for (output, bytes) in some.zip(bytes.chunks_exact_mut(width)) {
            matrix.row(outputs.start + output, &mut row);
            let (numbers, _) = bytes.as_chunks_mut();
            let row = &row[inputs.clone()];
            numbers.iter_mut().zip(row).for_each(|(bytes, number)| *bytes = bf16::from_f32(*number).to_le_bytes());
        }
    });
    bytes
}

/// Does the rows of something on all processors, some neighbouring ones on each.
fn in_parts<T: Send>(all: &mut [T], row: usize, work: impl Fn(Range<usize>, &mut [T]) + Sync) {
    if all.is_empty() || row == 0 {
        return;
    }
    let rows = all.len() / row;
    let each = rows.div_ceil(available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for (part, some) in all.chunks_mut(each * row).enumerate() {
            let work = &work;
            scope.spawn(move || work(part * each..part * each + some.len() / row, some));
        }
    });
}
