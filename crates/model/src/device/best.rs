//! The best tokens of rows, found where their logits are, so that few numbers leave the device.

use candle_core::{D, Device, Result, Tensor};
use espalier_speculation::{Best, BestOfPart, Contenders, LogitsError, Token};

use crate::pass::{NoiseAt, Told};

/// No token: what is told of a row where there is none. Tokens are told as f32, which holds all integers up to this one.
pub(super) const NO_TOKEN: f32 = 16_777_216.0;

/// The most tokens that are looked for, one after the other: beyond that all logits are told sooner.
pub(super) const BEST_MAX: usize = 64;

/// The least score that weighs anything: what is far below the best adds less than f32 can tell.
const LEAST_SCORE: f64 = -80.0;

/// Numbers before the best tokens: the first faulty token, and the sums of weights and of weights times scores, or under
/// noise the greatest logit and one that means nothing.
const HEAD: usize = 3;

/// What is wanted of some rows.
pub(super) struct BestOfRows {
    /// The rows of the stream.
    pub(super) rows: Vec<u32>,
    /// Of each so many tokens count, the first ones of the vocabulary.
    pub(super) vocabs: Vec<usize>,
    /// Of each the noise under which its best are meant, if they are not those of greatest logit.
    pub(super) noises: Vec<Option<NoiseAt>>,
    /// So many of the best.
    pub(super) count: usize,
}

impl BestOfRows {
    /// What a rank says of its part of the vocabulary where no row is under noise, given its rows' `logits` (rows, tokens of
    /// the part), of which `first` is the first token: (rows, 3 + 2 count) numbers.
    pub(super) fn say(&self, logits: &Tensor, first: usize) -> Result<Tensor> {
        let (rows, own) = logits.dims2()?;
        let device = logits.device();
        let shape = (rows, own);
        let tokens = Tensor::arange(first as f32, (first + own) as f32, device)?.reshape((1, own))?;
        let tokens = tokens.broadcast_as(shape)?;
        let [none, lowest] = [NO_TOKEN, f32::NEG_INFINITY].map(|value| full(value, shape, device));
        let (none, lowest) = (none?, lowest?);
        let first_of = |which: &Tensor| which.where_cond(&tokens, &none)?.min_keepdim(D::Minus1);
        let counts = tokens.broadcast_lt(&self.limits(device)?)?;
        let faulty = (logits.ne(logits)?.maximum(&logits.ge(f32::INFINITY)?)? * &counts)?;
        let mut left = (counts - &faulty)?.where_cond(logits, &lowest)?;
        let peak = left.max_keepdim(D::Minus1)?.maximum(f32::MIN)?;
        let scores = left.broadcast_sub(&peak)?.maximum(LEAST_SCORE)?;
        let weights = scores.exp()?;
        let mut said = vec![first_of(&faulty)?, weights.sum_keepdim(D::Minus1)?];
        said.push((weights * scores)?.sum_keepdim(D::Minus1)?);
        for _ in 0..self.count {
            let best = left.max_keepdim(D::Minus1)?;
            let token = first_of(&left.broadcast_eq(&best)?)?;
            left = tokens.broadcast_eq(&token)?.where_cond(&lowest, &left)?;
            said.extend([best, token]);
        }
        Tensor::cat(&said, 1)
    }

    /// Of each row, what its ranks said, one after the other; nothing where all logits are needed to tell the winner.
    pub(super) fn heard(&self, said: &[f32], ranks: usize) -> Vec<Option<std::result::Result<Told, LogitsError>>> {
        let each = HEAD + 2 * self.count;
        let rows = said.chunks_exact(each * ranks).zip(self.vocabs.iter().zip(&self.noises));
        rows.map(|(said, (vocab, noise))| {
            let Some(NoiseAt { rule, position }) = noise else {
                let parts: Vec<BestOfPart> = said.chunks_exact(each).map(part).collect();
                return Some(Best::of_parts(&parts, *vocab, self.count).map(Told::Best));
            };
            let parts: Vec<Contenders> = said.chunks_exact(each).map(contenders).collect();
            rule.decide_among(&parts, *vocab, *position).map(|token| token.map(Told::Winner)).transpose()
        })
        .collect()
    }

