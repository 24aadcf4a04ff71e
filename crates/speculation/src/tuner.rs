//! Which thresholds of exits suit a target: found by trying, at a bounded cost, while text is generated.
//!
//! A bandit over vectors of thresholds. First it has rounds run under every fixed exit and the usual thresholds in turn,
//! until one of them is ahead. From then on it holds the vector that has done best, and now and then has some rounds run
//! under another: a neighbour, which has one threshold a step of the grid up or down, or again a fixed exit. Each vector has
//! faded sums of the tokens and the time of its rounds; another takes over when its tokens per second are better by more
//! than the doubt in both.
//!
//! No clock is read here and no randomness drawn but from the seed: whoever measures passes the durations in.

use std::sync::Arc;
use std::time::Duration;

use crate::rate::Sums;
use crate::{ExitError, ExitThresholds, Side, Uniforms};

/// The thresholds that are tried: 0 always answers, 1 hardly ever.
pub const THRESHOLD_GRID: [f64; 8] = [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Where the search begins, in the grid: 0.6, between what the paper found best for small targets (0.5) and for large
/// ones (0.75).
const START: usize = 3;

/// Rounds of a run. Only the first of them pays for what the run before has left out of the cache.
const RUN_ROUNDS: usize = 8;

/// Runs of a block, of which one at most is a trial: at first, and after each move.
const BLOCK_RUNS_MIN: usize = 32;

/// The longest block, in runs.
const BLOCK_RUNS_MAX: usize = 128;

/// Trials of each rival, on average, after which a block doubles unless the best has changed meanwhile.
const PATIENCE: usize = 16;

/// What counts of all sums after each further round: those of 8192 rounds ago count 1 / e.
const KEPT: f64 = 1.0 - 1.0 / 8192.0;

/// Rounds that sums must count before they say anything.
const ROUNDS_MIN: f64 = 24.0;

/// Standard errors by which another must be better.
const SURE: f64 = 2.5;

/// Standard errors by which one of those that are tried first may be behind the best of them and stay.
const SURE_AT_FIRST: f64 = 3.0;

/// Rounds of each of those that are tried first, after which the best of them is taken even if there is doubt.
const FIRST_ROUNDS: f64 = 128.0;

/// Most that one round may count for, in mean rounds of the best: a hiccup says nothing of thresholds.
const ROUND_MEANS_MAX: f64 = 4.0;

/// Thresholds as indices into the grid, one for each exit but the last.
type GridPoint = Vec<usize>;

/// Some rounds in a row under the same thresholds.
#[derive(Debug, Clone)]
pub struct TunerRun {
    point: GridPoint,
    thresholds: Arc<ExitThresholds>,
    trial: bool,
}

impl TunerRun {
    /// The thresholds of all its rounds.
    pub fn thresholds(&self) -> &Arc<ExitThresholds> {
        &self.thresholds
    }

    /// How many rounds it has, at least 1. The first is not to be observed where another run came before: it may have to
    /// make up for what that has left out.
    pub fn rounds(&self) -> usize {
        RUN_ROUNDS
    }

    /// Whether it tries something else than the best.
    pub fn is_trial(&self) -> bool {
        self.trial
    }
}

/// A vector of thresholds and what its rounds have brought.
#[derive(Debug, Clone)]
struct Arm {
    point: GridPoint,
    sums: Sums,
}

impl Arm {
    fn new(point: GridPoint) -> Self {
        Self { point, sums: Sums::default() }
    }

    /// Tokens per millisecond; 0 where too few rounds tell.
    fn value(&self) -> f64 {
        self.sums.rate(ROUNDS_MIN).map_or(0.0, |rate| rate.value)
    }

    /// Whether it is better than `other` by more than so many standard errors.
    fn beats(&self, other: &Self, sure: f64) -> bool {
        let rates = self.sums.rate(ROUNDS_MIN).zip(other.sums.rate(ROUNDS_MIN));
        rates.is_some_and(|(own, other)| own.value - other.value > sure * own.error.hypot(other.error))
    }
}

/// Finds the thresholds of one drafter for one target; sequences may share it.
///
/// After the first runs at most one of 32 tries another vector. The share is halved, down to one of 128, as long as nothing
/// better is found. The same seed and the same observations give the same choices.
///
/// # Examples
/// ```
/// use espalier_speculation::ThresholdTuner;
/// use std::time::Duration;
/// let mut tuner = ThresholdTuner::new(3, 0)?;
/// assert_eq!(tuner.best().to_string(), "0.6,0.6");
/// let run = tuner.begin_run();
/// tuner.observe(&run, 3, Duration::from_millis(20));
/// # Ok::<_, espalier_speculation::ExitError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ThresholdTuner {
    /// The best, and every rival of it that was tried; at first, the others that are tried in turn with it.
    best: Arm,
    others: Vec<Arm>,
    /// Whose turn it is among them; nothing once the first runs are over.
    turn: Option<usize>,
    thresholds: Arc<ExitThresholds>,
    draws: Uniforms,
    /// Runs of each block of the present length, in which one is a trial.
    block: usize,
    /// Runs begun in the present block, and which of them is the trial.
    begun: usize,
    trial_at: usize,
    /// Trials since the best, or the length of blocks, has changed.
    trials: usize,
}

