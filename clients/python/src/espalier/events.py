"""What comes of an answer while it is made: the request was let in, tokens of a round, the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .errors import ProtocolError
from .v1 import common_pb2, generation_pb2

if TYPE_CHECKING:
    from espalier.v1.common_pb2 import FinishReason as WireReason
    from espalier.v1.generation_pb2 import NodeFate as WireFate

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


Fate: TypeAlias = Literal["pruned", "rejected", "accepted"]
"""What became of a drafted token: it was not sent, or is not what the target said, or is."""

_FATES: dict[WireFate, Fate] = {
    generation_pb2.NODE_FATE_PRUNED: "pruned",
    generation_pb2.NODE_FATE_REJECTED: "rejected",
    generation_pb2.NODE_FATE_ACCEPTED: "accepted",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A drafted token."""

    id: int
    text: str
    """Its text on its own."""
    parent: int
    """The node that it continues: nodes count from 1, and 0 is the last token before the round."""
    prob: float
    """The drafter's probability of it given its path."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class Round:
    """What was drafted in a round, what became of it, and when."""

    nodes: tuple[Node, ...]
    levels_ms: tuple[float, ...]
    """What running each level of the draft took, in milliseconds."""
    draft_ms: float
    """Time spent growing the tree, in milliseconds."""
    verify_ms: float
    """Time the target spent computing, in milliseconds."""
    wait_ms: float
    """Time spent waiting for the outcome beyond that, in milliseconds."""
    at_ms: float
    """When its tokens were there, in milliseconds since the request was let in."""
    drafter: str
    """Who drafted: a drafter's name, `ngram` or `none`."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one round of speculation."""

    tokens: tuple[Token, ...]
    round: Round | None = None
    """The round that they are from, if `rounds` were asked for."""

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
            return _read_tokens(wire.chunk)
        case "finished":
            return _read_finished(wire.finished)
        case "begun":
            return Begun(wire.begun.id, wire.begun.seed, wire.begun.prompt_tokens)
        case _:
            raise ProtocolError


def _read_tokens(wire: generation_pb2.Chunk) -> Tokens:
    tokens = tuple(_read_token(token) for token in wire.tokens)
    return Tokens(tokens, _read_round(wire.round) if wire.HasField("round") else None)


def _read_round(wire: generation_pb2.RoundTrace) -> Round:
    return Round(
        nodes=tuple(_read_node(node) for node in wire.nodes),
        levels_ms=tuple(wire.levels_ms),
        draft_ms=wire.draft_ms,
        verify_ms=wire.verify_ms,
        wait_ms=wire.wait_ms,
        at_ms=wire.at_ms,
        drafter=wire.drafter,
    )


def _read_node(wire: generation_pb2.TraceNode) -> Node:
    if wire.fate not in _FATES:
        raise ProtocolError
    return Node(wire.id, wire.text, wire.parent, wire.prob, _FATES[wire.fate])


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
