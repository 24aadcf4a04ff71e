//! The two directions of `Speculate`.

use std::time::Duration;

use espalier_speculation::{ExitThresholds, FinishReason, Logprobs, Token};

use crate::common::{
    check_length, check_text, read_logprobs, read_reason, required, wire_count, wire_micros, write_finish,
    write_logprobs,
};
use crate::drafted_tree::DraftedTree;
use crate::error::WireError;
use crate::pb;
use crate::pb::speculate_request::Message as Up;
use crate::pb::speculate_response::Message as Down;
use crate::sequence::{SequenceBounds, SequenceSpec};
use crate::verifier_card::MODEL_NAME_BYTES_MAX;

/// The most rounds that one grant may allow.
pub const GRANT_ROUNDS_MAX: usize = 1024;

/// The longest address of a verifier, in bytes.
const ADDRESS_BYTES_MAX: usize = 256;

/// The longest text of a policy, in bytes.
pub(crate) const POLICY_BYTES_MAX: usize = 256;

/// The first message of `Speculate`: a sequence, and who verifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The sequence.
    pub sequence: SequenceSpec,
    /// The target's name.
    pub target: String,
    /// The verifier's address, `http://host:port`.
    pub verifier: String,
    /// How trees are grown, as `name,key=value,...`.
    pub policy: String,
    /// When rows leave a drafter with several exits; the drafter's own thresholds if absent.
    pub exit_thresholds: Option<ExitThresholds>,
    /// Whether each round comes with the tree that was drafted for it.
    pub trees: bool,
}

impl Start {
    /// Reads the first message of a stream.
    ///
    /// # Errors
    /// Anything but a `Start`, or one that the drafter cannot follow.
    pub fn read(wire: pb::SpeculateRequest, bounds: &SequenceBounds) -> Result<Self, WireError> {
        let wire = match required("message", wire.message)? {
            Up::Start(start) => start,
            Up::Grant(_) => return Err(WireError::Order { expected: "a start", found: "a grant" }),
        };
        check_text("target", &wire.target, MODEL_NAME_BYTES_MAX)?;
        check_text("verifier", &wire.verifier, ADDRESS_BYTES_MAX)?;
        check_text("policy", &wire.policy, POLICY_BYTES_MAX)?;
        Ok(Self {
            sequence: SequenceSpec::read(wire.sequence, bounds)?,
            target: wire.target,
            verifier: wire.verifier,
            policy: wire.policy,
            exit_thresholds: read_thresholds(wire.exit_thresholds)?,
            trees: wire.trees,
        })
    }
}

/// Thresholds of a drafter of as many exits as they are for; none are none.
fn read_thresholds(wire: Vec<f64>) -> Result<Option<ExitThresholds>, WireError> {
    let exits = wire.len() + 1;
    Ok(if wire.is_empty() { None } else { Some(ExitThresholds::new(wire, exits)?) })
}

impl From<Start> for pb::SpeculateRequest {
    fn from(start: Start) -> Self {
        let start = pb::Start {
            sequence: Some(start.sequence.into()),
            target: start.target,
            verifier: start.verifier,
            policy: start.policy,
            exit_thresholds: start.exit_thresholds.map_or_else(Vec::new, |exits| exits.thresholds().to_vec()),
            trees: start.trees,
        };
        Self { message: Some(Up::Start(start)) }
    }
}

/// Every further message of `Speculate`: permission to run so many more rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    rounds: usize,
}

impl Grant {
    /// Permission to run `rounds` more rounds, 1 to [`GRANT_ROUNDS_MAX`].
    ///
    /// # Errors
    /// A number beyond that.
    pub fn new(rounds: usize) -> Result<Self, WireError> {
        let field = "rounds";
        check_length(field, rounds, GRANT_ROUNDS_MAX)?;
        match rounds {
            0 => Err(WireError::TooSmall { field, value: 0, min: 1 }),
            _ => Ok(Self { rounds }),
        }
    }

    /// How many rounds.
    pub fn rounds(self) -> usize {
        self.rounds
    }

    /// Reads a message that is not the first of its stream.
    ///
    /// # Errors
    /// Anything but a grant, or one out of range.
    pub fn read(wire: pb::SpeculateRequest) -> Result<Self, WireError> {
        match required("message", wire.message)? {
            Up::Grant(grant) => Self::new(grant.rounds as usize),
            Up::Start(_) => Err(WireError::Order { expected: "a grant", found: "a start" }),
        }
    }
}

