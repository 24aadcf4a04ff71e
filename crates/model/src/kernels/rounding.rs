//! Inputs rounded to bytes.
//!
//! What becomes of a group waits, step by step, for what came before: its largest number for all numbers, its scale for that
//! one. So [`ROUNDED_AT_ONCE`] groups go through these steps side by side.

use super::blocks::GROUP;
use super::int8::{InputGroup, LARGEST, OFFSET};
use super::simd::{LANES, Simd};

/// Groups that are rounded side by side.
pub(crate) const ROUNDED_AT_ONCE: usize = 4;

/// Groups to bytes, on top of the lanes of [`Simd`].
pub(crate) trait ToBytes: Simd {
    /// The largest lane of each.
    #[inline(always)]
    unsafe fn largest_of_each(values: [Self::V; ROUNDED_AT_ONCE]) -> [f32; ROUNDED_AT_ONCE] {
        // SAFETY: the caller vouches for the instruction set.
        values.map(|values| unsafe { Self::largest(values) })
    }
    /// Groups of numbers of -127..=127, each rounded to the nearest integer, ties to the even one; and the sums of groups.
    unsafe fn to_bytes(
        values: [[Self::V; 2]; ROUNDED_AT_ONCE],
    ) -> ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]);
}

/// Rows of numbers to be rounded.
#[derive(Clone, Copy)]
pub(crate) struct Unrounded<'a> {
    /// The first number of the first row is the first of these.
    pub(crate) values: &'a [f32],
    /// Numbers from the beginning of a row to that of the next one.
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    /// Numbers of a row.
    pub(crate) width: usize,
    /// What the numbers of each row are multiplied by before, one for each, if by anything.
    pub(crate) factors: Option<&'a [f32]>,
}

/// Where the groups of rows go: the same group of all rows side by side.
#[derive(Clone, Copy)]
pub(crate) struct GroupsAt {
    /// The first group of the first row.
    pub(crate) first: *mut InputGroup,
    /// Groups from one of a row to the next one of it.
    pub(crate) step: usize,
}

impl Unrounded<'_> {
    /// All numbers are there.
    pub(super) fn check(&self) {
        let Self { values, stride, rows, width, factors } = *self;
        assert!(rows == 0 || values.len() >= (rows - 1) * stride + width, "numbers of all rows");
        assert!(factors.is_none_or(|factors| factors.len() >= width), "a factor for each number");
    }

    /// Groups of a row, the last of which may have fewer numbers than others: zeros are what is missing.
    fn groups(&self) -> usize {
        self.width.div_ceil(GROUP)
    }

    /// The same group of all rows.
    fn column(&self, group: usize, to: &GroupsAt) -> Line {
        Line {
            values: self.values.as_ptr().wrapping_add(group * GROUP),
            step: self.stride,
            numbers: (self.width - group * GROUP).min(GROUP),
            factors: self.factors.map(|factors| factors.as_ptr().wrapping_add(group * GROUP)),
            factors_step: 0,
            to: to.first.wrapping_add(group * to.step),
            to_step: 1,
            groups: self.rows,
        }
    }

    /// So many groups of a row from one on, all of them whole.
    fn run(&self, row: usize, groups: usize, to: &GroupsAt) -> Line {
        Line {
            values: self.values.as_ptr().wrapping_add(row * self.stride),
            step: GROUP,
            numbers: GROUP,
            factors: self.factors.map(<[f32]>::as_ptr),
            factors_step: GROUP,
            to: to.first.wrapping_add(row),
            to_step: to.step,
            groups,
        }
    }
}

/// Groups at equal distances, and where they go.
struct Line {
    values: *const f32,
    /// From the numbers of a group to those of the next.
    step: usize,
    /// Numbers of each group.
    numbers: usize,
    factors: Option<*const f32>,
    factors_step: usize,
    to: *mut InputGroup,
    to_step: usize,
    groups: usize,
}

impl Line {
    /// Rounds all of them.
    #[inline(always)]
    unsafe fn round<S: ToBytes>(&self) {
        for first in (0..self.groups).step_by(ROUNDED_AT_ONCE) {
            // SAFETY: the groups are there, and room for them.
            unsafe {
                let mut values = [[S::splat(0.0); 2]; ROUNDED_AT_ONCE];
                for (at, values) in values.iter_mut().enumerate() {
                    *values = self.load::<S>(self.nth(first + at));
                }
                let rounded = round_groups::<S>(values);
                for (at, group) in rounded.into_iter().enumerate() {
                    self.to.add(self.nth(first + at) * self.to_step).write(group);
                }
            }
        }
    }

    /// The group of a number, or the last one if there are not so many: that is rounded more than once, to the same bytes.
    fn nth(&self, group: usize) -> usize {
        group.min(self.groups - 1)
    }

    /// The numbers of a group.
    #[inline(always)]
    unsafe fn load<S: ToBytes>(&self, group: usize) -> [S::V; 2] {
        // SAFETY: the group is there.
        unsafe {
            let values = halves::<S>(self.values.add(group * self.step), self.numbers);
            let Some(factors) = self.factors else { return values };
            let factors = halves::<S>(factors.add(group * self.factors_step), self.numbers);
            [S::mul(values[0], factors[0]), S::mul(values[1], factors[1])]
        }
    }
}

