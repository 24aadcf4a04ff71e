"""A client of Espalier, which serves large language models by distributed speculative decoding."""

from ._gateway import Target
from .answer import Answer, TopLogprobs
from .async_client import AsyncClient, AsyncStream
from .client import Client, Stream
from .errors import (
    BrokenStreamError,
    CancelledError,
    DeadlineExceededError,
    EspalierError,
    InternalError,
    InvalidArgumentError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    StatusError,
    UnauthenticatedError,
    UnavailableError,
)
from .events import (
    Alternative,
    Begun,
    Event,
    Fate,
    Finished,
    FinishReason,
    Node,
    Round,
    Statistics,
    Token,
    Tokens,
)
from .request import Acceptance, Constraint, Message, Options, Prompt

__all__ = [
    "Acceptance",
    "Alternative",
    "Answer",
    "AsyncClient",
    "AsyncStream",
    "Begun",
    "BrokenStreamError",
    "CancelledError",
    "Client",
    "Constraint",
    "DeadlineExceededError",
    "EspalierError",
    "Event",
    "Fate",
    "FinishReason",
    "Finished",
    "InternalError",
    "InvalidArgumentError",
    "Message",
    "Node",
    "Options",
    "OverloadedError",
    "PermissionDeniedError",
    "Prompt",
    "ProtocolError",
    "Round",
    "Statistics",
    "StatusError",
    "Stream",
    "Target",
    "Token",
    "Tokens",
    "TopLogprobs",
    "UnauthenticatedError",
    "UnavailableError",
]