impl From<Grant> for pb::SpeculateRequest {
    fn from(grant: Grant) -> Self {
        let grant = pb::Grant { rounds: wire_count(grant.rounds) };
        Self { message: Some(Up::Grant(grant)) }
    }
}

/// What one round committed, and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundReport {
    /// Counts from 0 within the stream.
    pub round: u64,
    /// The tokens committed, at least one.
    pub tokens: Vec<Token>,
    /// One for each of them, or none if they were not asked for.
    pub logprobs: Vec<Logprobs>,
    /// So many of them, the first ones, were draft tokens.
    pub accepted: usize,
    /// What it cost.
    pub cost: RoundCost,
    /// What was drafted, if that was asked for and anything was.
    pub tree: Option<Box<DraftedTree>>,
}

impl RoundReport {
    /// Keeps the first `count` tokens only, and what belongs to them.
    pub fn cut(&mut self, count: usize) {
        self.tokens.truncate(count);
        self.logprobs.truncate(count);
        self.accepted = self.accepted.min(self.tokens.len());
        if let Some(tree) = &mut self.tree {
            tree.cut(self.accepted);
        }
    }
}

/// What one round cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundCost {
    /// Nodes drafted, before pruning.
    pub drafted: usize,
    /// Nodes sent and verified.
    pub verified: usize,
    /// Depth of the deepest node sent.
    pub depth: usize,
    /// Time spent growing the tree.
    pub draft: Duration,
    /// Time the target spent computing.
    pub verify: Duration,
    /// Time spent waiting for the outcome beyond that: queue and network.
    pub wait: Duration,
}

/// A message of `Speculate` on its way down.
#[derive(Debug, Clone, PartialEq)]
pub enum DrafterEvent {
    /// A round is over.
    Round(RoundReport),
    /// The sequence is over; nothing follows.
    Finished(FinishReason),
}

