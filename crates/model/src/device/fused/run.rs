//! Work as the launches of kernels that a rank does it by.

mod stream;

use candle_core::{Error, Result};

use super::arguments::{AddBias, Arguments, Attend, Decide, Heads, Product};
use super::buffers::Buffers;
use super::exchange::Exchange;
use super::kernel_names::{Outcome, activation, attend_kernel, product_kernel};
use super::machine::{Launch, Memory};
use super::sheet::{ROW, tiles_of_part};
use super::weights::{Layer, Map, Projection, STEP, Top, Weights, address};
use super::work::{ROWS_AT_ONCE, Stream, Work, row_tiles};
use crate::config::NormKind;
use crate::model_info::ModelInfo;

/// Bytes of a number of a sheet or of a stream.
const WORD: u64 = 4;

/// Heads of a row that a block of threads makes queries, keys or values of.
const HEADS_AT_ONCE: usize = 4;

/// Queries that a warp of attention takes at once.
const QUERIES: usize = 16;

/// Threads that do the same at once.
const WARP: u32 = 32;

/// Bytes of the ring that a product's weights come through: more than half of a processor's shared memory, so each holds
/// one block of products at a time, and has its own share of the weights.
const RING_BYTES: usize = 200 << 10;

/// Most places of that ring, each for a step: its weights of so many bytes a tile, and its rows of so many for 8 of them.
const PLACES_MAX: usize = 32;
const BYTES_OF_TILE: usize = 2048;
const BYTES_OF_ROWS: usize = 512;

/// Work being told as launches.
pub(super) struct Run<'a> {
    /// Of the rank's part of the model.
    info: &'a ModelInfo,
    weights: &'a Weights,
    buffers: &'a Buffers,
    /// How the rank's sums and those of others come together, if there are others.
    exchange: Option<Exchange>,
    stream: Stream,
    /// What the stream has not been added yet.
    pending: Option<Pending<'a>>,
    launches: Vec<Launch>,
}

/// Sums that are to be added to the stream.
#[derive(Clone, Copy)]
struct Pending<'a> {
    /// Parts that they come in.
    parts: usize,
    bias: Option<&'a Memory>,
}

/// Rows that go through a layer at once: the first of them, and how many.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    rows: usize,
}

/// Blocks of threads, how many of these there are in each, and bytes of shared memory that it is lent.
struct Shape([usize; 3], u32, usize);

impl<'a> Run<'a> {
    /// What is to begin with a stream.
    pub(super) fn new(
        info: &'a ModelInfo,
        weights: &'a Weights,
        buffers: &'a Buffers,
        exchange: Option<Exchange>,
        stream: Stream,
    ) -> Self {
        Self { info, weights, buffers, exchange, stream, pending: None, launches: Vec::new() }
    }

    /// The launches of all of it, and what is known of the stream then.
    pub(super) fn all(mut self, work: &[Work]) -> Result<(Vec<Launch>, Stream)> {
        work.iter().try_for_each(|work| self.one(*work))?;
        Ok((self.launches, self.stream))
    }

