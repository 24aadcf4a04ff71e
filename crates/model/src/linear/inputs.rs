//! Rows of inputs, kept as the layers that multiply them take them: in f32, or rounded in groups.
//!
//! Whoever computes inputs hands them over part by part, from several threads, and they are rounded there and then, while
//! they are in the nearest cache.

use std::cell::RefCell;

use super::blocks::RoundedRows;
use super::matrix::{Linear, Panels};
use crate::arithmetic::Arithmetic;
use crate::disjoint::Disjoint;
use crate::kernels::{Bf16Line, Bf16Order, GROUP, GroupsAt, InputGroup, Kernels, Unrounded, streaming};
use crate::pool::Pool;

/// What a layer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputKind {
    /// Floats as they are.
    Floats,
    /// bf16 in an order.
    Bf16(Bf16Order),
    /// Bytes.
    Bytes,
}

/// Rows of inputs of a layer: of the one that they were made for last.
#[derive(Default)]
pub(crate) struct Inputs {
    rows: usize,
    /// Inputs of a row.
    width: usize,
    /// Row after row, where they are multiplied in f32.
    floats: Vec<f32>,
    /// Groups of inputs, those of all rows side by side, where they are multiplied as bytes.
    bytes: Vec<InputGroup>,
    /// The same where they are multiplied as bf16, each group of so many lines.
    bf16: Vec<Bf16Line>,
    lines: usize,
}

/// Some inputs of rows that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) first_row: usize,
    /// The first of the inputs.
    pub(crate) first: usize,
    /// How many there are of each row.
    pub(crate) width: usize,
    /// Those of one row after the other, `stride` apart.
    pub(crate) values: &'a [f32],
    pub(crate) stride: usize,
}

impl<'a> Part<'a> {
    /// How many rows there are.
    fn count(&self) -> usize {
        self.values.len().div_ceil(self.stride)
    }

    /// Each row: its number and its inputs.
    fn rows(self) -> impl Iterator<Item = (usize, &'a [f32])> {
        (self.first_row..).zip(self.values.chunks(self.stride).map(move |row| &row[..self.width]))
    }
}

thread_local! {
    /// The row at hand, before it is rounded.
    static ROW: RefCell<Vec<f32>> = RefCell::default();
}

/// Fewest values of whose making and rounding another thread has a share: fewer are done before it has begun.
const VALUES_WORTH_SHARING: usize = 4096;

/// Fewest rows whose rounded inputs are streamed to other threads. A pass of one row takes longer then where threads share
/// a cache; two and three were not measured (docs/benchmarks.md, "Lines that are handed over").
const ROWS_STREAMED: usize = 4;

/// How many rows lie between the same group of inputs and the next: all, and some more where there are many. Sixty-four
/// would put the groups of a row at the same place of the first cache.
fn stride(rows: usize) -> usize {
    if rows <= 32 { rows } else { rows + 8 }
}

/// Whether that was measured to pay: inputs of the instruction for dot products (Zen 4).
fn is_streamed(kernels: &Kernels, kind: InputKind) -> bool {
    kind == InputKind::Bf16(Bf16Order::Dots) && kernels.arithmetic_of_16_bits() == Some(Arithmetic::Bf16Dot)
}

impl Linear {
    /// What it takes.
    fn input_kind(&self) -> InputKind {
        match self.panels {
            Panels::F32(_) | Panels::Widened(_) => InputKind::Floats,
            Panels::Bf16(order, _) => InputKind::Bf16(order),
            Panels::Q8(_) | Panels::Q4(_) => InputKind::Bytes,
        }
    }

    /// Bytes of a row of its inputs.
    pub(crate) fn bytes_of_input(&self, kernels: &Kernels) -> usize {
        let groups = self.inputs.div_ceil(GROUP);
        match self.input_kind() {
            InputKind::Floats => self.inputs * size_of::<f32>(),
            InputKind::Bf16(order) => groups * kernels.bf16(order).lines * size_of::<Bf16Line>(),
            InputKind::Bytes => groups * size_of::<InputGroup>(),
        }
    }

    /// Fewest rows that one thread multiplies well: fewer wait for weights, to be read or to be made floats of, and take
    /// nearly as long (docs/benchmarks.md, "Rows of a thread").
    pub(crate) fn rows_worth_a_thread(&self, kernels: &Kernels) -> usize {
        match self.input_kind() {
            InputKind::Bytes => 4,
            // Two of the processor's own tiles.
            InputKind::Bf16(Bf16Order::Tiles) if kernels.arithmetic_of_16_bits() == Some(Arithmetic::Bf16) => 32,
            InputKind::Floats | InputKind::Bf16(_) => 6,
        }
    }
}

