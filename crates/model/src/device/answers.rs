//! What is wanted of the rows of a pass, by how much of it is told.

use std::sync::Arc;

use espalier_speculation::CONTENDERS;

use super::best::{BEST_MAX, BestOfRows, NO_TOKEN};
use crate::pass::{Answer, NoiseAt, Results, Told};
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

/// A row that needs all logits to decide, as contenders are too near each other.
pub(super) struct Near {
    pub(super) row: u32,
    place: usize,
    vocab: usize,
    noise: NoiseAt,
}

impl Answers {
    /// What is wanted of rows of `vocab` logits, where the device finds the best tokens of those that `finds` says.
    pub(super) fn new(answers: &[Answer], vocab: usize, finds: impl Fn(&Answer) -> bool) -> Self {
        let mut wanted = BestOfRows { rows: Vec::new(), vocabs: Vec::new(), noises: Vec::new(), count: 1 };
        let (mut whole, mut whole_places, mut best_places) = (Vec::new(), Vec::new(), Vec::new());
        for (row, answer) in (0..).zip(answers) {
            // Tokens of larger vocabularies cannot be told in f32.
            match answer.best.filter(|best| best.count <= BEST_MAX && vocab < NO_TOKEN as usize && finds(answer)) {
                Some(BestOf { count, vocab: counted, .. }) => {
                    wanted.rows.push(row);
                    wanted.vocabs.push(counted.min(vocab));
                    wanted.noises.push(answer.noise);
                    wanted.count = wanted.count.max(if answer.noise.is_some() { CONTENDERS } else { count });
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

    /// Puts what so many ranks said of the best tokens among the results. Returns the rows of which that does not tell the
    /// winner.
    pub(super) fn put_best(&self, said: &[f32], ranks: usize, results: &mut Results) -> Vec<Near> {
        let mut near = Vec::new();
        for (index, told) in self.best.heard(said, ranks).into_iter().enumerate() {
            let place = self.best_places[index];
            if let (None, Some(noise)) = (&told, self.best.noises[index]) {
                near.push(Near { row: self.best.rows[index], place, vocab: self.best.vocabs[index], noise });
            }
            results.best[place] = told;
        }
        near
    }
}

impl Near {
    /// Puts the winner among the results, given all logits of the row.
    pub(super) fn settle(&self, logits: &[f32], results: &mut Results) {
        let winner = self.noise.rule.decide(&logits[..self.vocab], self.noise.position);
        results.best[self.place] = Some(winner.map(Told::Winner));
    }
}
