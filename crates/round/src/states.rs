//! The hidden states of a sequence as they arrive.

use std::collections::VecDeque;

use espalier_proto::{HiddenStates, Open, Outcome, WireError};

/// Sees to it that the states of every position but the root's come once, in order, and before they are needed.
#[derive(Debug)]
pub(crate) struct States {
    /// Those that came ahead of the outcome that they belong to.
    ahead: HiddenStates,
    /// The position of the last committed token.
    root: usize,
    /// Positions that the sequence may come to have.
    positions_max: usize,
    /// For each outcome that is still to come whether states may come later than it.
    later: VecDeque<bool>,
}

impl States {
    /// What a sequence waits for that was opened thus; none if it does not want any.
    pub(crate) fn of(open: &Open) -> Option<Self> {
        let ahead = HiddenStates::new(0, open.tap?.width);
        let committed = open.sequence.committed.len();
        let (root, positions_max) = (committed.saturating_sub(1), committed + open.sequence.max_tokens);
        Some(Self { ahead, root, positions_max, later: VecDeque::new() })
    }

    /// An outcome is to come, and states perhaps `later` than it.
    pub(crate) fn expect(&mut self, later: bool) {
        self.later.push_back(later);
    }

    /// Takes states that came ahead of an outcome.
    pub(crate) fn take(&mut self, states: HiddenStates) -> Result<(), String> {
        let end = states.end();
        if end > self.positions_max {
            let limit = self.positions_max;
            return Err(format!("the hidden states of {end} positions came where there are at most {limit}"));
        }
        self.ahead.append(states).map_err(|fault: WireError| fault.to_string())
    }

    /// The outcome with all states that it brings: all that are owed, unless they may come later.
    pub(crate) fn complete(&mut self, outcome: Outcome) -> Result<Outcome, String> {
        let later = self.later.pop_front().unwrap_or(false);
        if let Some(states) = outcome.states {
            self.take(states)?;
        }
        self.root += outcome.tokens.len();
        let (found, expected) = (self.ahead.end(), self.root);
        if later && self.ahead.rows() == 0 {
            return Ok(Outcome { states: None, ..outcome });
        }
        if found != expected {
            return Err(format!("the hidden states of {found} positions came where {expected} are known"));
        }
        let states = Some(self.ahead.split_front(self.ahead.rows()));
        Ok(Outcome { states, ..outcome })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use espalier_proto::{SequenceId, SequenceSpec, Tap};
    use espalier_speculation::PassLoad;

    use super::*;

    /// A sequence of three tokens that may grow by four.
    fn waiting() -> States {
        let sequence = SequenceSpec::new(SequenceId::from(1), vec![7, 8, 9], 4);
        let open = Open { sequence, tap: Some(Tap { layer: 2, width: 1 }) };
        assert!(States::of(&Open { tap: None, ..open.clone() }).is_none());
        States::of(&open).unwrap()
    }

    fn states(first: usize, rows: usize) -> HiddenStates {
        let mut states = HiddenStates::new(first, 1);
        (0..rows).for_each(|row| states.push(&[(first + row) as f32]));
        states
    }

    fn outcome(tokens: usize, states: Option<HiddenStates>) -> Outcome {
        let [compute, queue, prompts] = [Duration::ZERO; 3];
        let (path, tokens) = ((1..tokens).collect(), vec![5; tokens]);
        let load = PassLoad::default();
        Outcome { round: 0, path, tokens, logprobs: vec![], finish: None, compute, queue, load, prompts, states }
    }

    #[test]
    fn an_outcome_brings_all_states_before_its_last_token() {
        let mut waiting = waiting();
        waiting.take(states(0, 1)).unwrap();
        waiting.take(states(1, 1)).unwrap();
        let first = waiting.complete(outcome(1, Some(states(2, 1)))).unwrap();
        assert_eq!(first.states, Some(states(0, 3)));
        let second = waiting.complete(outcome(2, Some(states(3, 2)))).unwrap();
        assert_eq!(second.states, Some(states(3, 2)));
    }

    #[test]
    fn states_may_wait_where_that_was_said() {
        let mut waiting = waiting();
        [true, true, false].into_iter().for_each(|later| waiting.expect(later));
        assert_eq!(waiting.complete(outcome(1, None)).unwrap().states, None);
        assert_eq!(waiting.complete(outcome(1, None)).unwrap().states, None);
        let owed = Some(states(0, 5));
        assert_eq!(waiting.complete(outcome(1, owed.clone())).unwrap().states, owed);
        assert!(waiting.complete(outcome(1, None)).is_err(), "nothing was said of this one");
    }

    #[test]
    fn states_that_are_missing_too_many_or_out_of_order_are_refused() {
        let refusal = |outcome| waiting().complete(outcome).unwrap_err();
        assert_eq!(refusal(outcome(1, None)), "the hidden states of 0 positions came where 3 are known");
        assert_eq!(refusal(outcome(1, Some(states(0, 4)))), "the hidden states of 4 positions came where 3 are known");
        let late = "the hidden states of position 1 came where those of 0 were expected";
        assert_eq!(refusal(outcome(1, Some(states(1, 2)))), late);
        let many = waiting().take(states(0, 8)).unwrap_err();
        assert_eq!(many, "the hidden states of 8 positions came where there are at most 7");
    }
}
