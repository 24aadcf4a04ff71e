//! Who runs in a pass when not all can: rows are shared between targets by weight.
//!
//! This is deficit sharing told by virtual time. Each target has a clock that runs on by rows over weight for all that it
//! runs, and the one whose clock is behind runs next. A target that had nothing to run begins at the present time, so
//! nobody saves up. Steps are not divided: a pass is full once it has as many rows as it should, so it runs over by less
//! than one step, and nobody waits while it is not full.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use espalier_model::ROWS_MAX;

use crate::target_shares::TargetShare;

/// Rows of a full pass. From some 16 on, rows take as long as they are many; with more of them in a pass, nothing is gained
/// and who comes next waits longer.
pub(super) const PASS_ROWS: usize = 64;

/// How far the clock of a target of weight 1 runs on for one row: the weights divide it well enough.
const ROW: u64 = 1 << 20;

/// A step that wants to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) share: &'a TargetShare,
    pub(super) rows: usize,
}

impl Ask<'_> {
    fn takes(&self) -> u64 {
        self.rows.max(1) as u64 * ROW / u64::from(self.share.weight.get())
    }
}

/// What targets have run.
#[derive(Debug, Default)]
pub(super) struct RowShares {
    /// The present time: when the step that ran last began on its target's clock.
    now: u64,
    /// The clocks of targets, where they are ahead of that.
    clocks: HashMap<Arc<str>, u64>,
}

impl RowShares {
    /// Which of the steps that want to run, the one that waits longest first, run in the next pass.
    pub(super) fn choose(&mut self, asks: &[Ask<'_>]) -> Vec<bool> {
        let mut chosen = vec![false; asks.len()];
        let mut waiting: HashMap<&Arc<str>, VecDeque<usize>> = HashMap::new();
        for (i, ask) in asks.iter().enumerate() {
            waiting.entry(&ask.share.target).or_default().push_back(i);
        }
        let mut rows = 0;
        while rows < PASS_ROWS {
            let heads =
                waiting.iter().filter_map(|(&target, steps)| Some((self.clock(target), *steps.front()?, target)));
            let Some((clock, head, target)) = heads.min() else { break };
            let ask = &asks[head];
            if rows > 0 && rows + ask.rows > ROWS_MAX {
                break;
            }
            rows += ask.rows.max(1);
            chosen[head] = true;
            waiting.get_mut(target).map(VecDeque::pop_front);
            self.now = clock;
            self.clocks.insert(target.clone(), clock.saturating_add(ask.takes()));
        }
        let now = self.now;
        self.clocks.retain(|_, clock| *clock > now);
        chosen
    }

    /// When a target's next step begins.
    fn clock(&self, target: &str) -> u64 {
        self.clocks.get(target).map_or(self.now, |&clock| clock.max(self.now))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::num::NonZeroU32;

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
        rows: usize,
        due: usize,
    }

    fn run(shares: &mut RowShares, targets: &[TargetShare], steps: &[Step]) -> (Vec<Step>, Vec<Step>) {
        let asks: Vec<Ask<'_>> =
            steps.iter().map(|step| Ask { share: &targets[step.target], rows: step.rows }).collect();
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
                    // While the target runs so much, others run what their weights allow, and one step over.
                    let others = weights.iter().enumerate().filter(|(other, _)| *other != target);
                    let share = |weight: u32| (own + STEP_MAX) * weight as usize / weights[target] as usize + STEP_MAX + 1;
                    let before: usize = own + others.map(|(_, &weight)| share(weight)).sum::<usize>();
                    waiting.push(Step { target, rows, due: pass + before / PASS_ROWS + 1 });
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
            prop_assert!(shares.clocks.len() <= weights.len());
        }

        #[test]
        fn what_targets_run_is_as_their_weights_are(
            weights in proptest::collection::vec(1..10_u32, 2..5),
            sizes in proptest::collection::vec(1..=STEP_MAX, 8..40),
            passes in 1..200_usize,
        ) {
            let (targets, mut shares) = (targets(&weights), RowShares::default());
            let mut sizes = sizes.into_iter().cycle();
            let mut next = |target| Step { target, rows: sizes.next().unwrap(), due: 0 };
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
        let step = |target, rows| Step { target, rows, due: 0 };
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
    fn a_step_larger_than_a_pass_runs_alone() {
        let (targets, mut shares) = (targets(&[1]), RowShares::default());
        let steps = [3, 4096, 4096, 1].map(|rows| Step { target: 0, rows, due: 0 });
        let (first, left) = run(&mut shares, &targets, &steps);
        assert_eq!((first.len(), left.len()), (1, 3));
        assert_eq!(run(&mut shares, &targets, &left).0.len(), 1);
    }
}