impl Inputs {
    /// Makes room for so many rows of inputs of `layer`, which so many threads are going to read.
    pub(crate) fn make_room<'a>(
        &'a mut self,
        kernels: &'a Kernels,
        layer: &Linear,
        rows: usize,
        threads: usize,
    ) -> Room<'a> {
        let (width, kind) = (layer.inputs(), layer.input_kind());
        (self.rows, self.width) = (rows, width);
        let groups = stride(rows) * width.div_ceil(GROUP);
        match kind {
            InputKind::Floats => self.floats.resize(rows * width, 0.0),
            InputKind::Bf16(order) => {
                self.lines = kernels.bf16(order).lines;
                self.bf16.resize(groups * self.lines, Bf16Line::ZERO);
            }
            InputKind::Bytes => self.bytes.resize(groups, InputGroup::ZERO),
        }
        let Self { floats, bytes, bf16, lines, .. } = self;
        Room {
            kernels,
            kind,
            streamed: threads > 1 && rows >= ROWS_STREAMED && is_streamed(kernels, kind),
            rows,
            width,
            floats: Disjoint::new(floats),
            bytes: Disjoint::new(bytes),
            bf16: Disjoint::new(bf16),
            lines: *lines,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// `count` rows from `first` on, in f32.
    pub(super) fn floats(&self, first: usize, count: usize) -> &[f32] {
        &self.floats[first * self.width..][..count * self.width]
    }

    /// The same as bytes.
    pub(super) fn bytes(&self, first: usize, count: usize) -> RoundedRows<'_, InputGroup> {
        RoundedRows { groups: &self.bytes, lines: 1, stride: stride(self.rows), first, count }
    }

    /// The same as bf16.
    pub(super) fn bf16(&self, first: usize, count: usize) -> RoundedRows<'_, Bf16Line> {
        RoundedRows { groups: &self.bf16, lines: self.lines, stride: stride(self.rows), first, count }
    }
}

/// Room for rows of inputs, which several threads fill.
pub(crate) struct Room<'a> {
    kernels: &'a Kernels,
    kind: InputKind,
    /// Whether rounded inputs are stored around the caches, for other threads to read.
    streamed: bool,
    rows: usize,
    width: usize,
    floats: Disjoint<'a, f32>,
    bytes: Disjoint<'a, InputGroup>,
    bf16: Disjoint<'a, Bf16Line>,
    lines: usize,
}

impl Room<'_> {
    /// Has `write` make every row, on several threads where there is enough to do.
    pub(crate) fn fill(&self, pool: &mut Pool, write: impl Fn(usize, &mut [f32]) + Sync) {
        // SAFETY: every row is made once.
        let make = |row| unsafe { self.make(row, |values| write(row, values)) };
        if self.rows * self.width < 2 * VALUES_WORTH_SHARING {
            (0..self.rows).for_each(make);
        } else {
            pool.run(self.rows, &make);
        }
    }

    /// Has `write` make a row.
    ///
    /// # Safety
    /// Each row is made once, and no part of it put.
    unsafe fn make(&self, row: usize, write: impl FnOnce(&mut [f32])) {
        if self.kind == InputKind::Floats {
            // SAFETY: the row is this thread's.
            return write(unsafe { self.floats.slice(row * self.width, self.width) });
        }
        ROW.with_borrow_mut(|values| {
            values.resize(self.width, 0.0);
            write(values);
            let part = Part { first_row: row, first: 0, width: self.width, values, stride: self.width };
            // SAFETY: as above.
            unsafe { self.put(part) };
        });
    }

    /// Keeps inputs from the first of a group on: whole groups of each row, or all that are left of it.
    ///
    /// # Safety
    /// Each input is put once.
    pub(crate) unsafe fn put(&self, part: Part<'_>) {
        let Part { first_row, first, width, values, stride: row_stride } = part;
        assert!(first.is_multiple_of(GROUP) && width > 0, "parts begin with a group");
        let (step, groups, rows) = (stride(self.rows), width.div_ceil(GROUP), part.count());
        let group = first / GROUP * step + first_row;
        match self.kind {
            InputKind::Floats => part.rows().for_each(|(row, values)| {
                // SAFETY: each input is put once.
                unsafe { self.floats.slice(row * self.width + first, width) }.copy_from_slice(values);
            }),
            InputKind::Bytes => {
                let to = self.bytes.at(group, (groups - 1) * step + rows);
                let unrounded = Unrounded { values, stride: row_stride, rows, width, factors: None };
                // SAFETY: there is room for these groups, and they are this call's.
                unsafe { self.kernels.round_to_int8(unrounded, GroupsAt { first: to, step }) };
            }
            InputKind::Bf16(order) => {
                for (row, values) in part.rows() {
                    for (at, values) in values.chunks(GROUP).enumerate() {
                        let group = group + row - first_row + at * step;
                        // SAFETY: each group of a row is put once.
                        let to = unsafe { self.bf16.slice(group * self.lines, self.lines) };
                        self.round(order, values, to);
                    }
                }
            }
        }
    }

    /// Rounds a group to bf16.
    fn round(&self, order: Bf16Order, values: &[f32], to: &mut [Bf16Line]) {
        let kernels = self.kernels.bf16(order);
        if self.streamed {
            let rounded = &mut [Bf16Line::ZERO; Bf16Line::MOST][..self.lines];
            kernels.round(values, rounded);
            rounded.iter().zip(to).for_each(|(line, to)| streaming::copy_line(line, to));
        } else {
            kernels.round(values, to);
        }
    }
}
