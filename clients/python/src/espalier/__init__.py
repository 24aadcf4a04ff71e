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
from .events import Alternative, Begun, Event, Finished, FinishReason, Statistics, Token, Tokens
from .request import Acceptance, Message, Options, Prompt

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
    "DeadlineExceededError",
    "EspalierError",
    "Event",
    "FinishReason",
    "Finished",
    "InternalError",
    "InvalidArgumentError",
    "Message",
    "Options",
    "OverloadedError",
    "PermissionDeniedError",
    "Prompt",
    "ProtocolError",
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
