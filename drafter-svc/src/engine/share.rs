//! Who runs in a pass when not all can: rows are shared between targets by weight, and among the sequences of a target
//! evenly.
//!
//! Both by the same rule ([`Shares`]): the target that is behind runs next, and of its sequences the one that is. Steps are
//! not divided: a pass is full once it has as many rows as it should, so it runs over by less than one step, and nobody
//! waits while it is not full.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use espalier_model::ROWS_MAX;
use espalier_service_kit::{Ask, Shares};

use crate::target_shares::TargetShare;

/// Rows of a full pass. From some 16 on, rows take as long as they are many; with more of them in a pass, nothing is gained
/// and who comes next waits longer.
pub const PASS_ROWS: usize = 64;

/// Tells sequences apart.
pub type SequenceNumber = u64;

/// A step that wants to run.
#[derive(Debug, Clone, Copy)]
pub struct StepAsk<'a> {
    /// The target's share.
    pub share: &'a TargetShare,
    /// Whose it is.
    pub sequence: SequenceNumber,
    /// What it would run.
    pub rows: usize,
}

/// What targets have run, and the sequences of each.
#[derive(Debug, Default)]
pub struct RowShares {
    targets: Shares<Arc<str>>,
    sequences: BTreeMap<Arc<str>, Shares<SequenceNumber>>,
}

