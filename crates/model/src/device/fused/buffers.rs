//! What passes work in, as large as the largest of them.

use candle_core::Result;

use super::machine::{Machine, Memory};
use super::sheet::Sheet;
use super::weights::{STEP, Weights};
use super::work::{ROWS_AT_ONCE, Work};
use crate::config::ModelConfig;

/// Bytes that parts of attention take at most.
const PARTS_BYTES: usize = 128 << 20;

/// Bytes of f32 and of a number of a sheet.
const WORD: usize = 4;

/// Bytes of bf16.
const HALF: usize = 2;

/// How large everything has to be.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Rows of the stream.
    rows: usize,
    /// Rows of logits, of gathered ones among them, and numbers that are said of them.
    logits: usize,
    gathered: usize,
    said: usize,
    /// Bytes of parts of attention.
    parts: usize,
    /// Numbers of both parts of a sheet.
    fixed: usize,
    lists: usize,
}

/// Memory for passes.
pub(super) struct Buffers {
    sizes: Sizes,
    sheet: Memory,
    /// The stream of rows in f32, in one of two places: (rows, hidden).
    pub(super) streams: [Memory; 2],
    /// Packed rows: normed, of attention, of activations.
    pub(super) normed: Memory,
    pub(super) attended: Memory,
    pub(super) units: Memory,
    /// What products come to, in parts: (splits, rows, outputs).
    pub(super) sums: Memory,
    /// (rows, heads, head_dim)
    pub(super) queries: Memory,
    pub(super) parts: Memory,
    /// Bytes of the parts of one row for each part of what it sees.
    bytes_of_part: usize,
    /// (rows, vocab)
    pub(super) logits: Memory,
    pub(super) gathered: Memory,
    pub(super) said: Memory,
}

impl Sizes {
    /// Rows that go through a layer at once, at most.
    pub(super) fn rows_at_once(&self) -> usize {
        self.rows.min(ROWS_AT_ONCE)
    }

    /// As large as before, and as work and a sheet need.
    pub(super) fn with(mut self, config: &ModelConfig, rows: usize, work: &[Work], sheet: &Sheet) -> Self {
        let grow = |size: &mut usize, need: usize| *size = (*size).max(need.next_power_of_two());
        let mut stream = rows;
        for work in work {
            match *work {
                Work::Embed { rows, .. } | Work::Load { rows, .. } | Work::Keep { rows, .. } => stream = rows,
                Work::Place(stand) if stand.parts > 1 => {
                    let bytes = ROWS_AT_ONCE.min(stream) * stand.parts * bytes_of_part(config);
                    // At least a row fits.
                    grow(&mut self.parts, bytes.min(PARTS_BYTES.max(stand.parts * bytes_of_part(config))));
                }
                Work::Head => grow(&mut self.logits, stream),
                Work::Gather { rows, .. } => grow(&mut self.gathered, rows),
                Work::Decide { rows, count, .. } => grow(&mut self.said, rows * (3 + 2 * count)),
                _ => {}
            }
            grow(&mut self.rows, stream);
        }
        grow(&mut self.fixed, sheet.fixed.len());
        grow(&mut self.lists, sheet.lists.len());
        self
    }
}

impl Buffers {
    /// No memory yet.
    pub(super) fn none(machine: &dyn Machine, config: &ModelConfig) -> Result<Self> {
        let none = || machine.allocate(0);
        Ok(Self {
            sizes: Sizes::default(),
            sheet: none()?,
            streams: [none()?, none()?],
            normed: none()?,
            attended: none()?,
            units: none()?,
            sums: none()?,
            queries: none()?,
            parts: none()?,
            bytes_of_part: bytes_of_part(config),
            logits: none()?,
            gathered: none()?,
            said: none()?,
        })
    }

    /// Makes anew what has to be larger; what was there is lost.
    pub(super) fn grow(
        &mut self,
        machine: &dyn Machine,
        config: &ModelConfig,
        weights: &Weights,
        sizes: Sizes,
    ) -> Result<()> {
        let rows = sizes.rows_at_once();
        let grow = |memory: &mut Memory, bytes: usize| -> Result<()> {
            if memory.bytes < bytes {
                *memory = machine.allocate(bytes)?;
            }
            Ok(())
        };
        let packed = |width: usize| rows * width.next_multiple_of(STEP) * HALF;
        grow(&mut self.sheet, (sizes.fixed.next_multiple_of(2) + sizes.lists) * WORD)?;
        self.streams.iter_mut().try_for_each(|stream| grow(stream, sizes.rows * config.hidden * WORD))?;
        grow(&mut self.normed, packed(config.hidden))?;
        grow(&mut self.attended, packed(config.heads * config.head_dim))?;
        grow(&mut self.units, packed(config.ffn))?;
        grow(&mut self.sums, rows * weights.sums_of_row() * WORD)?;
        grow(&mut self.queries, rows * config.heads * config.head_dim * WORD)?;
        grow(&mut self.parts, sizes.parts)?;
        grow(&mut self.logits, sizes.logits * config.vocab * WORD)?;
        grow(&mut self.gathered, sizes.gathered * config.vocab * WORD)?;
        grow(&mut self.said, sizes.said * WORD)?;
        self.sizes = sizes;
        Ok(())
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Where a number of the first part of a sheet is.
    pub(super) fn fixed(&self, at: usize) -> u64 {
        self.sheet.address + (at * WORD) as u64
    }

    /// Where the lists of a sheet begin.
    pub(super) fn lists(&self) -> u64 {
        self.fixed(self.sizes.fixed.next_multiple_of(2))
    }

    /// A sheet as it is uploaded to a rank.
    pub(super) fn bytes_of(&self, sheet: &Sheet, rank: usize) -> Vec<u8> {
        let gap = self.sizes.fixed.next_multiple_of(2) - sheet.fixed.len();
        let lists = sheet.lists_of(rank);
        let numbers = sheet.fixed.iter().copied().chain(std::iter::repeat_n(0, gap)).chain(lists.iter().copied());
        let mut bytes = Vec::with_capacity((sheet.fixed.len() + gap + lists.len()) * WORD);
        numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }

    /// Rows whose parts there is room for.
    pub(super) fn rows_of_parts(&self, parts: usize) -> usize {
        if parts == 1 { ROWS_AT_ONCE } else { self.parts.bytes / (parts * self.bytes_of_part) }
    }
}

fn bytes_of_part(config: &ModelConfig) -> usize {
    config.heads * (2 + config.head_dim) * WORD
}
