//! What the tuner promises, on surfaces whose best thresholds are known.
#![allow(clippy::unwrap_used)]

use super::*;

/// A target: what a round of thresholds commits and takes, with noise like that of real rounds.
struct Surface {
    /// The best thresholds.
    best: Vec<f64>,
    /// What is lost of the rate by each step of the grid away from the best, as a share.
    slope: f64,
    draws: Uniforms,
}

impl Surface {
    fn new(best: &[f64], slope: f64, seed: u64) -> Self {
        Self { best: best.to_vec(), slope, draws: Uniforms::new(seed, 1, Side::Policy) }
    }

    /// One to five tokens, three on average; more time the farther the thresholds are from the best.
    fn round(&mut self, thresholds: &ExitThresholds) -> (usize, Duration) {
        let step = |value: f64| THRESHOLD_GRID.iter().position(|&grid| (grid - value).abs() < 1e-9).unwrap();
        let away: usize =
            thresholds.thresholds().iter().zip(&self.best).map(|(a, b)| step(*a).abs_diff(step(*b))).sum();
        let tokens = 1 + (self.draws.next().unwrap() * 5.0) as usize;
        let noise = 0.8 + 0.4 * self.draws.next().unwrap();
        (tokens, Duration::from_secs_f64(0.02 * noise * (1.0 + self.slope * away as f64)))
    }
}

/// Tunes for so many runs; gives how many of them were trials.
fn tune(tuner: &mut ThresholdTuner, surface: &mut Surface, runs: usize) -> usize {
    let mut trials = 0;
    for _ in 0..runs {
        let run = tuner.begin_run();
        trials += usize::from(run.is_trial());
        for _ in 1..run.rounds() {
            let (tokens, took) = surface.round(run.thresholds());
            tuner.observe(&run, tokens, took);
        }
    }
    trials
}

/// A tuner of so many exits whose first runs are over.
fn opened(surface: &mut Surface, exits: usize, seed: u64) -> ThresholdTuner {
    let mut tuner = ThresholdTuner::new(exits, seed).unwrap();
    while tuner.turn.is_some() {
        tune(&mut tuner, surface, 1);
    }
    tuner
}

/// Steps of the grid between what is best and what was found.
fn steps_away(tuner: &ThresholdTuner, surface: &Surface) -> usize {
    let step = |value: f64| THRESHOLD_GRID.iter().position(|&grid| grid >= value - 1e-9).unwrap();
    let found = tuner.best().thresholds().iter();
    found.zip(&surface.best).map(|(a, b)| step(*a).abs_diff(step(*b))).sum()
}

#[test]
fn it_finds_the_best_thresholds_through_the_noise() {
    for (seed, best) in (0..).zip([[0.6, 0.6], [0.3, 0.8], [0.9, 0.5], [0.0, 1.0], [1.0, 0.0], [0.8, 0.9]]) {
        let mut surface = Surface::new(&best, 0.1, seed);
        let mut tuner = ThresholdTuner::new(3, seed).unwrap();
        tune(&mut tuner, &mut surface, 20_000);
        assert!(steps_away(&tuner, &surface) <= 1, "{} where {best:?} is best", tuner.best());
    }
}

#[test]
fn a_fixed_exit_that_is_by_far_the_best_is_found_in_its_first_rounds() {
    for (seed, best) in (0..).zip([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]) {
        let mut surface = Surface::new(&best, 0.1, seed);
        let mut tuner = ThresholdTuner::new(3, seed).unwrap();
        let runs = (1..200).find(|_| {
            tune(&mut tuner, &mut surface, 1);
            tuner.turn.is_none()
        });
        assert_eq!(tuner.best().thresholds(), best);
        assert!(runs.unwrap() <= 30, "{runs:?} runs");
    }
}

#[test]
fn where_all_are_alike_the_first_rounds_end_too() {
    let mut surface = Surface::new(&[0.6, 0.6], 0.0, 1);
    let mut tuner = ThresholdTuner::new(3, 0).unwrap();
    tune(&mut tuner, &mut surface, 90);
    assert_eq!(tuner.turn, None);
}

#[test]
fn on_a_flat_surface_it_seldom_moves() {
    let mut surface = Surface::new(&[0.6], 0.0, 9);
    let mut tuner = opened(&mut surface, 2, 9);
    let mut moves = 0;
    for _ in 0..4000 {
        let before = tuner.best().clone();
        tune(&mut tuner, &mut surface, 1);
        moves += usize::from(before != *tuner.best());
    }
    assert!(moves <= 12, "{moves} moves in 28 000 rounds that are all alike");
}

