//! What a predictor says of one sequence's drafts.

use std::sync::Arc;

use espalier_model::Predictor;
use espalier_proto::{HiddenStates, Tap};
use espalier_speculation::Candidates;

use crate::error::SequenceError;

/// A predictor, and what it knows of the sequence.
pub(crate) struct Prediction {
    predictor: Arc<Predictor>,
    /// The target's state at the last position that it has processed; none before the first outcome.
    target_state: Option<Vec<f32>>,
}

impl Prediction {
    pub(crate) fn new(predictor: Arc<Predictor>) -> Self {
        Self { predictor, target_state: None }
    }

    /// Where it has the target's states read.
    pub(crate) fn tap(&self) -> Tap {
        let config = self.predictor.config();
        Tap { layer: config.tapped_layer, width: config.target.hidden_size }
    }

    /// An outcome came with these states.
    pub(crate) fn commit(&mut self, states: &HiddenStates) {
        self.target_state = states.last().or(self.target_state.take());
    }

    /// What is drafted in a `step` of the round, counted from 1, from the drafter's `state`, with the chance that the target
    /// takes it; without, as long as the target has told nothing.
    pub(crate) fn of(&self, drafted: Candidates, step: usize, state: &[f32]) -> Result<Candidates, SequenceError> {
        let Some(target_state) = &self.target_state else { return Ok(drafted) };
        let theta = self.predictor.theta(step, target_state, state)?;
        Ok(drafted.predicting(theta)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_model::{Asked, DraftModel, Logits, Row, Segment, Workspace};
    use espalier_speculation::{Token, arg_max};

    use super::*;
    use crate::engine::testing::{
        Bench, WIDTH, edd, independent, outcome, predictor, predictor_config, sorted, states, text,
    };

    const LONGEST: usize = 6;

    /// A predictor that is sure: that tokens are taken where the `at`-th number is positive, and that they are not where it
    /// is negative. The target's state comes first, then the drafter's.
    fn sure(at: usize) -> Arc<Predictor> {
        let mut output = vec![0.0; 2 * WIDTH];
        output[at] = 1e4;
        Arc::new(Predictor::open(predictor(&predictor_config(), output).path()).unwrap())
    }

    /// How long a chain is drafted after a text.
    async fn drafted(bench: &Bench, text: &[Token], predictor: Arc<Predictor>) -> usize {
        let known = text.len() - 1;
        let policy = format!("cali-ts,s_m=0.001,max_depth={LONGEST}");
        let mut drafting = bench.sequence_with(&policy, &text[..known], Some(predictor));
        drafting.commit_plain(&outcome(text, known, states(&text[..known], 0))).unwrap();
        bench.grow(drafting).await.1.tree().unwrap().tree().len()
    }

    /// The states of a drafter at the end of a text and of its own continuation.
    fn draft_states(model: &DraftModel, text: &[Token]) -> Vec<Vec<f32>> {
        let decoder = model.decoder();
        let (mut work, mut cache, mut next) = (Workspace::new(1), decoder.new_cache(), text.to_vec());
        let state = |_| {
            let rows = Row::chain(&next, 0);
            let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
            let output = decoder.forward(&mut work, &mut segments, Asked { taps: &[4], ..Asked::default() }).unwrap();
            next = vec![arg_max(output.logits(0, 0)).unwrap()];
            let state = output.tap(0, 0, rows.len() - 1).to_vec();
            cache.keep_path(&(0..rows.len()).collect::<Vec<_>>()).unwrap();
            state
        };
        (0..LONGEST).map(state).collect()
    }

    #[tokio::test]
    async fn a_chain_goes_on_as_long_as_the_drafter_s_state_at_each_node_promises() {
        let (model, text) = (independent(), text(23));
        let states = draft_states(&model, &text);
        let bench = Bench::new(model, None);
        let mut lengths = Vec::new();
        for at in 0..24 {
            let refused = states.iter().position(|state| state[at] < 0.0);
            let expected = refused.map_or(LONGEST, |step| step + 1);
            assert_eq!(drafted(&bench, &text, sure(WIDTH + at)).await, expected, "number {at}");
            lengths.push(expected);
        }
        assert!((1..=3).all(|length| lengths.contains(&length)), "{lengths:?}");
    }

    #[tokio::test]
    async fn the_target_s_state_is_that_of_the_last_position_before_the_root() {
        let text = text(40);
        let state = states(&text[..39], 38).last().unwrap();
        for model in [independent(), edd(), sorted(&[1, 4])] {
            let bench = Bench::new(model, None);
            for (at, number) in state.iter().enumerate().take(8) {
                let expected = if *number < 0.0 { 1 } else { LONGEST };
                assert_eq!(drafted(&bench, &text, sure(at)).await, expected, "number {at}");
            }
        }
    }

    #[tokio::test]
    async fn nothing_is_predicted_before_the_target_has_told_its_state_or_for_another_policy() {
        let (bench, text) = (Bench::new(independent(), None), text(9));
        let undecided = Predictor::open(predictor(&predictor_config(), vec![0.0; 2 * WIDTH]).path()).unwrap();
        let undecided = Arc::new(undecided);
        let drafting = bench.sequence_with("svip", &text, Some(undecided.clone()));
        assert!(!drafting.predicts() && drafting.tap().is_none());

        let certain = format!("cali-ts,s_m=0.001,theta_hat0=1,max_depth={LONGEST}");
        let drafting = bench.sequence_with(&certain, &text, Some(undecided));
        assert_eq!(drafting.tap(), Some(Tap { layer: 2, width: WIDTH }));
        assert_eq!(bench.grow(drafting).await.1.tree().unwrap().tree().len(), LONGEST);
    }
}