/// Rounds all groups of all rows.
#[inline(always)]
pub(super) unsafe fn round<S: ToBytes>(rows: &Unrounded<'_>, to: &GroupsAt) {
    let (groups, whole) = (rows.groups(), rows.width / GROUP);
    // Whichever leaves fewer places of those that are rounded at once empty.
    let along_rows = whole.div_ceil(ROUNDED_AT_ONCE) * rows.rows < rows.rows.div_ceil(ROUNDED_AT_ONCE) * whole;
    let runs = if along_rows { whole } else { 0 };
    // SAFETY: the caller gives rows, room for their groups, and the instruction set.
    unsafe {
        if runs > 0 {
            for row in 0..rows.rows {
                rows.run(row, runs, to).round::<S>();
            }
        }
        for group in runs..groups {
            rows.column(group, to).round::<S>();
        }
    }
}

/// The two vectors of a group of which the first numbers are there.
#[inline(always)]
unsafe fn halves<S: ToBytes>(from: *const f32, numbers: usize) -> [S::V; 2] {
    // SAFETY: the caller gives so many numbers.
    unsafe {
        match numbers {
            GROUP => [S::load(from), S::load(from.add(LANES))],
            LANES.. => [S::load(from), S::load_some(from.wrapping_add(LANES), numbers - LANES)],
            _ => [S::load_some(from, numbers), S::splat(0.0)],
        }
    }
}

/// A group of numbers too small to be divided by becomes zeros.
#[inline(always)]
unsafe fn round_groups<S: ToBytes>(values: [[S::V; 2]; ROUNDED_AT_ONCE]) -> [InputGroup; ROUNDED_AT_ONCE] {
    // SAFETY: lane arithmetic.
    unsafe {
        let mut sizes = [S::splat(0.0); ROUNDED_AT_ONCE];
        for (sizes, [first, second]) in sizes.iter_mut().zip(values) {
            *sizes = S::max(S::abs(first), S::abs(second));
        }
        let largest = S::largest_of_each(sizes);
        let mut scaled = values;
        for (scaled, largest) in scaled.iter_mut().zip(largest) {
            let factor = S::splat(if largest > SMALLEST { LARGEST / largest } else { 0.0 });
            *scaled = [S::mul(scaled[0], factor), S::mul(scaled[1], factor)];
        }
        let (quants, totals) = S::to_bytes(scaled);
        let mut groups = [InputGroup::ZERO; ROUNDED_AT_ONCE];
        for (at, group) in groups.iter_mut().enumerate() {
            let scale = largest[at] / LARGEST;
            let (total, offset) = (scale * totals[at] as f32, -OFFSET * totals[at]);
            *group = InputGroup { quants: quants[at], scale, total, offset };
        }
        groups
    }
}

/// Below this a number is no divisor: what it gives could be infinite.
const SMALLEST: f32 = f32::MIN_POSITIVE * LARGEST;

#[cfg(test)]
mod tests {
    use super::super::entries::Kernels;
    use super::*;

    /// Numbers of all sizes, among them groups of zeros and of numbers too small to be divided by.
    fn numbers(len: usize) -> Vec<f32> {
        let mix = |i: usize| (i as u32 + 1).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        let number = |i: usize| (mix(i) as f32 / 2_f32.powi(31) - 1.0) * [1.0, 300.0, 0.0, 1e-37][i / 40 % 4];
        (0..len).map(number).collect()
    }

    /// A group by its definition.
    fn rounded(numbers: &[f32]) -> InputGroup {
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let factor = if largest > SMALLEST { LARGEST / largest } else { 0.0 };
        let quant = |at: usize| numbers.get(at).map_or(0, |number| (number * factor).round_ties_even() as i8);
        let quants: [i8; GROUP] = std::array::from_fn(quant);
        let total: i32 = quants.iter().map(|quant| i32::from(*quant)).sum();
        let scale = largest / LARGEST;
        InputGroup { quants, scale, total: scale * total as f32, offset: -OFFSET * total }
    }

    /// All groups as the kernel rounds them, those of all rows side by side, and as they are defined.
    fn check(kernels: &Kernels, unrounded: Unrounded<'_>) {
        let Unrounded { values, stride, rows, width, factors } = unrounded;
        let (step, untouched) = (rows + 1, InputGroup { offset: 7, ..InputGroup::ZERO });
        let mut found = vec![untouched; width.div_ceil(GROUP) * step];
        // SAFETY: there is room for all groups.
        unsafe {
            let to = GroupsAt { first: found.as_mut_ptr(), step };
            kernels.round_to_int8(unrounded, to);
        }
        for (group, found) in found.chunks(step).enumerate() {
            for (row, found) in found[..rows].iter().enumerate() {
                let number = |at: usize| values[row * stride + at] * factors.map_or(1.0, |factors| factors[at]);
                let numbers: Vec<f32> = (group * GROUP..width.min((group + 1) * GROUP)).map(number).collect();
                assert_eq!(*found, rounded(&numbers), "{}: row {row} of {rows}, {width} wide", kernels.name);
            }
            assert_eq!(found[rows], untouched, "{}: nothing else is written", kernels.name);
        }
    }

    #[test]
    fn each_group_of_each_row_is_rounded_by_itself() {
        let values = numbers(9 * 105);
        for (kernels, rows) in Kernels::available().into_iter().flat_map(|set| [0, 1, 3, 4, 9].map(|rows| (set, rows)))
        {
            for width in [1_usize, 16, 17, 32, 70, 96, 100] {
                for factors in [None, Some(&values[300..400])] {
                    check(kernels, Unrounded { values: &values, stride: width + 5, rows, width, factors });
                }
            }
        }
    }
}