impl ThresholdTuner {
    /// A tuner for a drafter of so many exits that knows nothing yet; `seed` decides what it tries.
    ///
    /// # Errors
    /// A number of exits that no drafter has.
    pub fn new(exits: usize, seed: u64) -> Result<Self, ExitError> {
        let point = vec![START; exits.saturating_sub(1)];
        let thresholds = Arc::new(ExitThresholds::new(values(&point), exits)?);
        let draws = Uniforms::new(seed, 0, Side::Tuning);
        let others: Vec<Arm> = fixed_exits(exits).filter(|fixed| *fixed != point).map(Arm::new).collect();
        let (best, turn) = (Arm::new(point), (!others.is_empty()).then_some(0));
        let mut tuner = Self { best, others, turn, thresholds, draws, block: 0, begun: 0, trial_at: 0, trials: 0 };
        tuner.begin_block(BLOCK_RUNS_MIN);
        Ok(tuner)
    }

    /// What has done best so far.
    pub fn best(&self) -> &ExitThresholds {
        &self.thresholds
    }

    /// The next run: under the best thresholds, or a trial of others.
    pub fn begin_run(&mut self) -> TunerRun {
        if let Some(run) = self.first_run() {
            return run;
        }
        self.move_on();
        let tries = self.begun == self.trial_at;
        self.begun += 1;
        let trial = if tries { self.choose_trial() } else { None };
        if self.begun >= self.block {
            self.begin_block(self.block);
        }
        trial.unwrap_or_else(|| self.run_of_best())
    }

    fn run_of_best(&self) -> TunerRun {
        TunerRun { point: self.best.point.clone(), thresholds: self.thresholds.clone(), trial: false }
    }

    /// A run of the next of those that are tried first; nothing once the best of them is found.
    fn first_run(&mut self) -> Option<TunerRun> {
        let turn = self.turn?;
        self.lead();
        let Self { best, others, .. } = self;
        others.retain(|arm| !best.beats(arm, SURE_AT_FIRST));
        let is_known = |arm: &Arm| arm.sums.rate(FIRST_ROUNDS).is_some();
        if others.is_empty() || (is_known(best) && others.iter().all(is_known)) {
            self.turn = None;
            self.keep_rivals();
            return None;
        }
        let turn = turn % (others.len() + 1);
        self.turn = Some(turn + 1);
        match turn.checked_sub(1) {
            None => Some(self.run_of_best()),
            Some(other) => trial(others[other].point.clone()),
        }
    }

    /// Has the fastest of those that are tried first be the best, once both are known.
    fn lead(&mut self) {
        let leader = self.best.value();
        if let Some(faster) = self.fastest(|arm| leader > 0.0 && arm.value() > leader) {
            self.hold(faster);
        }
    }

    /// The fastest of those among the others that are `wanted`.
    fn fastest(&self, wanted: impl Fn(&Arm) -> bool) -> Option<usize> {
        let others = self.others.iter().enumerate().filter(|(_, arm)| wanted(arm));
        others.max_by(|(_, a), (_, b)| a.value().total_cmp(&b.value())).map(|(index, _)| index)
    }

    /// Has one of the others be the best, and the best one of the others.
    fn hold(&mut self, other: usize) {
        let Some(TunerRun { thresholds, .. }) = trial(self.others[other].point.clone()) else { return };
        self.thresholds = thresholds;
        std::mem::swap(&mut self.best, &mut self.others[other]);
    }

