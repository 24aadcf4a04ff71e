//! The two directions of `Verify`.

use std::time::Duration;

use espalier_speculation::{FinishReason, Logprobs, PassLoad, Token};

use crate::common::{read_finish, read_logprobs, required, wire_count, wire_micros, write_finish, write_logprobs};
use crate::error::WireError;
use crate::hidden_states::{HiddenStates, Tap};
use crate::pb;
use crate::pb::verify_request::Message as Up;
use crate::pb::verify_response::Message as Down;
use crate::sequence::SequenceSpec;
use crate::verifier_card::VerifierCard;

/// The first message of `Verify`: what the sequence holds and how it goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// The sequence.
    pub sequence: SequenceSpec,
    /// Where hidden states are read, if they are to be sent.
    pub tap: Option<Tap>,
}

impl Open {
    /// Reads the first message of a stream.
    ///
    /// # Errors
    /// Anything but an `Open`, or one that the model of `card` cannot serve.
    pub fn read(wire: pb::VerifyRequest, card: &VerifierCard) -> Result<Self, WireError> {
        let wire = match required("message", wire.message)? {
            Up::Open(open) => open,
            Up::Tree(_) => return Err(WireError::Order { expected: "an open", found: "a tree" }),
            Up::Credit(_) => return Err(WireError::Order { expected: "an open", found: "credit" }),
        };
        let bounds = card.bounds();
        let sequence = SequenceSpec::read(wire.sequence, &bounds)?;
        bounds.check_bias(&sequence.sampling)?;
        Ok(Self { sequence, tap: wire.hidden_states.map(|tap| Tap::read(tap, &card.model)).transpose()? })
    }
}

impl From<Open> for pb::VerifyRequest {
    fn from(open: Open) -> Self {
        let open = pb::Open { sequence: Some(open.sequence.into()), hidden_states: open.tap.map(Into::into) };
        Self { message: Some(Up::Open(open)) }
    }
}

/// What the target made of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The round's number.
    pub round: u64,
    /// The nodes accepted and committed, root side first.
    pub path: Vec<usize>,
    /// The tokens committed: those of `path`, then at most one of the target's own.
    pub tokens: Vec<Token>,
    /// One for each of them, or none if they were not asked for.
    pub logprobs: Vec<Logprobs>,
    /// Set when the sequence ends here.
    pub finish: Option<FinishReason>,
    /// Time the forward pass took.
    pub compute: Duration,
    /// Time the sequence waited for it.
    pub queue: Duration,
    /// With whom it shared the pass; all 0 if the verifier does not say.
    pub load: PassLoad,
    /// Time that the target has spent on prompts, this sequence's and others', since the outcome before or the opening: it
    /// says nothing of rounds.
    pub prompts: Duration,
    /// The hidden states of positions in a row that became known with it, if they were asked for.
    pub states: Option<HiddenStates>,
}

impl Outcome {
    /// How many of the tokens were drafted; they come first.
    pub fn accepted(&self) -> usize {
        self.path.len()
    }

    /// The states that there is no room for, and the outcome with the others.
    fn without_first_states(self) -> (Vec<HiddenStates>, VerifierEvent) {
        let mut pieces: Vec<_> = self.states.map(HiddenStates::into_pieces).unwrap_or_default();
        let states = pieces.pop();
        (pieces, VerifierEvent::Outcome(Self { states, ..self }))
    }
}

/// A message of `Verify` on its way down.
#[derive(Debug, Clone, PartialEq)]
pub enum VerifierEvent {
    /// The sequence is open; so many committed tokens were known already.
    Opened {
        /// Tokens that need not be computed again.
        reused_prefix: usize,
    },
    /// States of positions before those of the next outcome.
    States(HiddenStates),
    /// A tree was verified.
    Outcome(Outcome),
}

impl VerifierEvent {
    /// The same in messages of bounded size: states that an outcome has no room for go ahead of it.
    pub fn in_pieces(self) -> impl Iterator<Item = Self> {
        let (ahead, last) = match self {
            Self::Outcome(outcome) => outcome.without_first_states(),
            event => (Vec::new(), event),
        };
        ahead.into_iter().map(Self::States).chain([last])
    }
}

