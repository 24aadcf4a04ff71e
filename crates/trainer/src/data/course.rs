//! The order in which a training meets its texts.

use espalier_speculation::Token;

use super::batch::Batch;
use super::pack::{Row, pack};
use crate::random::{Draws, Purpose};

/// How texts become steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Tokens of a row.
    pub(crate) length: usize,
    /// Rows of a batch.
    pub(crate) batch: usize,
    /// Batches of a step.
    pub(crate) accumulate: usize,
}

/// All steps of a training, each a function of its number: texts are shuffled and packed anew for every epoch, by
/// (seed, epoch) alone.
#[derive(Debug)]
pub(crate) struct Course {
    texts: Vec<Vec<Token>>,
    lengths: Vec<usize>,
    pace: Pace,
    seed: u64,
    /// The step after each epoch's last.
    ends: Vec<usize>,
    /// The epoch packed last, as steps mostly follow each other.
    packed: Option<(usize, Vec<Row>)>,
}

impl Course {
    /// A course of so many epochs.
    pub(crate) fn new(texts: Vec<Vec<Token>>, pace: Pace, epochs: usize, seed: u64) -> Self {
        let lengths = texts.iter().map(Vec::len).collect();
        let mut course = Self { texts, lengths, pace, seed, ends: Vec::new(), packed: None };
        for epoch in 0..epochs {
            let steps = course.pack_epoch(epoch).len().div_ceil(pace.batch * pace.accumulate);
            course.ends.push(course.steps() + steps);
        }
        course
    }

    /// Steps in all.
    pub(crate) fn steps(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The epoch, from 0, of a step, from 0.
    pub(crate) fn epoch_of(&self, step: usize) -> usize {
        self.ends.partition_point(|end| *end <= step)
    }

    /// The batches of a step, from 0; none beyond the last. The last batches of an epoch may have fewer rows.
    pub(crate) fn batches(&mut self, step: usize) -> Vec<Batch> {
        let epoch = self.epoch_of(step);
        if epoch == self.ends.len() {
            return Vec::new();
        }
        let begin = if epoch == 0 { 0 } else { self.ends[epoch - 1] };
        let Pace { batch, accumulate, .. } = self.pace;
        if self.packed.as_ref().is_none_or(|(packed, _)| *packed != epoch) {
            self.packed = Some((epoch, self.pack_epoch(epoch)));
        }
        let rows = self.packed.as_ref().map_or(&[][..], |(_, rows)| rows);
        let groups = rows.chunks(batch).skip((step - begin) * accumulate).take(accumulate);
        groups.map(|rows| Batch::of_rows(rows, &self.texts)).collect()
    }

    fn pack_epoch(&self, epoch: usize) -> Vec<Row> {
        let mut draws = Draws::new(self.seed, Purpose::Order, epoch as u64);
        let mut order: Vec<usize> = (0..self.texts.len()).collect();
        draws.shuffle(&mut order);
        let mut rows = pack(&self.lengths, &order, self.pace.length);
        draws.shuffle(&mut rows);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(epochs: usize) -> Course {
        let texts = (0..23).map(|text| (0..text % 7 + 1).map(|i| text * 10 + i).collect()).collect();
        Course::new(texts, Pace { length: 8, batch: 3, accumulate: 2 }, epochs, 5)
    }

    fn tokens_of(batches: &[Batch]) -> Vec<Token> {
        let spans = |batch: &Batch| {
            let texts = batch.spans().iter().map(|span| &batch.tokens()[batch.first_of(span)..][..span.length]);
            texts.flatten().copied().collect::<Vec<_>>()
        };
        batches.iter().flat_map(spans).collect()
    }

    #[test]
    fn an_epoch_is_every_token_once() {
        let mut course = course(2);
        let (first, all) = (course.ends[0], course.steps());
        for epoch in [0..first, first..all] {
            let mut tokens: Vec<Token> = epoch.flat_map(|step| tokens_of(&course.batches(step))).collect();
            tokens.sort_unstable();
            let mut expected: Vec<Token> = course.texts.concat();
            expected.sort_unstable();
            assert_eq!(tokens, expected);
        }
    }

    #[test]
    fn a_step_is_a_function_of_its_number() {
        let (mut forwards, mut backwards) = (course(3), course(3));
        let steps = forwards.steps();
        let expected: Vec<Vec<Batch>> = (0..steps).map(|step| forwards.batches(step)).collect();
        for step in (0..steps).rev() {
            assert_eq!(backwards.batches(step), expected[step]);
        }
        assert!(expected.iter().flatten().all(|batch| batch.rows() <= 3 && batch.length() <= 8));
        assert!(forwards.batches(steps).is_empty());
    }

    #[test]
    fn every_epoch_has_an_order_of_its_own() {
        let mut course = course(2);
        let second = course.ends[0];
        assert_ne!(course.batches(0), course.batches(second));
        assert_eq!([0, second - 1, second].map(|step| course.epoch_of(step)), [0, 0, 1]);
    }
}