impl RowShares {
    /// Which of the steps that want to run, the one that waits longest first, run in the next pass.
    pub fn choose(&mut self, steps: &[StepAsk<'_>]) -> Vec<bool> {
        let asks: Vec<Ask<SequenceNumber>> =
            steps.iter().map(|step| Ask { key: step.sequence, amount: step.rows }).collect();
        let mut waiting = self.begin(steps);
        if steps.iter().map(|step| step.rows.max(1)).sum::<usize>() <= PASS_ROWS {
            waiting.values_mut().for_each(Vec::clear);
            self.end(&asks, &waiting);
            return vec![true; steps.len()];
        }
        let (mut chosen, mut rows) = (vec![false; steps.len()], 0);
        while rows < PASS_ROWS {
            let Some((target, next)) = self.next_of(&asks, &waiting) else { break };
            if rows > 0 && rows + asks[next].amount > ROWS_MAX {
                break;
            }
            rows += asks[next].amount.max(1);
            chosen[next] = true;
            self.targets.give(&target, asks[next].amount);
            if let Some(sequences) = self.sequences.get_mut(&target) {
                sequences.give(&asks[next].key, asks[next].amount);
            }
            if let Some(of_target) = waiting.get_mut(&target) {
                of_target.retain(|&step| step != next);
            }
        }
        self.end(&asks, &waiting);
        chosen
    }

    /// The steps that wait, by their targets.
    fn begin(&mut self, steps: &[StepAsk<'_>]) -> BTreeMap<Arc<str>, Vec<usize>> {
        let mut waiting: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            waiting.entry(Arc::clone(&step.share.target)).or_default().push(index);
        }
        self.targets.begin(steps.iter().map(|step| (Arc::clone(&step.share.target), step.share.weight)));
        for (target, of_target) in &waiting {
            let asking = of_target.iter().map(|&index| (steps[index].sequence, NonZeroU32::MIN));
            self.sequences.entry(Arc::clone(target)).or_default().begin(asking);
        }
        waiting
    }

    /// The target and the step that are next; of equals, those that wait longest.
    fn next_of(
        &self,
        asks: &[Ask<SequenceNumber>],
        waiting: &BTreeMap<Arc<str>, Vec<usize>>,
    ) -> Option<(Arc<str>, usize)> {
        let heads = waiting.iter().filter_map(|(target, of_target)| {
            let next = self.sequences.get(target)?.next_of(asks, of_target)?;
            Some((self.targets.clock(target), next, target))
        });
        heads.min().map(|(_, next, target)| (Arc::clone(target), next))
    }

    fn end(&mut self, asks: &[Ask<SequenceNumber>], waiting: &BTreeMap<Arc<str>, Vec<usize>>) {
        let left = waiting.iter().filter(|(_, of_target)| !of_target.is_empty());
        self.targets.end(left.map(|(target, _)| Arc::clone(target)));
        for (target, of_target) in waiting {
            if let Some(sequences) = self.sequences.get_mut(target) {
                sequences.end(of_target.iter().map(|&index| asks[index].key));
            }
        }
        // What sequences of a target had is of no account once it wants nothing.
        self.sequences.retain(|target, _| waiting.contains_key(target));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// The largest step that is asked for here.
    const STEP_MAX: usize = 100;

    fn targets(weights: &[u32]) -> Vec<TargetShare> {
        let share = |(i, &weight): (usize, &u32)| TargetShare {
            target: i.to_string().into(),
            weight: NonZeroU32::new(weight).unwrap(),
        };
        weights.iter().enumerate().map(share).collect()
    }

    /// A step that waits: its target, its rows, and the last pass in which it must run.
    #[derive(Debug, Clone, Copy)]
    struct Step {
        target: usize,
        sequence: SequenceNumber,
        rows: usize,
        due: usize,
    }

    fn run(shares: &mut RowShares, targets: &[TargetShare], steps: &[Step]) -> (Vec<Step>, Vec<Step>) {
        let ask = |step: &Step| StepAsk { share: &targets[step.target], sequence: step.sequence, rows: step.rows };
        let asks: Vec<StepAsk<'_>> = steps.iter().map(ask).collect();
        let chosen = shares.choose(&asks);
        let (ran, waiting): (Vec<_>, Vec<_>) = steps.iter().zip(chosen).partition(|(_, chosen)| *chosen);
        (ran.into_iter().map(|(step, _)| *step).collect(), waiting.into_iter().map(|(step, _)| *step).collect())
    }

    fn rows(steps: &[Step]) -> usize {
        steps.iter().map(|step| step.rows).sum()
    }

    proptest! {
        #[test]
        fn every_step_runs_within_a_bound_and_nobody_waits_while_there_is_room(
            weights in proptest::collection::vec(1..10_u32, 1..5),
            arrivals in proptest::collection::vec(
                proptest::collection::vec((0..5_usize, 1..=STEP_MAX), 0..5), 1..100,
            ),
        ) {
            let (targets, mut shares) = (targets(&weights), RowShares::default());
            let mut waiting: Vec<Step> = Vec::new();
            let mut pass = 0;
            while pass < arrivals.len() || !waiting.is_empty() {
                for &(target, rows) in arrivals.get(pass).into_iter().flatten() {
                    let target = target % weights.len();
                    let own = rows + waiting.iter().filter(|step| step.target == target).map(|step| step.rows).sum::<usize>();
                    // While the target runs so much, others run what their weights allow, what they are owed, which is at
                    // most what a step of the least weight is to them, and one step over.
                    let others = weights.iter().enumerate().filter(|(other, _)| *other != target);
                    let least = weights.iter().min().copied().unwrap_or(1) as usize;
                    let share = |weight: u32| {
                        let (weight, of_target) = (weight as usize, weights[target] as usize);
                        (own * weight).div_ceil(of_target) + (STEP_MAX * weight).div_ceil(least) + STEP_MAX + 1
                    };
                    let before: usize = own + others.map(|(_, &weight)| share(weight)).sum::<usize>();
                    waiting.push(Step { target, sequence: 0, rows, due: pass + before / PASS_ROWS + 1 });
                }
                let (ran, left) = run(&mut shares, &targets, &waiting);
                prop_assert!(ran.iter().all(|step| pass <= step.due), "{ran:?} ran in pass {pass}");
                prop_assert!(left.is_empty() || rows(&ran) >= PASS_ROWS);
                prop_assert!(rows(&ran) < PASS_ROWS + STEP_MAX);
                for target in 0..weights.len() {
                    let of_target = |steps: &[Step]| steps.iter().filter(|step| step.target == target).count();
                    let first = waiting.iter().filter(|step| step.target == target).take(of_target(&ran)).map(|step| step.rows);
                    let ran = ran.iter().filter(|step| step.target == target).map(|step| step.rows);
                    prop_assert!(ran.eq(first), "those that wait longest run first");
                }
                waiting = left;
                pass += 1;
            }
            prop_assert!(shares.sequences.len() <= weights.len());
        }

        #[test]
        fn what_targets_run_is_as_their_weights_are(
            weights in proptest::collection::vec(1..10_u32, 2..5),
            sizes in proptest::collection::vec(1..=STEP_MAX, 8..40),
            passes in 1..200_usize,
        ) {
            let (targets, mut shares) = (targets(&weights), RowShares::default());
            let mut sizes = sizes.into_iter().cycle();
            let mut next = |target| Step { target, sequence: 0, rows: sizes.next().unwrap(), due: 0 };
            let mut waiting: Vec<Step> = (0..weights.len() * 100).map(|i| next(i % weights.len())).collect();
            let mut ran = vec![0.0; weights.len()];
            for _ in 0..passes {
                let (now, left) = run(&mut shares, &targets, &waiting);
                waiting = left;
                for step in now {
                    ran[step.target] += step.rows as f64 / f64::from(weights[step.target]);
                    waiting.push(next(step.target));
                }
            }
            // A target is ahead of another by less than what one step of each counts.
            for (one, weight) in ran.iter().zip(&weights) {
                for (other, others) in ran.iter().zip(&weights) {
                    let step = |weight: u32| STEP_MAX as f64 / f64::from(weight);
                    prop_assert!((one - other).abs() <= step(*weight) + step(*others) + 0.1, "{ran:?} of {weights:?}");
                }
            }
        }
    }

    #[test]
    fn who_comes_back_runs_at_once_but_has_saved_nothing_up() {
        let (targets, mut shares) = (targets(&[1, 1]), RowShares::default());
        let step = |target, rows| Step { target, sequence: 0, rows, due: 0 };
        let busy = vec![step(0, 8); 32];
        for _ in 0..100 {
            run(&mut shares, &targets, &busy);
        }
        let ran_of = |shares: &mut RowShares, steps: &[Step]| {
            let (ran, _) = run(shares, &targets, steps);
            ran.iter().filter(|step| step.target == 1).count()
        };
        assert_eq!(ran_of(&mut shares, &[busy.clone(), vec![step(1, 8)]].concat()), 1);
        let both = [busy, vec![step(1, 8); 32]].concat();
        let ran: usize = (0..10).map(|_| ran_of(&mut shares, &both)).sum();
        assert!((39..=41).contains(&ran), "{ran} of 80");
    }

    #[test]
    fn sequences_of_a_target_run_as_many_rows_whether_their_levels_are_large_or_small() {
        let (targets, mut shares) = (targets(&[1, 1]), RowShares::default());
        let sizes = [300, 30, 30, 30, 30, 30, 10, 30, 30, 30, 30, 30];
        let step = |sequence: usize| Step {
            target: usize::from(sequence >= 6),
            sequence: sequence as SequenceNumber,
            rows: sizes[sequence],
            due: 0,
        };
        let (mut waiting, mut ran) = ((0..sizes.len()).map(step).collect::<Vec<_>>(), vec![0; sizes.len()]);
        for _ in 0..2000 {
            let (now, left) = run(&mut shares, &targets, &waiting);
            waiting = left;
            for step_run in now {
                ran[step_run.sequence as usize] += step_run.rows;
                waiting.push(step(step_run.sequence as usize));
            }
        }
        let (most, least) = (ran.iter().max().unwrap(), ran.iter().min().unwrap());
        assert!(most - least <= 600, "{ran:?}");
    }

    #[test]
    fn a_step_larger_than_a_pass_runs_alone() {
        let (targets, mut shares) = (targets(&[1]), RowShares::default());
        let steps = [3, 4096, 4096, 1].map(|rows| Step { target: 0, sequence: 0, rows, due: 0 });
        let (first, left) = run(&mut shares, &targets, &steps);
        assert_eq!((first.len(), left.len()), (1, 3));
        assert_eq!(run(&mut shares, &targets, &left).0.len(), 1);
    }
}