    fn one(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Embed { rows, at } => {
                self.stream.rows = rows;
                return self.in_blocks(|run, block| {
                    run.embed(at + block.first, block);
                    Ok(())
                });
            }
            Work::Layer(layer) => return self.in_blocks(|run, block| run.layer(layer, block)),
            Work::KeysAndValues { layer, of_states } => {
                return self.in_blocks(|run, block| run.keys_and_values(layer, of_states, block));
            }
            Work::Head => return self.in_blocks(Self::head),
            Work::Load { rows, at } => self.load(rows, at),
            Work::Keep { rows, at } => self.keep(rows, at),
            Work::Move { count, at } => self.move_kept(count, at),
            Work::Place(stand) => self.stream.stand = stand,
            Work::Settle => self.settle(),
            Work::Decide { rows, count, at } => self.decide(rows, count, at),
            Work::Gather { rows, at } => {
                let [from, to] = [&self.buffers.logits, &self.buffers.gathered].map(|buffer| buffer.address);
                self.move_rows(rows, at, [from, to], self.info.config.vocab);
            }
        }
        Ok(())
    }

    /// Does something for all rows, so many at once as there is room for.
    fn in_blocks(&mut self, mut work: impl FnMut(&mut Self, Block) -> Result<()>) -> Result<()> {
        let all = self.stream.rows;
        let mut blocks =
            (0..all).step_by(ROWS_AT_ONCE).map(|first| Block { first, rows: ROWS_AT_ONCE.min(all - first) });
        blocks.try_for_each(|block| work(self, block))
    }

    fn launch(&mut self, kernel: &'static str, Shape(grid, threads, lent): Shape, arguments: &impl Arguments) {
        let (grid, arguments) = (grid.map(|blocks| blocks as u32), arguments.bytes().to_vec());
        self.launches.push(Launch { kernel, grid, threads, lent: lent as u32, arguments });
    }

    /// Packed rows times a map.
    fn product(&mut self, map: &Map, x: u64, outcome: Outcome, block: Block) -> Result<()> {
        let tiles = row_tiles(block.rows);
        let config = &self.info.config;
        let is_sums = matches!(outcome, Outcome::Sums(_));
        let place = map.partition.wide * BYTES_OF_TILE + tiles * BYTES_OF_ROWS;
        let places = (RING_BYTES / place).min(PLACES_MAX);
        let arguments = Product {
            weights: map.weights.address,
            x,
            sums: if let Outcome::Sums(to) = outcome { to } else { 0 },
            units: if is_sums { 0 } else { self.buffers.units.address },
            bias: if is_sums { 0 } else { address(map.bias.as_ref()) },
            tiles: map.tiles as i32,
            wide: map.partition.wide as i32,
            steps: map.steps as i32,
            each: map.partition.each as i32,
            splits: map.partition.splits as i32,
            outputs: map.outputs as i32,
            rows: block.rows as i32,
            activation: activation(config.activation),
            unit_steps: config.ffn.div_ceil(STEP) as i32,
            places: places as i32,
        };
        let blocks = map.partition.blocks(map.tiles, block.rows / (8 * tiles));
        let threads = WARP * (map.partition.wide as u32 + 1);
        self.launch(product_kernel(tiles, outcome)?, Shape([blocks, 1, 1], threads, places * place), &arguments);
        Ok(())
    }

    fn layer(&mut self, index: usize, block: Block) -> Result<()> {
        let (weights, buffers) = (self.weights, self.buffers);
        let layer = &weights.layers[index];
        let Buffers { normed, attended, units, sums, .. } = buffers;
        let sums = Outcome::Sums(sums.address);
        self.add_norm(Some(&layer.input.norm), block);
        self.product(&layer.input.map, normed.address, sums, block)?;
        self.heads(layer, &layer.input, index, block);
        self.attend(layer, index, block)?;
        self.product(&layer.output, attended.address, sums, block)?;
        if self.info.config.parallel_residual {
            // The feed-forward reads the stream as it was before attention was added.
            self.add_norm(Some(&layer.post_norm), block);
            self.pending = Some(Pending::of(&layer.output));
            self.add_norm(None, block);
        } else {
            self.pending = Some(Pending::of(&layer.output));
            self.add_norm(Some(&layer.post_norm), block);
        }
        self.product(&layer.up, normed.address, Outcome::Units { gated: layer.is_gated }, block)?;
        self.product(&layer.down, units.address, sums, block)?;
        self.leave(Pending::of(&layer.down), block);
        Ok(())
    }

    fn keys_and_values(&mut self, index: usize, of_states: bool, block: Block) -> Result<()> {
        let layer = &self.weights.layers[index];
        let (by, index) = match &layer.states {
            Some(states) if of_states => (states, self.info.cache_layers() - 1),
            _ => (&layer.input, index),
        };
        self.add_norm(Some(&by.norm), block);
        self.product(&by.map, self.buffers.normed.address, Outcome::Sums(self.buffers.sums.address), block)?;
        self.heads(layer, by, index, block);
        Ok(())
    }

    /// Makes queries, keys and values of what a product came to; keys and values go to this layer of the cache.
    fn heads(&mut self, layer: &Layer, by: &Projection, index: usize, block: Block) {
        let config = &self.info.config;
        let size = config.head_dim;
        let all = by.map.outputs / size;
        let norms = layer.qk_norm.as_ref();
        let arguments = Heads {
            sums: self.buffers.sums.address,
            bias: address(by.map.bias.as_ref()),
            query_norm: address(norms.map(|norms| &norms[0])),
            key_norm: address(norms.map(|norms| &norms[1])),
            rotations: self.weights.rotations.address,
            queries: self.buffers.queries.address,
            at: self.buffers.fixed(self.stream.stand.at + block.first * ROW),
            lists: self.buffers.lists(),
            eps: config.norm.eps as f32,
            scale: 1.0 / (size as f32).sqrt(),
            size: size as i32,
            heads: (all - 2 * config.kv_heads) as i32,
            kv_heads: config.kv_heads as i32,
            rotated: self.info.rotations.table().rotary_dim as i32,
            splits: by.map.partition.splits as i32,
            rows: block.rows as i32,
            is_centred: i32::from(config.norm.kind == NormKind::Layer),
            layer: index as i32,
        };
        self.launch("heads", Shape([block.rows, all.div_ceil(HEADS_AT_ONCE), 1], 128, 0), &arguments);
    }

    fn attend(&mut self, layer: &Layer, index: usize, block: Block) -> Result<()> {
        let config = &self.info.config;
        let (heads, kv_heads, size, parts) = (config.heads, config.kv_heads, config.head_dim, self.stream.stand.parts);
        let beside = layer.states.as_ref().map_or(-1, |_| self.info.cache_layers() as i32 - 1);
        let arguments = Attend {
            queries: self.buffers.queries.address,
            parts: self.buffers.parts.address,
            out: self.buffers.attended.address,
            at: self.buffers.fixed(self.stream.stand.at + block.first * ROW),
            lists: self.buffers.lists(),
            heads: heads as i32,
            kv_heads: kv_heads as i32,
            size: size as i32,
            layer: index as i32,
            beside,
            window: layer.window.unwrap_or(0) as i32,
            part_count: parts as i32,
            steps: (heads * size).div_ceil(STEP) as i32,
            tiles: row_tiles(block.rows) as i32,
            first_row: 0,
            rows: 0,
            filler: 0,
        };
        let group = heads / kv_heads;
        let (sets, rows_of_group) = (group.div_ceil(QUERIES), (QUERIES / group).max(1));
        let lent = tiles_of_part(size) * QUERIES * (size + 2) * size_of::<f32>();
        let at_once = self.buffers.rows_of_parts(parts).min(block.rows);
        for first_row in (0..block.rows).step_by(at_once) {
            let rows = at_once.min(block.rows - first_row);
            let arguments = Attend { first_row: first_row as i32, rows: rows as i32, ..arguments };
            let shape = Shape([rows.div_ceil(rows_of_group), kv_heads * sets, parts], 256, lent);
            self.launch(attend_kernel(size)?, shape, &arguments);
            if parts > 1 {
                self.launch("merge", Shape([rows, heads, 1], 128, 0), &arguments);
            }
        }
        Ok(())
    }

    fn head(&mut self, block: Block) -> Result<()> {
        let Some(Top { norm, head }) = &self.weights.top else {
            return Err(Error::Msg("a stage without a head".to_owned()));
        };
        let vocab = self.info.config.vocab;
        self.add_norm(Some(norm), block);
        let logits = self.buffers.logits.address + (block.first * vocab) as u64 * WORD;
        self.product(head, self.buffers.normed.address, Outcome::Sums(logits), block)?;
        if let Some(bias) = &head.bias {
            let arguments = AddBias { rows: logits, bias: bias.address, width: vocab as i32, filler: 0 };
            self.launch("add_bias", Shape([block.rows, 1, 1], 256, 0), &arguments);
        }
        Ok(())
    }

    fn decide(&mut self, rows: usize, count: usize, at: usize) {
        let arguments = Decide {
            logits: self.buffers.logits.address,
            said: self.buffers.said.address,
            wanted: self.buffers.fixed(at),
            vocabulary: self.info.config.vocab as i32,
            count: count as i32,
            first: self.weights.tokens.start as i32,
            filler: 0,
        };
        self.launch("decide", Shape([rows, 1, 1], 1024, 0), &arguments);
    }
}

impl<'a> Pending<'a> {
    /// What a map came to.
    fn of(map: &'a Map) -> Self {
        Self { parts: map.partition.splits, bias: map.bias.as_ref() }
    }
}
