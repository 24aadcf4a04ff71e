//! What the host tells a pass: one sheet of numbers, uploaded at once.
//!
//! Its first part has what every pass of the same shape has in the same places: tokens, rows, where they stand. The second
//! has lists of any length, to which rows point: blocks, runs of slots, addresses of keys and values.

use std::borrow::Cow;

use super::work::{Stand, bucketed};
use crate::device::best::BestOfRows;
use crate::kv_cache::Move;
use crate::placed::Placed;

/// Numbers that say where a row stands: `RowAt` in `kernels/common.h`.
pub(super) const ROW: usize = 8;

/// Numbers that say what is wanted of a row: `Wanted` in `kernels/decide.h`.
const WANTED: usize = 5;

/// Positions of a tile of attention.
const TILE: usize = 32;

/// Tiles that make a part of what a row sees, for heads of a size: `tiles_of_part` in `kernels/attention.h`.
pub(super) fn tiles_of_part(head_dim: usize) -> usize {
    if head_dim > 128 { 8 } else { 16 }
}

/// What of a model shapes where rows stand.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    pub(super) head_dim: usize,
    /// Whether there are states beside tokens, which are seen too.
    pub(super) with_states: bool,
}

/// A sheet being written.
#[derive(Default)]
pub(super) struct Sheet {
    pub(super) fixed: Vec<u32>,
    /// As the first rank is told them.
    pub(super) lists: Vec<u32>,
    addresses: Vec<Addresses>,
}

/// Where other ranks are told addresses of their own.
struct Addresses {
    /// Where among the lists they begin.
    at: usize,
    /// Of each rank but the first.
    of_others: Vec<Vec<u32>>,
}

/// Rows of sequences whose keys and values lie in the same memory.
pub(super) struct Rows<'a> {
    pub(super) placed: &'a [Placed],
    /// Where its memory's addresses are among the lists.
    pub(super) memory_at: u32,
}

impl Sheet {
    /// Writes numbers, and so many zeros after them; where they are.
    pub(super) fn write(&mut self, numbers: impl IntoIterator<Item = u32>, zeros: usize) -> usize {
        let at = self.fixed.len();
        self.fixed.extend(numbers.into_iter().chain(std::iter::repeat_n(0, zeros)));
        at
    }

    /// Writes which rows are wanted, and what is wanted of them, filled up to `rows`; where that is. It is `Wanted` in
    /// `kernels/decide.h`.
    pub(super) fn wanted(&mut self, wanted: &BestOfRows, rows: usize) -> usize {
        let each = wanted.rows.iter().zip(&wanted.vocabs).zip(&wanted.noises).flat_map(|((row, vocab), noise)| {
            let key = noise.map_or(0, |noise| noise.rule.key(noise.position));
            let scale = noise.map_or(0.0, |noise| noise.rule.inverse_temperature());
            [*row, *vocab as u32, key as u32, (key >> 32) as u32, scale.to_bits()]
        });
        self.write(each, (rows - wanted.rows.len()) * WANTED)
    }

    /// Writes where rows stand, all groups one after the other.
    pub(super) fn place(&mut self, groups: &[Rows<'_>], Standing { head_dim, with_states }: Standing) -> Stand {
        let mut rows = Vec::new();
        let mut tiles = 0;
        for Rows { placed, memory_at } in groups {
            for placed in *placed {
                let blocks_at = self.list(placed.blocks.numbers());
                for path in &placed.paths {
                    let runs_at = self.lists.len() as u32;
                    let mut position = placed.shared;
                    for run in path {
                        self.list([position as u32, run.slot as u32]);
                        position += run.len;
                    }
                    let slot = path.last().map_or(0, |run| run.slot + run.len - 1);
                    let stated = placed.stated.min(position);
                    tiles = tiles.max(position.div_ceil(TILE) + if with_states { stated.div_ceil(TILE) } else { 0 });
                    rows.extend([
                        position as u32,
                        placed.shared as u32,
                        runs_at,
                        path.len() as u32,
                        blocks_at,
                        placed.stated as u32,
                        *memory_at,
                        placed.blocks.place(slot) as u32,
                    ]);
                }
            }
        }
        let fillers = bucketed(rows.len() / ROW) * ROW - rows.len();
        Stand {
            at: self.write(rows, fillers),
            parts: tiles.div_ceil(tiles_of_part(head_dim)).max(1).next_power_of_two(),
        }
    }

    /// Writes a list; where it is.
    fn list(&mut self, numbers: impl IntoIterator<Item = u32>) -> u32 {
        let at = self.lists.len() as u32;
        self.lists.extend(numbers);
        at
    }

    /// Writes moves of rows in a memory whose addresses are there, filled up to a count that more passes have: a row that
    /// moves to where it is stays. Where they are, and how many.
    pub(super) fn moves(&mut self, memory_at: u32, moves: &[Move]) -> (usize, usize) {
        let count = moves.len().next_power_of_two();
        let at = self.write([memory_at], 0);
        let stays = moves.first().map_or(0, |first| first.to);
        let filled = moves.iter().flat_map(|row| [row.from, row.to]);
        self.write(filled.chain(std::iter::repeat_n(stays, 2 * (count - moves.len()))), 0);
        (at, count)
    }

    /// Writes each rank's addresses, as many for each, where 8 bytes may begin.
    pub(super) fn list_addresses(&mut self, of_ranks: &[&[u64]]) -> u32 {
        let at = self.lists.len().next_multiple_of(2);
        self.lists.resize(at, 0);
        let mut of_ranks = of_ranks.iter().map(|addresses| words(addresses));
        self.lists.extend(of_ranks.next().into_iter().flatten());
        self.addresses.push(Addresses { at, of_others: of_ranks.map(Iterator::collect).collect() });
        at as u32
    }

    /// The lists as a rank is told them.
    pub(super) fn lists_of(&self, rank: usize) -> Cow<'_, [u32]> {
        let Some(other) = rank.checked_sub(1) else { return Cow::Borrowed(&self.lists) };
        let mut lists = self.lists.clone();
        for Addresses { at, of_others } in &self.addresses {
            let own = of_others.get(other).map_or(&[][..], Vec::as_slice);
            lists[*at..][..own.len()].copy_from_slice(own);
        }
        Cow::Owned(lists)
    }
}

/// Addresses as numbers of a sheet, two each.
fn words(addresses: &[u64]) -> impl Iterator<Item = u32> {
    addresses.iter().flat_map(|address| [*address as u32, (address >> 32) as u32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_filled_up_with_a_row_that_stays() {
        let mut sheet = Sheet::default();
        let moves = [(9, 4), (12, 5), (13, 6)].map(|(from, to)| Move { from, to });
        assert_eq!(sheet.moves(2, &moves), (0, 4));
        assert_eq!(sheet.fixed, [2, 9, 4, 12, 5, 13, 6, 4, 4]);
    }

    #[test]
    fn addresses_begin_where_8_bytes_may() {
        let mut sheet = Sheet::default();
        assert_eq!(sheet.list([7]), 0);
        assert_eq!(sheet.list_addresses(&[&[0x1_0000_0002, 3], &[4, 5]]), 2);
        assert_eq!(sheet.list([8]), 6);
        assert_eq!(*sheet.lists_of(0), [7, 0, 2, 1, 3, 0, 8]);
        assert_eq!(*sheet.lists_of(1), [7, 0, 4, 0, 5, 0, 8]);
    }
}
