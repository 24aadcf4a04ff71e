//! What is wanted of the rows of a pass, by how much of it is told.

use std::sync::Arc;

use super::best::{BEST_MAX, BestOfRows, NO_TOKEN};
use crate::pass::{Answer, Results};
use crate::rows::BestOf;

/// The rows that want something, and where among the results it goes.
pub(super) struct Answers {
    /// Those of which all logits are wanted.
    pub(super) whole: Vec<u32>,
    whole_places: Vec<usize>,
    /// Those of which the best tokens are enough.
    pub(super) best: Arc<BestOfRows>,
    best_places: Vec<usize>,
}

impl Answers {
    pub(super) fn new(answers: &[Answer], vocab: usize) -> Self {
        let mut wanted = BestOfRows { rows: Vec::new(), vocabs: Vec::new(), count: 1 };
        let (mut whole, mut whole_places, mut best_places) = (Vec::new(), Vec::new(), Vec::new());
        for (row, answer) in (0..).zip(answers) {
            // Tokens of larger vocabularies cannot be told in f32.
            match answer.best.filter(|best| best.count <= BEST_MAX && vocab < NO_TOKEN as usize) {
                Some(BestOf { count, vocab: counted }) => {
                    wanted.rows.push(row);
                    wanted.vocabs.push(counted.min(vocab));
                    wanted.count = wanted.count.max(count);
                    best_places.push(answer.place);
                }
                None => {
                    whole.push(row);
                    whole_places.push(answer.place);
                }
            }
        }
        Self { whole, whole_places, best: Arc::new(wanted), best_places }
    }

    /// Puts all logits (rows, vocab) of the rows that want them among the results.
    pub(super) fn put_logits(&self, logits: &[f32], vocab: usize, results: &mut Results) {
        for (logits, place) in logits.chunks_exact(vocab).zip(&self.whole_places) {
            results.logits[place * vocab..][..vocab].copy_from_slice(logits);
        }
    }

    /// Puts what so many ranks said of the best tokens among the results.
    pub(super) fn put_best(&self, said: &[f32], ranks: usize, results: &mut Results) {
        for (best, place) in self.best.heard(said, ranks).into_iter().zip(&self.best_places) {
            results.best[*place] = Some(best);
        }
    }
}
