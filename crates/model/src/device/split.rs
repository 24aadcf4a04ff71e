//! Which layers of a model are whose, where each device has some of them.

use std::ops::Range;

use crate::error::{ModelError, Result};

/// How many weights the parts of a model have. All its layers have as many.
#[derive(Clone, Copy)]
pub(super) struct Parameters {
    pub(super) embedding: usize,
    pub(super) layer: usize,
    pub(super) head: usize,
}

/// Splits layers into stages, in their order, so that the largest stage has as few parameters as can be: the first has
/// the embedding too, and the last the head. Each has at least one layer.
///
/// # Errors
/// [`ModelError::Stages`] for none, or more than layers.
pub(super) fn split(parameters: &Parameters, layers: usize, stages: usize) -> Result<Vec<Range<usize>>> {
    if !(1..=layers).contains(&stages) {
        return Err(ModelError::Stages { stages, layers });
    }
    let mut stands = vec![parameters.layer; stages];
    stands[0] += parameters.embedding;
    stands[stages - 1] += parameters.head;
    let mut counts = vec![1; stages];
    for _ in stages..layers {
        // As all layers are alike, each goes to the stage that has least: no other way has a smaller largest stage.
        let least = (0..stages).min_by_key(|stage| stands[*stage]).unwrap_or(0);
        stands[least] += parameters.layer;
        counts[least] += 1;
    }
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end - count..*end)
    });
    Ok(ends.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LAYER: usize = 10;

    fn counts(ends: [usize; 2], layers: usize, stages: usize) -> Vec<usize> {
        let parameters = Parameters { embedding: ends[0], layer: LAYER, head: ends[1] };
        split(&parameters, layers, stages).unwrap().iter().map(ExactSizeIterator::len).collect()
    }

    /// Parameters of the largest stage, of all ways to split.
    fn least_largest(ends: [usize; 2], layers: usize, stages: usize) -> usize {
        let [embedding, head] = ends;
        if stages == 1 {
            return embedding + layers * LAYER + head;
        }
        let first = |count: usize| embedding + count * LAYER;
        let largest = |count| first(count).max(least_largest([0, head], layers - count, stages - 1));
        (1..=layers - (stages - 1)).map(largest).min().unwrap()
    }

    #[test]
    fn stages_have_all_layers_in_their_order() {
        for (layers, stages) in [(1, 1), (5, 2), (7, 7), (32, 3)] {
            let ranges = split(&Parameters { embedding: 25, layer: LAYER, head: 25 }, layers, stages).unwrap();
            assert!(ranges.iter().all(|range| !range.is_empty()) && ranges.len() == stages);
            assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), (0..layers).collect::<Vec<_>>());
        }
    }

    #[test]
    fn embedding_and_head_count_as_the_layers_that_they_are_worth() {
        assert_eq!(counts([0, 0], 8, 4), [2, 2, 2, 2]);
        assert_eq!(counts([0, 0], 10, 4), [3, 3, 2, 2]);
        assert_eq!(counts([10, 10], 8, 2), [4, 4]);
        assert_eq!(counts([20, 10], 11, 3), [3, 5, 3]);
        // The ends are larger than all layers together.
        assert_eq!(counts([100, 100], 6, 3), [1, 4, 1]);
        assert_eq!(counts([100, 100], 6, 1), [6]);
    }

    #[test]
    fn no_other_way_has_a_smaller_largest_stage() {
        for ends in [[0, 0], [7, 0], [0, 33], [15, 15], [120, 40]] {
            for (layers, stages) in [(5, 1), (5, 2), (9, 3), (9, 4), (8, 8)] {
                let mut held: Vec<usize> = counts(ends, layers, stages).iter().map(|count| count * LAYER).collect();
                held[0] += ends[0];
                held[stages - 1] += ends[1];
                assert_eq!(
                    *held.iter().max().unwrap(),
                    least_largest(ends, layers, stages),
                    "{ends:?} {layers} {stages}"
                );
            }
        }
    }

    #[test]
    fn a_stage_has_a_layer() {
        let parameters = Parameters { embedding: 0, layer: LAYER, head: 0 };
        let refusal = |stages| split(&parameters, 3, stages).unwrap_err().to_string();
        assert_eq!(refusal(4), "3 layers cannot be split into 4 stages: each has at least one");
        assert_eq!(refusal(0), "3 layers cannot be split into 0 stages: each has at least one");
    }
}