impl From<DrafterEvent> for pb::SpeculateResponse {
    fn from(event: DrafterEvent) -> Self {
        let message = match event {
            DrafterEvent::Round(report) => Down::Round(write_report(report)),
            DrafterEvent::Finished(reason) => {
                Down::Finished(pb::SpeculationFinished { reason: write_finish(Some(reason)) })
            }
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<pb::SpeculateResponse> for DrafterEvent {
    type Error = WireError;

    fn try_from(wire: pb::SpeculateResponse) -> Result<Self, WireError> {
        Ok(match required("message", wire.message)? {
            Down::Round(round) => Self::Round(read_report(round)?),
            Down::Finished(finished) => Self::Finished(read_reason(finished.reason)?),
        })
    }
}

fn write_report(report: RoundReport) -> pb::Round {
    let cost = report.cost;
    pb::Round {
        round: report.round,
        tokens: report.tokens,
        logprobs: write_logprobs(report.logprobs),
        accepted: wire_count(report.accepted),
        cost: Some(pb::RoundCost {
            drafted: wire_count(cost.drafted),
            verified: wire_count(cost.verified),
            depth: wire_count(cost.depth),
            draft_us: wire_micros(cost.draft),
            verify_us: wire_micros(cost.verify),
            wait_us: wire_micros(cost.wait),
        }),
        tree: report.tree.map(|tree| tree.write()),
    }
}

fn read_report(wire: pb::Round) -> Result<RoundReport, WireError> {
    if wire.tokens.is_empty() {
        return Err(WireError::Empty { field: "round.tokens" });
    }
    check_length("round.accepted", wire.accepted as usize, wire.tokens.len())?;
    let cost = required("round.cost", wire.cost)?;
    Ok(RoundReport {
        round: wire.round,
        logprobs: read_logprobs(wire.logprobs, wire.tokens.len())?,
        tokens: wire.tokens,
        accepted: wire.accepted as usize,
        cost: RoundCost {
            drafted: cost.drafted as usize,
            verified: cost.verified as usize,
            depth: cost.depth as usize,
            draft: Duration::from_micros(cost.draft_us),
            verify: Duration::from_micros(cost.verify_us),
            wait: Duration::from_micros(cost.wait_us),
        },
        tree: wire.tree.map(|tree| DraftedTree::read(tree).map(Box::new)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::sequence::SequenceId;

    const BOUNDS: SequenceBounds = SequenceBounds { vocab: 100, context: 16 };

    fn start() -> Start {
        Start {
            sequence: SequenceSpec {
                generated: 2,
                logprobs: Some(0),
                ..SequenceSpec::new(SequenceId::from(7), vec![1, 2, 3], 5)
            },
            target: "medium".to_owned(),
            verifier: "http://127.0.0.1:50051".to_owned(),
            policy: "pct,width=5".to_owned(),
            exit_thresholds: Some(ExitThresholds::parse("0.5,0.75", 3).unwrap()),
            trees: true,
        }
    }

    fn report() -> RoundReport {
        RoundReport {
            round: 2,
            tokens: vec![4, 5],
            logprobs: vec![Logprobs { chosen: -0.5, top: vec![(4, -0.5)] }, Logprobs { chosen: -2.0, top: vec![] }],
            accepted: 1,
            cost: RoundCost {
                drafted: 9,
                verified: 5,
                depth: 3,
                draft: Duration::from_micros(300),
                verify: Duration::from_micros(2000),
                wait: Duration::from_micros(100),
            },
            tree: Some(Box::default()),
        }
    }

    #[test]
    fn a_start_survives_the_wire() {
        assert_eq!(Start::read(start().into(), &BOUNDS), Ok(start()));
        let usual = Start { exit_thresholds: None, ..start() };
        assert_eq!(Start::read(usual.clone().into(), &BOUNDS), Ok(usual));
    }

    #[test]
    fn thresholds_that_no_drafter_can_have_are_refused() {
        let refusal = |thresholds| {
            let mut wire = pb::SpeculateRequest::from(start());
            let Some(Up::Start(message)) = &mut wire.message else { panic!("another message") };
            message.exit_thresholds = thresholds;
            Start::read(wire, &BOUNDS).unwrap_err().to_string()
        };
        assert_eq!(refusal(vec![0.5, 1.5]), "the threshold of exit 1 is 1.5, which is not between 0 and 1");
        assert_eq!(refusal(vec![f64::NAN]), "the threshold of exit 0 is NaN, which is not between 0 and 1");
        assert_eq!(refusal(vec![0.5; 64]), "a drafter cannot have 65 exits, only 1 to 64");
    }

    #[test]
    fn a_start_without_target_verifier_or_policy_is_refused() {
        for (field, broken) in [
            ("target", Start { target: String::new(), ..start() }),
            ("verifier", Start { verifier: String::new(), ..start() }),
            ("policy", Start { policy: String::new(), ..start() }),
        ] {
            assert_eq!(Start::read(broken.into(), &BOUNDS), Err(WireError::Empty { field }));
        }
    }

    #[test]
    fn the_stream_has_an_order() {
        let grant = Grant::new(4).unwrap();
        assert_eq!(Grant::read(grant.into()), Ok(grant));
        assert!(matches!(Start::read(grant.into(), &BOUNDS), Err(WireError::Order { .. })));
        assert!(matches!(Grant::read(start().into()), Err(WireError::Order { .. })));
    }

    #[test]
    fn a_grant_allows_something_and_not_everything() {
        assert_eq!(Grant::new(0).unwrap_err().to_string(), "rounds is 0, below the minimum of 1");
        assert_eq!(Grant::new(1025).unwrap_err().to_string(), "rounds is 1025, beyond the limit of 1024");
    }

    #[test]
    fn events_survive_the_wire() {
        for event in [DrafterEvent::Round(report()), DrafterEvent::Finished(FinishReason::Length)] {
            assert_eq!(DrafterEvent::try_from(pb::SpeculateResponse::from(event.clone())), Ok(event));
        }
    }

    #[test]
    fn what_is_cut_off_a_report_is_not_accepted() {
        let mut report = RoundReport { accepted: 2, ..report() };
        report.cut(1);
        assert_eq!((report.tokens.len(), report.logprobs.len(), report.accepted), (1, 1, 1));
        report.cut(5);
        assert_eq!(report.tokens.len(), 1);
    }

    #[test]
    fn a_report_that_contradicts_itself_is_refused() {
        for broken in [
            RoundReport { tokens: vec![], ..report() },
            RoundReport { accepted: 3, ..report() },
            RoundReport { tokens: vec![4], ..report() },
        ] {
            let wire = pb::SpeculateResponse::from(DrafterEvent::Round(broken));
            assert!(DrafterEvent::try_from(wire).is_err());
        }
    }
}
