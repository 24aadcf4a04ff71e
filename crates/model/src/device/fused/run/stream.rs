//! What is done to the stream of rows between products: launches of the kernels in `kernels/rows.h`.

use super::{Block, Pending, Run, Shape, WORD};
use crate::config::NormKind;
use crate::device::fused::arguments::{AddNorm, Embed, Give, Keep, MoveRows};
use crate::device::fused::exchange::Exchange;
use crate::device::fused::weights::{NormWeights, STEP, address};
use crate::device::fused::work::row_tiles;

impl<'a> Run<'a> {
    /// Where the stream is, from a row on.
    pub(super) fn x(&self, row: usize) -> u64 {
        let place = &self.buffers.streams[usize::from(self.stream.is_second)];
        place.address + (row * self.info.config.hidden) as u64 * WORD
    }

    pub(super) fn embed(&mut self, at: usize, block: Block) {
        let tokens = self.weights.tokens.clone();
        let arguments = Embed {
            tokens: self.buffers.fixed(at),
            embedding: address(self.weights.embedding.as_ref()),
            x: self.x(block.first),
            sums: self.exchange.map_or(0, |_| self.buffers.sums.address),
            width: self.info.config.hidden as i32,
            first: tokens.start as i32,
            count: tokens.len() as i32,
            filler: 0,
        };
        self.launch("embed", Shape([block.rows, 1, 1], 256, 0), &arguments);
        if self.exchange.is_some() {
            self.leave(Pending { parts: 1, bias: None }, block);
        }
    }

    /// Leaves sums of a block to be added when the stream is read, or adds them where the next block's go where they are.
    pub(super) fn leave(&mut self, sums: Pending<'a>, block: Block) {
        self.pending = Some(sums);
        if block.rows < self.stream.rows {
            self.add_norm(None, block);
        }
    }

    /// Gives all ranks this one's part of sums.
    fn give(&mut self, exchange: &Exchange, sums: Pending<'_>, block: Block) {
        let arguments = Give {
            sums: self.buffers.sums.address,
            bias: address(sums.bias),
            inboxes: exchange.inboxes,
            given: exchange.given,
            turns: exchange.turns,
            width: self.info.config.hidden as i32,
            splits: sums.parts as i32,
            rows: block.rows as i32,
            most_rows: exchange.rows as i32,
            rank: exchange.rank as i32,
            ranks: exchange.ranks as i32,
        };
        self.launch("give", Shape([block.rows, 1, 1], 256, 0), &arguments);
    }

    /// Takes states, after which the sheet has the numbers of their rows.
    pub(super) fn load(&mut self, rows: usize, at: usize) {
        let hidden = self.info.config.hidden;
        self.stream.rows = rows;
        let (from, to) = (self.buffers.fixed(at), self.x(0));
        self.move_rows(rows, at + rows * hidden, [from, to], hidden);
    }

    pub(super) fn keep(&mut self, rows: usize, at: usize) {
        self.settle();
        let from = self.x(0);
        self.stream.is_second = !self.stream.is_second;
        self.stream.rows = rows;
        let to = self.x(0);
        self.move_rows(rows, at, [from, to], self.info.config.hidden);
    }

    pub(super) fn move_rows(&mut self, rows: usize, at: usize, [from, to]: [u64; 2], width: usize) {
        let arguments = Keep { rows: self.buffers.fixed(at), from, to, width: width as i32, filler: 0 };
        self.launch("keep", Shape([rows, 1, 1], 256, 0), &arguments);
    }

    pub(super) fn move_kept(&mut self, count: usize, at: usize) {
        let config = &self.info.config;
        let arguments = MoveRows {
            moves: self.buffers.fixed(at),
            lists: self.buffers.lists(),
            count: count as i32,
            width: (config.kv_heads * config.head_dim) as i32,
        };
        self.launch("move_rows", Shape([2 * self.info.cache_layers(), 1, 1], 256, 0), &arguments);
    }

    /// Adds what is pending to all rows.
    pub(super) fn settle(&mut self) {
        if self.pending.is_some() {
            self.add_norm(None, Block { first: 0, rows: self.stream.rows });
        }
    }

    /// Adds what is pending to a block's rows, and makes packed rows of their norm.
    pub(super) fn add_norm(&mut self, norm: Option<&NormWeights>, block: Block) {
        let config = &self.info.config;
        let mut arguments = AddNorm {
            x: self.x(block.first),
            weight: address(norm.map(|norm| &norm.weight)),
            weight_bias: address(norm.and_then(|norm| norm.bias.as_ref())),
            normed: address(norm.map(|_| &self.buffers.normed)),
            eps: config.norm.eps as f32,
            width: config.hidden as i32,
            is_centred: i32::from(config.norm.kind == NormKind::Layer),
            steps: config.hidden.div_ceil(STEP) as i32,
            tiles: row_tiles(block.rows) as i32,
            ..AddNorm::default()
        };
        match (self.pending.take(), self.exchange) {
            (Some(sums), Some(exchange)) => {
                self.give(&exchange, sums, block);
                arguments.sums = exchange.inboxes[exchange.rank];
                arguments.given = exchange.given[exchange.rank];
                arguments.turns = exchange.turns;
                arguments.parts = exchange.ranks as i32;
                arguments.rows = exchange.rows as i32;
            }
            (Some(sums), None) => {
                arguments.sums = self.buffers.sums.address;
                arguments.bias = address(sums.bias);
                arguments.parts = sums.parts as i32;
                arguments.rows = block.rows as i32;
            }
            (None, _) => {}
        }
        self.launch("add_norm", Shape([block.rows, 1, 1], 512, 0), &arguments);
    }
}