impl From<VerifierEvent> for pb::VerifyResponse {
    fn from(event: VerifierEvent) -> Self {
        let message = match event {
            VerifierEvent::Opened { reused_prefix } => {
                Down::Opened(pb::Opened { reused_prefix: wire_count(reused_prefix) })
            }
            VerifierEvent::States(states) => Down::HiddenStates(states.into()),
            VerifierEvent::Outcome(outcome) => Down::Outcome(write_outcome(outcome)),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<pb::VerifyResponse> for VerifierEvent {
    type Error = WireError;

    fn try_from(wire: pb::VerifyResponse) -> Result<Self, WireError> {
        Ok(match required("message", wire.message)? {
            Down::Opened(opened) => Self::Opened { reused_prefix: opened.reused_prefix as usize },
            Down::HiddenStates(states) => Self::States(states.try_into()?),
            Down::Outcome(outcome) => Self::Outcome(read_outcome(outcome)?),
        })
    }
}

fn write_outcome(outcome: Outcome) -> pb::Outcome {
    pb::Outcome {
        round: outcome.round,
        path: outcome.path.into_iter().map(wire_count).collect(),
        tokens: outcome.tokens,
        logprobs: write_logprobs(outcome.logprobs),
        finish: write_finish(outcome.finish),
        compute_us: wire_micros(outcome.compute),
        queue_us: wire_micros(outcome.queue),
        pass_rows: wire_count(outcome.load.rows),
        pass_trees: wire_count(outcome.load.trees),
        open_sequences: wire_count(outcome.load.open),
        prompts_us: wire_micros(outcome.prompts),
        hidden_states: outcome.states.map(Into::into),
    }
}

/// Reads an outcome: its path runs downwards, and its tokens are those of the
/// path and one more, which only the end of the sequence may cut off.
fn read_outcome(wire: pb::Outcome) -> Result<Outcome, WireError> {
    let finish = read_finish(wire.finish)?;
    if wire.tokens.is_empty() {
        return Err(WireError::Empty { field: "outcome.tokens" });
    }
    let own = wire.tokens.len().checked_sub(wire.path.len());
    let whole = match own {
        Some(1) => true,
        Some(0) => finish.is_some(),
        _ => false,
    };
    let downwards = wire.path.is_sorted_by(|above, below| above < below) && !wire.path.contains(&0);
    if !whole || !downwards {
        return Err(WireError::Outcome { path: wire.path, tokens: wire.tokens });
    }
    let [rows, trees, open] = [wire.pass_rows, wire.pass_trees, wire.open_sequences].map(|count| count as usize);
    Ok(Outcome {
        round: wire.round,
        load: PassLoad { rows, trees, open },
        logprobs: read_logprobs(wire.logprobs, wire.tokens.len())?,
        path: wire.path.into_iter().map(|node| node as usize).collect(),
        tokens: wire.tokens,
        finish,
        compute: Duration::from_micros(wire.compute_us),
        queue: Duration::from_micros(wire.queue_us),
        prompts: Duration::from_micros(wire.prompts_us),
        states: wire.hidden_states.map(HiddenStates::try_from).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::{Acceptance, Constraint, ConstraintKind, Penalties, Sampling, Shaping, TreeBounds};

    use super::*;
    use crate::hidden_states::STATES_BYTES_MAX;
    use crate::sequence::SequenceId;
    use crate::submission::{Credit, Submission};
    use crate::verifier_card::tests::card;

    const TREE: TreeBounds = TreeBounds { vocab: 100, max_nodes: 4, max_depth: 4 };

    fn open() -> Open {
        let sequence = SequenceSpec {
            generated: 1,
            sampling: Sampling::new(0.8, 0, 0.9, 42).unwrap(),
            stop_tokens: vec![9],
            logprobs: Some(2),
            tenant: u64::MAX,
            constraint: Some(Constraint::new(ConstraintKind::Grammar, "start: \"a\"").unwrap()),
            ..SequenceSpec::new(SequenceId::from(7), vec![1, 2, 3], 5)
        };
        Open { sequence, tap: Some(Tap { layer: 5, width: 2 }) }
    }

    fn outcome() -> Outcome {
        Outcome {
            round: 3,
            path: vec![1, 3],
            tokens: vec![5, 6, 7],
            logprobs: vec![],
            finish: None,
            compute: Duration::from_micros(1500),
            queue: Duration::from_micros(20),
            load: PassLoad { rows: 40, trees: 4, open: 6 },
            prompts: Duration::from_micros(700),
            states: Some(states(2, 3)),
        }
    }

    fn states(first: usize, rows: usize) -> HiddenStates {
        let mut states = HiddenStates::new(first, 2);
        (0..rows).for_each(|row| states.push(&[row as f32, -0.5]));
        states
    }

    #[test]
    fn an_open_survives_the_wire() {
        assert_eq!(Open::read(open().into(), &card()), Ok(open()));
    }

    #[test]
    fn the_stream_has_an_order() {
        let credit = Submission::Credit(Credit { round: 0, tokens: 1, states_later: false });
        let refusal = Open::read((&credit).into(), &card()).unwrap_err().to_string();
        assert_eq!(refusal, "credit came where an open was expected");
        assert!(Submission::read(open().into(), &TREE, Acceptance::Coupled).is_err());
        assert_eq!(
            Open::read(pb::VerifyRequest { message: None }, &card()),
            Err(WireError::Missing { field: "message" })
        );
    }

    #[test]
    fn events_survive_the_wire() {
        let logprobs = |chosen| Logprobs { chosen, top: vec![(9, -0.25), (4, -1.5)] };
        let explained = Outcome { logprobs: [-1.5, -2.0, 0.0].map(logprobs).to_vec(), ..outcome() };
        let finished = Outcome { path: vec![2], tokens: vec![4], finish: Some(FinishReason::Stop), ..outcome() };
        let plain = Outcome { path: vec![], tokens: vec![8], ..outcome() };
        for event in [
            VerifierEvent::Opened { reused_prefix: 12 },
            VerifierEvent::States(states(0, 2)),
            VerifierEvent::Outcome(outcome()),
            VerifierEvent::Outcome(explained),
            VerifierEvent::Outcome(finished),
            VerifierEvent::Outcome(plain),
        ] {
            assert_eq!(VerifierEvent::try_from(pb::VerifyResponse::from(event.clone())), Ok(event));
        }
    }

    #[test]
    fn what_an_open_asks_beyond_bounds_is_refused() {
        let bias = |token| Shaping::new(Penalties::NONE, [(token, 1.0)]).unwrap();
        let refusal = |open: Open| Open::read(open.into(), &card()).unwrap_err().to_string();
        let asked = |change: fn(&mut SequenceSpec)| {
            let mut open = open();
            change(&mut open.sequence);
            refusal(open)
        };
        assert_eq!(asked(|sequence| sequence.generated = 4), "generated is 4, beyond the limit of 3");
        assert_eq!(asked(|sequence| sequence.logprobs = Some(21)), "logprobs is 21, beyond the limit of 20");
        let tap = |layer, width| refusal(Open { tap: Some(Tap { layer, width }), ..open() });
        assert_eq!(tap(9, 2), "hidden_states.layer is 9, beyond the limit of 8");
        assert_eq!(tap(0, 2), "hidden_states.layer is 0, below the minimum of 1");
        assert_eq!(tap(8, 3), "hidden states are 3 wide where 2 were expected");
        let biased = SequenceSpec { sampling: Sampling::greedy().with_shaping(bias(100)), ..open().sequence };
        let told = refusal(Open { sequence: biased, ..open() });
        assert_eq!(told, "logit_bias holds token 100, beyond the vocabulary of 100");
    }

    #[test]
    fn logprobs_belong_to_their_tokens_and_are_logarithms() {
        let logprobs = |chosen| Logprobs { chosen, top: vec![] };
        let refusal = |logprobs: Vec<Logprobs>| {
            let wire = pb::VerifyResponse::from(VerifierEvent::Outcome(Outcome { logprobs, ..outcome() }));
            VerifierEvent::try_from(wire).unwrap_err().to_string()
        };
        assert_eq!(refusal(vec![logprobs(-1.0)]), "1 logprobs came with 3 tokens");
        assert_eq!(refusal(vec![logprobs(0.5); 3]), "logprob 0.5 is no logarithm of a probability");
        assert_eq!(refusal(vec![logprobs(f64::NAN); 3]), "logprob NaN is no logarithm of a probability");
    }

    #[test]
    fn an_outcome_that_contradicts_itself_is_refused() {
        let contradictions = [
            Outcome { tokens: vec![], path: vec![], ..outcome() },
            Outcome { tokens: vec![5, 6], ..outcome() },
            Outcome { tokens: vec![5, 6, 7, 8], ..outcome() },
            Outcome { path: vec![], tokens: vec![5, 6], ..outcome() },
            Outcome { path: vec![3, 1], ..outcome() },
            Outcome { path: vec![0, 1], ..outcome() },
        ];
        for contradiction in contradictions {
            let wire = pb::VerifyResponse::from(VerifierEvent::Outcome(contradiction));
            assert!(VerifierEvent::try_from(wire).is_err());
        }
    }

    #[test]
    fn states_go_ahead_of_an_outcome_as_far_as_it_has_no_room() {
        let pieces = |states| VerifierEvent::Outcome(Outcome { states, ..outcome() }).in_pieces().collect::<Vec<_>>();
        assert_eq!(pieces(None).len(), 1);
        assert_eq!(
            pieces(Some(states(4, 9))),
            [VerifierEvent::Outcome(Outcome { states: Some(states(4, 9)), ..outcome() })]
        );
        let rows = STATES_BYTES_MAX / 4;
        let [VerifierEvent::States(first), VerifierEvent::Outcome(last)] = &pieces(Some(states(4, rows + 1)))[..]
        else {
            panic!("not two pieces");
        };
        assert_eq!((first.first(), first.rows()), (4, rows));
        let last = last.states.as_ref().unwrap();
        assert_eq!((last.first(), last.rows()), (4 + rows, 1));
    }
}
