//! What happens, and what services say to each other.

use espalier_proto::{FaultKind, Party};
use espalier_speculation::PassLoad;
use std::time::Duration;

use crate::time::Time;
use crate::verifier::Submission;
use crate::who::Who;

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// The team of shared processors has something to do.
    Team,
    /// A pass on a device of its own has ended.
    PassEnds(Engine),
    /// It is time to look whether a verifier's pass, put off since then, begins.
    Look(usize, Time),
    Message(Message),
    /// A client asks.
    Client(u32),
    /// A request for a target comes.
    Arrival(usize),
    /// A sequence is opened again.
    Reopen(Who),
    /// Drafters are lost, and are back: the scenario's failure of that number.
    Lost(usize),
    Back(usize),
    /// Gateways have heard of a drafter that is back.
    Known(usize),
}

/// Whose pass it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Verifier(usize),
    Drafter(usize),
}

/// Where a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Client,
    Gateway,
    Verifier(usize),
    Drafter(usize),
}

/// What one service says to another.
#[derive(Debug)]
pub(crate) enum Message {
    /// A client asks a gateway.
    Ask(u32),
    /// A gateway has read what is asked.
    HasRead(u32),
    /// A gateway has a drafter run a sequence.
    Start(Who),
    /// Whoever runs it opens it at its verifier.
    Open(Who),
    Opened(Who),
    Submit(Who, Submission),
    Outcomes(Vec<Outcome>),
    /// A round's tokens, from whoever runs it to the gateway, and on to the client.
    Report(Who, usize, bool),
    Tokens(u32, usize, bool),
    Fault(Who, Party, FaultKind),
    /// A client is refused, and may come again after a while.
    Refused(u32, Option<Duration>),
}

impl Message {
    /// Whether a stream begins with it.
    pub(crate) fn opens_stream(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Start(_) | Self::Open(_))
    }
}

/// What a verifier made of a round.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) who: Who,
    /// Nodes that were accepted.
    pub(crate) path: Vec<usize>,
    pub(crate) tokens: usize,
    pub(crate) is_last: bool,
    pub(crate) compute: Duration,
    pub(crate) queue: Duration,
    pub(crate) load: PassLoad,
    pub(crate) prompts: Duration,
}
