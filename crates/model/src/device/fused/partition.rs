//! How a product is shared among the processors of a GPU.

/// Processors of the GPUs that products are made for, H100 and H200. One with fewer takes more turns; the bits are the same.
const PROCESSORS: usize = 132;

/// Most tiles of a group: a block of threads has a warp for each.
const WIDE_MAX: usize = 8;

/// Most parts that a sum comes in: splits of steps, or ranks. It is `PARTS` in `kernels/common.h`.
pub(super) const PARTS_MAX: usize = 8;

/// Fewest steps of a part.
const STEPS_MIN: usize = 8;

/// Groups of tiles times splits of steps, each of which is a job of a block of threads. It depends on the matrix alone: how
/// sums are added up must not depend on the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// Tiles of a group.
    pub(super) wide: usize,
    pub(super) splits: usize,
    /// Steps of a split; the last one may have fewer.
    pub(super) each: usize,
}

impl Partition {
    /// The one that takes the least of the busiest processor, into so many splits at most.
    pub(super) fn best(tiles: usize, steps: usize, splits_max: usize) -> Self {
        let splits_max = splits_max.min(steps / STEPS_MIN).max(1);
        let all = (1..=WIDE_MAX).rev().flat_map(|wide| (1..=splits_max).map(move |splits| (wide, splits)));
        let partitions = all.map(|(wide, splits)| {
            let each = steps.div_ceil(splits);
            Self { wide, splits: steps.div_ceil(each), each }
        });
        let least = partitions.min_by_key(|partition| partition.cost(tiles));
        least.unwrap_or(Self { wide: 1, splits: 1, each: steps })
    }

    /// Blocks of threads for so many groups of rows, each of which does about as many jobs.
    pub(super) fn blocks(self, tiles: usize, row_groups: usize) -> usize {
        let jobs = tiles.div_ceil(self.wide) * self.splits * row_groups;
        let turns = jobs.div_ceil(PROCESSORS);
        jobs.div_ceil(turns.max(1))
    }

    /// What goes through the busiest processor, in 2 KB over all processors: the weights of a tile in a step, or as much
    /// for the numbers of 32 rows; sums of splits, in f32, are written and read.
    fn cost(self, tiles: usize) -> usize {
        let turns = (tiles.div_ceil(self.wide) * self.splits).div_ceil(PROCESSORS);
        let sums = if self.splits > 1 { 4 * self.splits * tiles } else { 0 };
        turns * self.each * (self.wide + 1) * PROCESSORS + sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processors_have_about_as_much_to_do() {
        // Llama 3.1 8B: queries, keys and values; output; gate and up; down; head.
        let shapes = [(192, 128, 8), (128, 128, 8), (896, 128, 1), (128, 448, 8), (4008, 128, 1)];
        let partitions = shapes.map(|(tiles, steps, splits)| Partition::best(tiles, steps, splits));
        assert_eq!(partitions.map(|best| (best.wide, best.splits)), [(6, 4), (8, 8), (7, 1), (8, 8), (8, 1)]);
        for ((tiles, steps, _), best) in shapes.into_iter().zip(partitions) {
            let turns = (tiles.div_ceil(best.wide) * best.splits).div_ceil(PROCESSORS);
            let busiest = turns * best.wide * best.each * PROCESSORS;
            assert!(busiest * 100 <= tiles * steps * 106, "{best:?} takes {busiest} for {} steps", tiles * steps);
        }
    }

    #[test]
    fn blocks_have_about_as_many_jobs() {
        let blocks = |tiles, splits| Partition { wide: 8, splits, each: 16 }.blocks(tiles, 1);
        assert_eq!([blocks(8, 1), blocks(896, 1), blocks(128, 8), blocks(4008, 1)], [1, 112, 128, 126]);
    }

    #[test]
    fn no_split_is_empty_and_none_is_short() {
        for steps in 1..300 {
            let best = Partition::best(4, steps, PARTS_MAX);
            assert!((best.splits - 1) * best.each < steps && best.splits * best.each >= steps, "{steps}: {best:?}");
            assert!(best.splits == 1 || best.each >= STEPS_MIN, "{steps}: {best:?}");
        }
    }
}