    /// A round of `run` committed so many `tokens` and `took` so long, from its first draft level to its outcome. Rounds
    /// of thresholds that nobody thinks of any more, and rounds that took no time, say nothing.
    pub fn observe(&mut self, run: &TunerRun, tokens: usize, took: Duration) {
        let took_ms = took.as_secs_f64() * 1e3;
        if took_ms <= 0.0 {
            return;
        }
        let longest_ms = self.best.sums.mean_ms(ROUNDS_MIN).map_or(f64::INFINITY, |mean| mean * ROUND_MEANS_MAX);
        let known = self.others.iter_mut().find(|arm| arm.point == run.point);
        let arm = if self.best.point == run.point { Some(&mut self.best) } else { known };
        let Some(arm) = arm else { return };
        arm.sums.add(tokens as f64, took_ms.min(longest_ms));
        // All fade alike, so that what is compared is of the same time.
        self.best.sums.fade(KEPT);
        self.others.iter_mut().for_each(|arm| arm.sums.fade(KEPT));
    }

    /// Goes over to the neighbour that is better beyond doubt, if there is one: of several, to the fastest.
    fn move_on(&mut self) {
        let Some(better) = self.fastest(|arm| arm.beats(&self.best, SURE)) else { return };
        self.hold(better);
        self.keep_rivals();
        self.trials = 0;
        // A block that has had its trial still has its other runs.
        self.block = BLOCK_RUNS_MIN;
    }

    /// Forgets all that would not be tried now.
    fn keep_rivals(&mut self) {
        let rivals = rivals(&self.best.point);
        self.others.retain(|arm| rivals.contains(&arm.point));
    }

    /// A rival to try, drawn from those that are not known to be worse, or from all if all are; nothing where there
    /// is nothing to tune.
    fn choose_trial(&mut self) -> Option<TunerRun> {
        let all = rivals(&self.best.point);
        let worse = |point: &GridPoint| self.others.iter().any(|arm| arm.point == *point && self.best.beats(arm, SURE));
        let open: Vec<GridPoint> = all.iter().filter(|point| !worse(point)).cloned().collect();
        let points = if open.is_empty() { &all } else { &open };
        let point = points.get(self.draw_below(points.len()))?.clone();
        if !self.others.iter().any(|arm| arm.point == point) {
            self.others.push(Arm::new(point.clone()));
        }
        self.note_trial(all.len());
        trial(point)
    }

    /// Counts a trial; after many in vain, blocks become longer.
    fn note_trial(&mut self, rivals: usize) {
        self.trials += 1;
        if self.trials >= PATIENCE * rivals {
            self.trials = 0;
            self.block = (self.block * 2).min(BLOCK_RUNS_MAX);
        }
    }

    /// A block of so many runs begins; which of them is the trial is drawn.
    fn begin_block(&mut self, runs: usize) {
        self.block = runs;
        self.begun = 0;
        self.trial_at = self.draw_below(runs);
    }

    /// An index below `bound`; 0 for a bound of 0.
    fn draw_below(&mut self, bound: usize) -> usize {
        // The stream is endless; 0 stands for a draw that never lacks.
        let u = self.draws.next().unwrap_or(0.0);
        ((u * bound as f64) as usize).min(bound.saturating_sub(1))
    }
}

/// A run under the thresholds at a point, which are valid as all of the grid are.
fn trial(point: GridPoint) -> Option<TunerRun> {
    let thresholds = ExitThresholds::new(values(&point), point.len() + 1).ok()?;
    Some(TunerRun { point, thresholds: Arc::new(thresholds), trial: true })
}

/// For each of so many exits the point where every row leaves after it.
fn fixed_exits(exits: usize) -> impl Iterator<Item = GridPoint> {
    let never = THRESHOLD_GRID.len() - 1;
    (0..exits).map(move |exit| (1..exits).map(|next| if next <= exit { never } else { 0 }).collect())
}

/// The thresholds at a point.
fn values(point: &[usize]) -> Vec<f64> {
    point.iter().filter_map(|&step| THRESHOLD_GRID.get(step).copied()).collect()
}

/// Every point that is one step of one threshold away.
fn neighbours(point: &[usize]) -> Vec<GridPoint> {
    let moved = |exit: usize, step: usize| {
        let mut moved = point.to_vec();
        moved[exit] = step;
        moved
    };
    let around = |(exit, &step): (usize, &usize)| {
        let steps = [step.checked_sub(1), Some(step + 1).filter(|&step| step < THRESHOLD_GRID.len())];
        steps.into_iter().flatten().map(move |step| moved(exit, step))
    };
    point.iter().enumerate().flat_map(around).collect()
}

/// What may be tried beside a point: its neighbours, and every fixed exit.
fn rivals(point: &[usize]) -> Vec<GridPoint> {
    let mut rivals = neighbours(point);
    for fixed in fixed_exits(point.len() + 1) {
        if fixed != point && !rivals.contains(&fixed) {
            rivals.push(fixed);
        }
    }
    rivals
}

#[cfg(test)]
mod tests;