    /// How many tokens of each row count: (rows, 1).
    fn limits(&self, device: &Device) -> Result<Tensor> {
        let limits: Vec<f32> = self.vocabs.iter().map(|vocab| *vocab as f32).collect();
        Tensor::from_vec(limits, (self.vocabs.len(), 1), device)
    }
}

fn full(value: f32, shape: (usize, usize), device: &Device) -> Result<Tensor> {
    Tensor::full(value, (1, 1), device)?.broadcast_as(shape)
}

/// What a rank said of a row.
fn part(said: &[f32]) -> BestOfPart {
    BestOfPart { tokens: possible(said), sum: f64::from(said[1]), moment: f64::from(said[2]), faulty: token(said[0]) }
}

/// What a rank said of a row under noise.
fn contenders(said: &[f32]) -> Contenders {
    let tokens = possible(said);
    let are_all = HEAD + 2 * tokens.len() < said.len();
    Contenders { tokens, are_all, peak: said[1], faulty: token(said[0]) }
}

/// The tokens that a rank named, and their logits above minus infinity.
fn possible(said: &[f32]) -> Vec<(Token, f32)> {
    let named = said[HEAD..].chunks_exact(2).filter(|named| named[0] > f32::NEG_INFINITY);
    named.filter_map(|named| Some((token(named[1])?, named[0]))).collect()
}

fn token(number: f32) -> Option<Token> {
    (number < NO_TOKEN).then_some(number as Token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// What `ranks` say of rows of `vocab` logits each, and what is made of it.
    fn heard(logits: &[f32], vocab: usize, ranks: usize, count: usize) -> Vec<std::result::Result<Best, LogitsError>> {
        let rows = logits.len() / vocab;
        let logits = Tensor::from_slice(logits, (rows, vocab), &Device::Cpu).unwrap();
        // The last token is padding.
        let (vocabs, noises) = (vec![vocab - 1; rows], vec![None; rows]);
        let wanted = BestOfRows { rows: (0..rows as u32).collect(), vocabs, noises, count };
        let each = vocab / ranks;
        let said = (0..ranks).map(|rank| {
            let part = logits.narrow(1, rank * each, each).unwrap().contiguous().unwrap();
            wanted.say(&part, rank * each).unwrap()
        });
        let said = Tensor::cat(&said.collect::<Vec<_>>(), 1).unwrap();
        let heard = wanted.heard(&said.flatten_all().unwrap().to_vec1().unwrap(), ranks);
        let best = heard.into_iter().map(|told| match told.unwrap()? {
            Told::Best(best) => Ok(best),
            Told::Winner(token) => panic!("no row is under noise, and {token} was told"),
        });
        best.collect()
    }

    #[test]
    fn the_best_are_those_of_the_whole_row() {
        let mut state = 7_u32;
        let mut logits: Vec<f32> = (0..5 * 48)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Few values, so that there are ties.
                (state >> 24) as f32 / 16.0
            })
            .collect();
        logits[48..60].fill(f32::NEG_INFINITY);
        for ranks in [1, 2, 4] {
            for (row, found) in logits.chunks_exact(48).zip(heard(&logits, 48, ranks, 6)) {
                let whole = Best::of_parts(&[BestOfPart::new(&row[..47], 0, 6)], 47, 6).unwrap();
                let (found, whole) = (found.unwrap().candidates(6), whole.candidates(6));
                let tokens = |candidates: &espalier_speculation::Candidates| -> Vec<Token> {
                    candidates.tokens().iter().map(|&(token, _)| token).collect()
                };
                assert_eq!(tokens(&found), tokens(&whole));
                assert!((found.confidence() - whole.confidence()).abs() < 1e-6);
                assert!((found.entropy() - whole.entropy()).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn what_decides_nothing_is_told_as_on_the_processor() {
        let logits = [
            [1.0, f32::NAN, 0.0, f32::INFINITY, 0.0, 0.0],
            [f32::NEG_INFINITY; 6],
            [0.0, 0.0, 0.0, 0.0, 3.0, f32::NAN],
        ];
        for ranks in [1, 2, 3] {
            let found = heard(&logits.concat(), 6, ranks, 1);
            assert_eq!(found[0], Err(LogitsError::NotFinite { token: 1 }));
            assert_eq!(found[1], Err(LogitsError::NothingPossible { vocab: 5 }));
            assert_eq!(found[2].as_ref().map(Best::arg_max), Ok(4), "padding does not count");
        }
    }
}
