//! When rows leave a drafter with several exits.

use std::sync::Arc;
use std::time::Duration;

use espalier_model::{DraftKind, DraftModel};
use espalier_speculation::{ExitError, ExitThresholds, LogitsError, Logprobs, ThresholdTuner, TunerRun, arg_max};
use parking_lot::{Mutex, MutexGuard};

use crate::config::Config;

/// When rows leave: where they are sure enough, or after the last layer alone.
#[derive(Debug, Clone)]
pub(crate) struct Exits {
    /// None where nothing is asked before the last layer.
    thresholds: Option<Arc<ExitThresholds>>,
    /// Whether nobody has said what the thresholds are to be.
    tuned: bool,
    /// Exits of the model.
    count: usize,
    /// The logits of so many tokens count; those after them are padding.
    vocab: usize,
}

impl Exits {
    /// The exits that `config` asks for. A model that is cut to some layers answers after them alone, unless thresholds
    /// are given.
    pub(crate) fn new(model: &DraftModel, config: &Config, vocab: usize) -> Result<Self, ExitError> {
        let count = model.exits().len();
        let usual = *model.kind() == DraftKind::Sorted && config.layers.is_none();
        let thresholds = match &config.thresholds {
            Some(text) => Some(ExitThresholds::parse(text, count)?),
            None if usual => Some(ThresholdTuner::new(count, TUNER_SEED)?.best().clone()),
            None => None,
        };
        let thresholds = thresholds.filter(|thresholds| thresholds.exits() > 1).map(Arc::new);
        let tuned = config.thresholds.is_none() && thresholds.is_some();
        Ok(Self { thresholds, tuned, count, vocab })
    }

    /// The exits of a sequence that comes with thresholds of its own; these exits where it comes with none.
    ///
    /// # Errors
    /// Another number of thresholds than the model has use for.
    pub(crate) fn of_sequence(&self, thresholds: Option<ExitThresholds>) -> Result<Self, ExitError> {
        let Some(thresholds) = thresholds else { return Ok(self.clone()) };
        if thresholds.exits() != self.count {
            return Err(ExitError::Count { exits: self.count, found: thresholds.thresholds().len() });
        }
        Ok(Self { thresholds: Some(Arc::new(thresholds)), tuned: false, ..self.clone() })
    }

    /// A tuner for a target whose thresholds are not known yet; none where they are not to be tuned.
    ///
    /// # Errors
    /// A number of exits that no drafter has.
    pub(crate) fn tuner(&self) -> Result<Option<SharedTuner>, ExitError> {
        let tuner = self.tuned.then(|| ThresholdTuner::new(self.count, TUNER_SEED)).transpose()?;
        Ok(tuner.map(Mutex::new).map(Arc::new))
    }

    /// Rows of the rounds from now on leave at these thresholds.
    fn set(&mut self, thresholds: Arc<ExitThresholds>) {
        self.thresholds = Some(thresholds);
    }

    /// Whether rows may leave before the last layer.
    pub(crate) fn are_several(&self) -> bool {
        self.thresholds.is_some()
    }

    /// Whether a row with these `logits` at `exit`, counted from 0, goes on to the next.
    pub(crate) fn goes_on(&self, exit: usize, logits: &[f32]) -> bool {
        let Some(thresholds) = &self.thresholds else { return true };
        // Logits of which nothing can be made are found out at the last exit.
        let confidence = confidence(logits.get(..self.vocab).unwrap_or(logits));
        !confidence.is_ok_and(|confidence| thresholds.answers(exit, confidence) == Ok(true))
    }
}

/// What decides which thresholds are tried.
const TUNER_SEED: u64 = 0;

/// The tuner of one target, which all sequences for it share.
pub(crate) type SharedTuner = Arc<Mutex<ThresholdTuner>>;

/// One sequence's part in tuning its target's thresholds, run by run.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: SharedTuner,
    run: Option<TunerRun>,
    /// Rounds of the run that have begun.
    begun: usize,
    /// Whether the present round is to be learnt from.
    counts: bool,
}

impl Tuning {
    pub(crate) fn new(tuner: SharedTuner) -> Self {
        Self { tuner, run: None, begun: 0, counts: false }
    }

    /// A round begins, under thresholds that hold to its end. One that is cut short does not count, nor the first of a
    /// run: it makes up for what the run before has left out.
    pub(crate) fn begin_round(&mut self, exits: &mut Exits, cut_short: bool) {
        let over = self.run.as_ref().is_none_or(|run| self.begun >= run.rounds());
        if over {
            let run = locked(&self.tuner).begin_run();
            exits.set(run.thresholds().clone());
            (self.run, self.begun) = (Some(run), 0);
        }
        self.counts = !over && !cut_short;
        self.begun += 1;
    }

