//! Packing texts of any length into rows of one length.

use std::collections::BTreeSet;

/// A run of one text's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The text.
    pub(super) text: usize,
    /// Its first token.
    pub(super) start: usize,
    /// The number of tokens, at least 1.
    pub(super) length: usize,
}

/// The pieces of one row, in order; together no longer than the row.
pub(super) type Row = Vec<Piece>;

/// Packs texts of these `lengths` into rows of `room` tokens, taking texts of equal length in the given `order`.
///
/// Best fit, longest first (Ding et al. 2024, "Fewer truncations improve language modeling"): only a text longer than a
/// row is cut, and rows are nearly full. Every token is in exactly one piece.
pub(super) fn pack(lengths: &[usize], order: &[usize], room: usize) -> Vec<Row> {
    let mut pieces: Vec<Piece> = order.iter().flat_map(|&text| cut(text, lengths[text], room)).collect();
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.length));
    let mut rows: Vec<Row> = Vec::new();
    // What each row has left, the least first.
    let mut left: BTreeSet<(usize, usize)> = BTreeSet::new();
    for piece in pieces {
        let best = left.range((piece.length, 0)..).next().copied();
        let (free, row) = best.unwrap_or((room, rows.len()));
        match best {
            Some(taken) => {
                left.remove(&taken);
                rows[row].push(piece);
            }
            None => rows.push(vec![piece]),
        }
        left.insert((free - piece.length, row));
    }
    rows
}

/// The pieces of one text: all as long as a row but the last.
fn cut(text: usize, length: usize, room: usize) -> impl Iterator<Item = Piece> {
    let starts = (0..length).step_by(room);
    starts.map(move |start| Piece { text, start, length: room.min(length - start) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_only_where_it_is_longer_than_a_row() {
        let rows = pack(&[3, 10, 1], &[2, 0, 1], 4);
        let piece = |text, start, length| Piece { text, start, length };
        assert_eq!(
            rows,
            [vec![piece(1, 0, 4)], vec![piece(1, 4, 4)], vec![piece(0, 0, 3), piece(2, 0, 1)], vec![piece(1, 8, 2)]]
        );
    }

    proptest! {
        #[test]
        fn every_token_is_in_one_piece_and_no_row_overflows(
            lengths in prop::collection::vec(0_usize..40, 0..60), room in 1_usize..20,
        ) {
            let order: Vec<usize> = (0..lengths.len()).rev().collect();
            let rows = pack(&lengths, &order, room);
            let mut seen: Vec<Vec<bool>> = lengths.iter().map(|&length| vec![false; length]).collect();
            for row in &rows {
                prop_assert!(row.iter().map(|piece| piece.length).sum::<usize>() <= room);
                for piece in row {
                    for token in &mut seen[piece.text][piece.start..][..piece.length] {
                        prop_assert!(!std::mem::replace(token, true));
                    }
                }
            }
            prop_assert!(seen.iter().flatten().all(|seen| *seen));
            // Of two rows at most half full, the later one's pieces would have fitted into the first.
            let half_empty = rows.iter().filter(|row| row.iter().map(|p| p.length).sum::<usize>() * 2 <= room).count();
            prop_assert!(half_empty <= 1);
        }
    }
}
