"""What comes of an answer while it is made: the request was let in, tokens of a round, the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .errors import ProtocolError
from .v1 import common_pb2, generation_pb2

if TYPE_CHECKING:
    from espalier.v1.common_pb2 import FinishReason as WireReason

FinishReason: TypeAlias = Literal["stop", "length"]
"""Why an answer ended: with a stop token or a stop string, or at its token limit."""

_REASONS: dict[WireReason, FinishReason] = {
    common_pb2.FINISH_REASON_STOP: "stop",
    common_pb2.FINISH_REASON_LENGTH: "length",
}


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have been said in another's place."""

    id: int
    text: str
    """Its text on its own."""
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer."""

    id: int
    text: str
    """The text that became complete with it; a character spread over several tokens comes with the last of them."""
    drafted: bool
    """Whether the drafter had proposed it; otherwise the target added it."""
    logprob: float | None
    """Natural logarithm of its probability in the target's own distribution, if `logprobs` were asked for."""
    alternatives: tuple[Alternative, ...]
    """The most probable tokens in its place, most probable first."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The request was let in."""

    id: str
    """Names the request in the logs of all services."""
    seed: int
    """The seed that is used."""
    prompt_tokens: int
    """Tokens of the prompt, template included."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one round of speculation."""

    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The text that became complete with them."""
        return "".join(token.text for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Statistics:
    """How speculation went; of an answer that was resumed, since the last time."""

    rounds: int
    """Verification rounds."""
    drafted: int
    """Nodes drafted, before pruning."""
    verified: int
    """Nodes sent and verified."""
    accepted: int
    """Draft tokens that were committed."""
    accepted_by_depth: tuple[int, ...]
    """Element `i` counts the rounds that accepted a node of depth `i + 1`."""
    tau: float | None
    """Committed tokens per round; none before the first round."""
    draft_ms: float
    """Time spent growing trees, in milliseconds."""
    verify_ms: float
    """Time the target spent computing, in milliseconds."""
    wait_ms: float
    """Time spent waiting for outcomes beyond that, in milliseconds."""
    drafter: str
    """Who drafted last: a drafter's name, `ngram` or `none`."""
    policy: str
    """The policy as it was understood, every parameter included."""
    failovers: int
    """How often the sequence had to be opened again elsewhere."""
    depth: int
    """Depths of the deepest nodes sent, summed over the rounds."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer."""

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    statistics: Statistics
    text: str
    """Text that was still held back: an incomplete character, or what never became a stop string."""
    seed: int
    """The seed that was used: repeat the request with it to get the same text."""
    stop_string: str | None
    """The stop string that ended the text, if one did."""


Event: TypeAlias = Begun | Tokens | Finished
"""What comes of an answer while it is made."""


def read_event(wire: generation_pb2.GenerateResponse) -> Event:
    """Read a message of the gateway."""
    match wire.WhichOneof("event"):
        case "chunk":
            return Tokens(tuple(_read_token(token) for token in wire.chunk.tokens))
        case "finished":
            return _read_finished(wire.finished)
        case "begun":
            return Begun(wire.begun.id, wire.begun.seed, wire.begun.prompt_tokens)
        case _:
            raise ProtocolError


def _read_token(wire: generation_pb2.GeneratedToken) -> Token:
    return Token(
        id=wire.id,
        text=wire.text,
        drafted=wire.drafted,
        logprob=wire.logprob if wire.HasField("logprob") else None,
        alternatives=tuple(Alternative(other.id, other.text, other.logprob) for other in wire.alternatives),
    )


def _read_finished(wire: generation_pb2.Finished) -> Finished:
    if wire.reason not in _REASONS:
        raise ProtocolError
    return Finished(
        reason=_REASONS[wire.reason],
        prompt_tokens=wire.usage.prompt_tokens,
        completion_tokens=wire.usage.completion_tokens,
        statistics=_read_statistics(wire.statistics),
        text=wire.text,
        seed=wire.seed,
        stop_string=wire.stop_string or None,
    )


def _read_statistics(wire: generation_pb2.SpeculationStatistics) -> Statistics:
    return Statistics(
        rounds=wire.rounds,
        drafted=wire.drafted,
        verified=wire.verified,
        accepted=wire.accepted,
        accepted_by_depth=tuple(wire.accepted_by_depth),
        tau=wire.tau if wire.HasField("tau") else None,
        draft_ms=wire.draft_ms,
        verify_ms=wire.verify_ms,
        wait_ms=wire.wait_ms,
        drafter=wire.drafter,
        policy=wire.policy,
        failovers=wire.failovers,
        depth=wire.depth,
    )