    /// The round committed so many `tokens` and `took` so long, drafting included.
    pub(crate) fn observe(&mut self, tokens: usize, took: Duration) {
        if let Some(run) = self.run.as_ref().filter(|_| self.counts) {
            locked(&self.tuner).observe(run, tokens, took);
        }
    }
}

fn locked(tuner: &Mutex<ThresholdTuner>) -> MutexGuard<'_, ThresholdTuner> {
    tuner.lock()
}

/// The greatest probability of the distribution, at temperature 1.
fn confidence(logits: &[f32]) -> Result<f64, LogitsError> {
    let best = arg_max(logits)?;
    Ok(Logprobs::new(logits, best, 0)?.chosen.exp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn exits(thresholds: &[f64]) -> Exits {
        let thresholds = ExitThresholds::new(thresholds.to_vec(), thresholds.len() + 1).unwrap();
        Exits { count: thresholds.exits(), thresholds: Some(Arc::new(thresholds)), tuned: false, vocab: 2 }
    }

    #[test]
    fn a_row_leaves_where_its_confidence_reaches_the_threshold() {
        // Probabilities 0.75 and 0.25, whatever the padding holds.
        let logits = [3.0_f32.ln(), 0.0, 50.0];
        assert!((confidence(&logits[..2]).unwrap() - 0.75).abs() < 1e-6);
        assert!(!exits(&[0.7]).goes_on(0, &logits));
        assert!(exits(&[0.8]).goes_on(0, &logits));
        assert!(!exits(&[0.8, 0.7]).goes_on(1, &logits));
    }

    #[test]
    fn without_thresholds_or_with_impossible_logits_rows_go_on() {
        assert!(Exits { thresholds: None, ..exits(&[0.0]) }.goes_on(0, &[9.0, 0.0]));
        assert!(exits(&[0.0]).goes_on(0, &[f32::NAN, 0.0]));
        assert!(exits(&[0.0]).goes_on(0, &[]));
    }

    #[test]
    fn a_sequence_may_come_with_thresholds_which_then_are_not_tuned() {
        let usual = Exits { tuned: true, ..exits(&[0.6, 0.6]) };
        assert!(usual.of_sequence(None).unwrap().tuner().unwrap().is_some());
        let own = usual.of_sequence(Some(ExitThresholds::parse("0.2,0.9", 3).unwrap())).unwrap();
        assert!(own.tuner().unwrap().is_none() && !own.goes_on(0, &[0.0, 0.0]));
        let refusal = usual.of_sequence(Some(ExitThresholds::parse("0.5", 2).unwrap())).unwrap_err();
        assert_eq!(refusal.to_string(), "1 thresholds were given for 3 exits, which take 2");
    }

    /// Runs a sequence's rounds, of which those at low thresholds are the fast ones.
    fn run_rounds(tuning: &mut Tuning, exits: &mut Exits, rounds: usize) {
        for _ in 0..rounds {
            tuning.begin_round(exits, false);
            let threshold = exits.thresholds.as_ref().map_or(0.0, |thresholds| thresholds.thresholds()[0]);
            tuning.observe(2, Duration::from_secs_f64(0.01 + 0.01 * threshold));
        }
    }

    #[test]
    fn sequences_of_one_target_tune_its_thresholds_together() {
        let mut exits = Exits { tuned: true, ..exits(&[0.6]) };
        let tuner = exits.tuner().unwrap().unwrap();
        for _ in 0..300 {
            let mut tunings = [Tuning::new(tuner.clone()), Tuning::new(tuner.clone())];
            tunings.iter_mut().for_each(|tuning| run_rounds(tuning, &mut exits, 40));
        }
        assert_eq!(locked(&tuner).best().to_string(), "0");
    }

    #[test]
    fn thresholds_hold_for_a_run_and_rounds_that_do_not_count_are_not_learnt_from() {
        let mut exits = Exits { tuned: true, ..exits(&[0.6]) };
        let tuner = exits.tuner().unwrap().unwrap();
        let mut tuning = Tuning::new(tuner.clone());
        let mut seen = Vec::new();
        for _ in 0..80 {
            tuning.begin_round(&mut exits, false);
            seen.push(exits.thresholds.clone().unwrap());
        }
        assert!(seen.chunks(8).all(|run| run.iter().all(|thresholds| *thresholds == run[0])));
        for _ in 0..4000 {
            tuning.begin_round(&mut exits, true);
            let threshold = exits.thresholds.as_ref().map_or(0.0, |thresholds| thresholds.thresholds()[0]);
            tuning.observe(2, Duration::from_secs_f64(0.01 + 0.01 * threshold));
        }
        assert_eq!(locked(&tuner).best().to_string(), "0.6");
    }
}