#[test]
fn it_tries_others_in_no_more_than_one_of_32_runs_and_ever_less_where_nothing_is_better() {
    let mut surface = Surface::new(&[0.6, 0.6], 0.2, 3);
    let mut tuner = opened(&mut surface, 3, 3);
    let early: Vec<usize> = (0..32).map(|_| tune(&mut tuner, &mut surface, BLOCK_RUNS_MIN)).collect();
    // So many runs may lie across two blocks.
    assert!(early.iter().all(|&trials| trials <= 2), "{early:?}");
    assert_eq!(early.iter().sum::<usize>(), 32);
    tune(&mut tuner, &mut surface, 16_000);
    let late = tune(&mut tuner, &mut surface, BLOCK_RUNS_MAX * 20);
    assert!((19..=21).contains(&late), "{late} trials in 20 blocks");
}

#[test]
fn a_trial_is_one_step_of_one_threshold_away_or_a_fixed_exit() {
    let mut tuner = opened(&mut Surface::new(&[0.6, 0.6, 0.6], 0.1, 0), 4, 1);
    let trials: Vec<TunerRun> = (0..400).map(|_| tuner.begin_run()).filter(TunerRun::is_trial).collect();
    for trial in trials {
        let steps: usize = trial.point.iter().zip(&tuner.best.point).map(|(a, b)| a.abs_diff(*b)).sum();
        let is_fixed = fixed_exits(4).any(|fixed| trial.point == fixed);
        assert!(steps == 1 || is_fixed, "{}", trial.thresholds());
    }
    let corner = neighbours(&[0, 7]);
    assert_eq!(corner, [[1, 7], [0, 6]]);
}

#[test]
fn the_same_seed_makes_the_same_choices_and_another_one_others() {
    let choices = |seed| {
        let mut tuner = ThresholdTuner::new(3, seed).unwrap();
        let mut surface = Surface::new(&[0.9, 0.3], 0.1, 5);
        let run = |_| {
            let run = tuner.begin_run();
            for _ in 1..run.rounds() {
                let (tokens, took) = surface.round(run.thresholds());
                tuner.observe(&run, tokens, took);
            }
            run.thresholds().to_string()
        };
        (0..600).map(run).collect::<Vec<_>>()
    };
    assert_eq!(choices(7), choices(7));
    assert_ne!(choices(7), choices(8));
}

#[test]
fn it_follows_a_change() {
    let mut tuner = ThresholdTuner::new(2, 4).unwrap();
    let mut before = Surface::new(&[0.9], 0.15, 1);
    tune(&mut tuner, &mut before, 4000);
    assert!(steps_away(&tuner, &before) <= 1, "{}", tuner.best());
    let mut after = Surface::new(&[0.3], 0.15, 2);
    tune(&mut tuner, &mut after, 20_000);
    assert!(steps_away(&tuner, &after) <= 1, "{}", tuner.best());
}

#[test]
fn a_hiccup_does_not_condemn_what_it_met() {
    let mut tuner = ThresholdTuner::new(2, 0).unwrap();
    let run = std::iter::repeat_with(|| tuner.begin_run()).find(|run| !run.is_trial()).unwrap();
    (0..100).for_each(|_| tuner.observe(&run, 3, Duration::from_millis(20)));
    let before = tuner.best.sums.rate(ROUNDS_MIN).unwrap().value;
    tuner.observe(&run, 3, Duration::from_secs(60));
    let after = tuner.best.sums.rate(ROUNDS_MIN).unwrap().value;
    assert!(after > 0.95 * before, "{before} became {after}");
}

#[test]
fn with_one_exit_there_is_nothing_to_tune() {
    let mut tuner = ThresholdTuner::new(1, 0).unwrap();
    for _ in 0..200 {
        let run = tuner.begin_run();
        assert!(!run.is_trial() && run.thresholds().exits() == 1);
        tuner.observe(&run, 2, Duration::from_millis(5));
    }
    assert_eq!(ThresholdTuner::new(0, 0).unwrap_err().to_string(), "a drafter cannot have 0 exits, only 1 to 64");
}

#[test]
fn rounds_without_time_or_of_thresholds_given_up_say_nothing() {
    let mut tuner = ThresholdTuner::new(2, 0).unwrap();
    let run = tuner.begin_run();
    (0..100).for_each(|_| tuner.observe(&run, 3, Duration::ZERO));
    let elsewhere = TunerRun { point: vec![5], ..run.clone() };
    (0..100).for_each(|_| tuner.observe(&elsewhere, 3, Duration::from_millis(1)));
    assert!(tuner.best.sums.rate(1.0).is_none() && tuner.others.iter().all(|arm| arm.sums.rate(1.0).is_none()));
}
