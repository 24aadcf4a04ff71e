//! The weights of a model, in the order in which products read them.

use std::ops::Range;
use std::thread::{self, available_parallelism};

use candle_core::{DType, Tensor};
use half::bf16;

use super::arguments::{Arguments, Pack};
use super::machine::{Launch, Machine, Memory};
use super::partition::{Partition, SPLITS_MAX};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawNorm};
use crate::raw_parts::{RawStage, RawTop};
use crate::rope::RotaryTable;

/// Numbers of each row that a step of a product takes.
pub(super) const STEP: usize = 32;

/// Outputs of a tile, which a warp has.
const TILE: usize = 32;

/// All weights of a stage.
pub(super) struct Weights {
    /// (vocab, hidden), if the stage is the first.
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

/// A matrix and where its outputs go in a map.
struct Placed<'a> {
    matrix: &'a RawLinear,
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

/// Puts a model's weights on a machine.
struct Loader<'a> {
    machine: &'a mut dyn Machine,
    config: &'a ModelConfig,
}

impl Weights {
    /// Loads all parts; `progress` is told `(layers loaded, layers in all)`.
    pub(super) fn load(
        machine: &mut dyn Machine,
        config: &ModelConfig,
        raw: &RawStage<'_>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let mut loader = Loader { machine, config };
        let layers = (0..raw.layers()).map(|i| {
            let layer = loader.layer(&raw.layer(i)?, i)?;
            progress(i + 1, raw.layers());
            Ok(layer)
        });
        let layers = layers.collect::<Result<_>>()?;
        Ok(Self {
            layers,
            embedding: raw.embedding()?.map(|embedding| loader.rows(&embedding)).transpose()?,
            top: raw.top()?.map(|top| loader.top(&top)).transpose()?,
            rotations: loader.rotations(&RotaryTable::new(config))?,
        })
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
    fn top(&mut self, raw: &RawTop) -> Result<Top> {
        // Decisions are made of whole sums.
        Ok(Top { norm: self.norm(&raw.norm)?, head: self.map(&[&raw.head], 1)? })
    }

    fn layer(&mut self, raw: &RawLayer, layer: usize) -> Result<Layer> {
        let input =
            Projection { norm: self.norm(&raw.input_norm)?, map: self.map(&[&raw.q, &raw.k, &raw.v], SPLITS_MAX)? };
        let states = match &raw.states {
            Some(states) => {
                Some(Projection { norm: self.norm(&states.norm)?, map: self.map(&[&states.k, &states.v], SPLITS_MAX)? })
            }
            None => None,
        };
        let qk_norm = match (&raw.q_norm, &raw.k_norm) {
            (Some(q), Some(k)) => Some([self.floats(q)?, self.floats(k)?]),
            _ => None,
        };
        // What activations come to is whole at once.
        let (up, is_gated, down) = match &raw.mlp {
            RawMlp::Gated { gate, up, down } => (self.gated(gate, up)?, true, down),
            RawMlp::Plain { up, down } => (self.map(&[up], 1)?, false, down),
        };
        Ok(Layer {
            input,
            states,
            qk_norm,
            output: self.map(&[&raw.o], SPLITS_MAX)?,
            post_norm: self.norm(&raw.post_norm)?,
            up,
            is_gated,
            down: self.map(&[down], SPLITS_MAX)?,
            window: self.config.windows.get(layer).copied().flatten(),
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

    /// A matrix row by row.
    fn rows(&mut self, matrix: &RawMatrix) -> Result<Memory> {
        self.bytes(&rounded(matrix))
    }

    /// Matrices of the same inputs, the outputs of one after those of the other, whose sums come in so many parts at most.
    fn map(&mut self, matrices: &[&RawLinear], splits_max: usize) -> Result<Map> {
        let mut first = 0;
        let placed: Vec<Placed<'_>> = matrices
            .iter()
            .map(|matrix| {
                let placed = Placed { matrix, first, alternates: false };
                first += matrix.weight.outputs();
                placed
            })
            .collect();
        self.packed(&placed, &Partitioned { outputs: first, tiles: first.div_ceil(TILE), splits_max })
    }

    /// A gate and what it lets pass, 16 outputs of each after the other.
    fn gated(&mut self, gate: &RawLinear, up: &RawLinear) -> Result<Map> {
        let outputs = gate.weight.outputs();
        let placed = [(gate, 0), (up, 16)].map(|(matrix, first)| Placed { matrix, first, alternates: true });
        self.packed(&placed, &Partitioned { outputs, tiles: outputs.next_multiple_of(STEP) / 16, splits_max: 1 })
    }

    fn packed(&mut self, matrices: &[Placed<'_>], of: &Partitioned) -> Result<Map> {
        let &Partitioned { outputs, tiles, splits_max } = of;
        let inputs = matrices.first().map_or(0, |placed| placed.matrix.weight.inputs());
        let steps = inputs.div_ceil(STEP);
        let partition = Partition::best(tiles, steps, splits_max);
        let filled = tiles.next_multiple_of(partition.wide);
        let weights = self.machine.allocate(filled * TILE * steps * STEP * size_of::<bf16>())?;
        for placed in matrices {
            self.pack(placed, &weights, steps, partition.wide)?;
        }
        let bias = self.biases(matrices)?;
        let multiply_adds = matrices.iter().map(|placed| placed.matrix.weight.outputs() * inputs).sum();
        Ok(Map { weights, bias, tiles, steps, outputs, partition, multiply_adds })
    }

    fn pack(&mut self, placed: &Placed<'_>, to: &Memory, steps: usize, wide: usize) -> Result<()> {
        const THREADS: u32 = 256;
        let matrix = &placed.matrix.weight;
        let from = self.rows(matrix)?;
        let arguments = Pack {
            from: from.address,
            to: to.address,
            outputs: matrix.outputs() as i32,
            inputs: matrix.inputs() as i32,
            steps: steps as i32,
            wide: wide as i32,
            first: placed.first as i32,
            alternate: i32::from(placed.alternates),
        };
        let blocks = (matrix.outputs() * matrix.inputs()).div_ceil(THREADS as usize) as u32;
        let launch =
            Launch { kernel: "pack", grid: [blocks, 1, 1], threads: THREADS, lent: 0, arguments: arguments.bytes() };
        Ok(self.machine.launch(&launch)?)
    }

    /// The biases of matrices, one after the other; those that have none add nothing.
    fn biases(&mut self, matrices: &[Placed<'_>]) -> Result<Option<Memory>> {
        if matrices.iter().all(|placed| placed.matrix.bias.is_none()) {
            return Ok(None);
        }
        let mut biases = Vec::new();
        for Placed { matrix, .. } in matrices {
            match &matrix.bias {
                Some(bias) => biases.extend(bias.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?),
                None => biases.extend(std::iter::repeat_n(0.0, matrix.weight.outputs())),
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

/// The bytes of a matrix in bf16, row by row.
fn rounded(matrix: &RawMatrix) -> Vec<u8> {
    let inputs = matrix.inputs();
    let mut bytes = vec![0_u8; matrix.outputs() * inputs * size_of::<bf16>()];
    in_parts(&mut bytes, inputs * size_of::<bf16>(), |outputs, bytes| {
        let mut row = vec![0.0; inputs];
        for (output, bytes) in outputs.zip(bytes.chunks_exact_mut(inputs * size_of::<bf16>())) {
            matrix.row(output, &mut row);
            let (numbers, _) = bytes.as_chunks_mut();
            numbers.iter_mut().zip(&row).for_each(|(bytes, number)| *bytes = bf16::from_f32(*number).to_le_bytes());
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
