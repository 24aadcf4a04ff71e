//! The dual-block mask (EDD and PCT, §3.1, equation 3), and ours.
//!
//! A served drafter reads the target's hidden states of the committed positions and the tokens after them. Training
//! imitates every such moment at once: texts are cut into blocks, and with `s` the start of its block, position `i` sees
//! the hidden states of positions `j < s` and the tokens of positions `s <= j <= i`. In our form it sees the tokens of
//! positions `j < s` too.

use std::ops::RangeInclusive;

use candle_core::{DType, Device, Tensor};

use crate::data::{Batch, Span};
use crate::error::Result;
use crate::random::Draws;

/// How long blocks are: every one anew, evenly between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The shortest, at least 1.
    pub(crate) min: usize,
    /// The longest, at least `min`.
    pub(crate) max: usize,
}

impl Blocks {
    /// Cuts every text of a batch into blocks; per position of the batch, where its block starts in its text.
    pub(crate) fn cut(self, batch: &Batch, draws: &mut Draws) -> Vec<usize> {
        let mut starts = vec![0; batch.rows() * batch.length()];
        for span in batch.spans() {
            let first = batch.first_of(span);
            let mut start = 0;
            while start < span.length {
                let end = span.length.min(start + self.min + draws.below(self.max - self.min + 1));
                starts[first + start..first + end].fill(start);
                start = end;
            }
        }
        starts
    }
}

/// (rows, 1, length, 2 * length): what is added to the scores, 0 where a position sees a key and minus infinity where it
/// does not. The first `length` keys are the hidden states, the others the tokens, those of its block or, if
/// `all_tokens`, all up to itself. `starts` is what [`Blocks::cut`] gave. A position without text sees its own token
/// alone.
pub(crate) fn dual_block_mask(
    batch: &Batch,
    starts: &[usize],
    all_tokens: bool,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let (rows, length) = (batch.rows(), batch.length());
    let mut mask = vec![f32::NEG_INFINITY; rows * length * 2 * length];
    for cell in 0..rows * length {
        mask[cell * 2 * length + length + cell % length] = 0.0;
    }
    for span in batch.spans() {
        let first = batch.first_of(span);
        for i in 0..span.length {
            let query = &mut mask[(first + i) * 2 * length..][..2 * length];
            let start = starts[first + i];
            see(query, span, start, if all_tokens { 0 } else { start }..=i);
        }
    }
    Ok(Tensor::from_vec(mask, (rows, 1, length, 2 * length), device)?.to_dtype(dtype)?)
}

/// Opens what a position of a text, in the block from `start` on, sees in its row of keys.
fn see(query: &mut [f32], span: &Span, start: usize, seen_tokens: RangeInclusive<usize>) {
    let (states, tokens) = query.split_at_mut(query.len() / 2);
    states[span.start..][..start].fill(0.0);
    tokens[span.start..][seen_tokens].fill(0.0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::random::Purpose;

    fn draws(seed: u64) -> Draws {
        Draws::new(seed, Purpose::Training, 0)
    }

    fn sees(batch: &Batch, starts: &[usize], all_tokens: bool) -> Vec<Vec<bool>> {
        let mask = dual_block_mask(batch, starts, all_tokens, DType::F32, &Device::Cpu).unwrap();
        let rows = mask.reshape((batch.rows() * batch.length(), ())).unwrap().to_vec2::<f32>().unwrap();
        rows.iter().map(|row| row.iter().map(|score| *score == 0.0).collect()).collect()
    }

    /// A text of six tokens in blocks of two: hidden states to the left, tokens to the right.
    fn drawn(all_tokens: bool) -> Vec<String> {
        let batch = Batch::of_texts(&[vec![7; 6]]);
        let starts = Blocks { min: 2, max: 2 }.cut(&batch, &mut draws(0));
        let rows = sees(&batch, &starts, all_tokens);
        rows.iter().map(|row| row.iter().map(|sees| if *sees { 'x' } else { '.' }).collect()).collect()
    }

    #[test]
    fn the_paper_s_figure_3_with_blocks_of_two() {
        assert_eq!(
            drawn(false),
            ["......x.....", "......xx....", "xx......x...", "xx......xx..", "xxxx......x.", "xxxx......xx",]
        );
    }

    #[test]
    fn the_same_with_all_tokens() {
        assert_eq!(
            drawn(true),
            ["......x.....", "......xx....", "xx....xxx...", "xx....xxxx..", "xxxx..xxxxx.", "xxxx..xxxxxx",]
        );
    }

    proptest! {
        #[test]
        fn the_mask_is_the_formula(
            lengths in prop::collection::vec(1_usize..40, 1..4), min in 1_usize..8, more in 0_usize..8, seed in any::<u64>(),
            all_tokens in any::<bool>(),
        ) {
            let texts: Vec<Vec<u32>> = lengths.iter().map(|&length| vec![1; length]).collect();
            let batch = Batch::of_texts(&texts);
            let starts = Blocks { min, max: min + more }.cut(&batch, &mut draws(seed));
            let (sees, width) = (sees(&batch, &starts, all_tokens), batch.length());
            for (row, &length) in lengths.iter().enumerate() {
                // The block that each position is in, counted from 0, and where that block begins.
                let starts = &starts[row * width..][..length];
                let block: Vec<usize> = starts.iter().scan((0, 0), |(block, last), &start| {
                    *block += usize::from(start != *last);
                    *last = start;
                    Some(*block)
                }).collect();
                for i in 0..length {
                    for j in 0..width {
                        // Equation 3: the hidden states of earlier blocks, the tokens of one's own up to oneself;
                        // in our form, those of all blocks.
                        let state = j < length && block[j] < block[i];
                        let token = j <= i && (all_tokens || block[j] == block[i]);
                        prop_assert_eq!(sees[row * width + i][j], state, "state {} from {}", j, i);
                        prop_assert_eq!(sees[row * width + i][width + j], token, "token {} from {}", j, i);
                    }
                }
                let ends = block.chunk_by(|a, b| a == b).map(<[usize]>::len).collect::<Vec<_>>();
                let (last, whole) = ends.split_last().unwrap();
                prop_assert!(whole.iter().all(|length| (min..=min + more).contains(length)) && *last <= min + more);
            }
        }
    }

    #[test]
    fn blocks_are_redrawn_and_reach_both_bounds() {
        let batch = Batch::of_texts(&[vec![1; 2000]]);
        let blocks = Blocks { min: 5, max: 10 };
        let (one, other) = (blocks.cut(&batch, &mut draws(1)), blocks.cut(&batch, &mut draws(2)));
        assert_ne!(one, other);
        let mut lengths: Vec<usize> = one.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
        lengths.pop();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&5), Some(&10)));
    }
}
