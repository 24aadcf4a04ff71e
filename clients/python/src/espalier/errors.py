"""What a call can end with besides an answer: one exception for each gRPC status that a gateway uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTY_KEY = "espalier-party"
"""Metadata of a status: who is to blame."""

RETRY_AFTER_KEY = "retry-after-ms"
"""Metadata of a status: when to come again, in milliseconds."""

PARTIES = ("client", "gateway", "drafter", "verifier")
"""Who can be to blame."""


class EspalierError(Exception):
    """Why there is no answer. Wrong arguments that need no gateway to be found are a `ValueError` or a `TypeError`."""


class BrokenStreamError(EspalierError):
    """The stream ended before the answer did."""

    def __init__(self) -> None:
        super().__init__("the answer ended before it was finished")


class ProtocolError(EspalierError):
    """What answers is no gateway that this client understands."""

    def __init__(self) -> None:
        super().__init__("the gateway answered with what makes no sense")


class StatusError(EspalierError):
    """A gateway, or a service behind it, refused or failed."""

    may_pass: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    status: grpc.StatusCode
    """The gRPC status."""
    party: str
    """Who is to blame: `client`, `gateway`, `drafter` or `verifier`."""
    message: str
    """What was wrong, with which value, in one sentence."""
    retry_after: float | None
    """When a further try may succeed, in seconds, if the gateway told."""

    def __init__(
        self, status: grpc.StatusCode, message: str, *, party: str = "gateway", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{party}: {message}")
        self.status = status
        self.party = party
        self.message = message
        self.retry_after = retry_after


class InvalidArgumentError(StatusError):
    """`INVALID_ARGUMENT`: the request is wrong, and will be wrong again."""


class UnauthenticatedError(StatusError):
    """`UNAUTHENTICATED`: the gateway asks for API keys, and none that it knows was shown."""


class PermissionDeniedError(StatusError):
    """`PERMISSION_DENIED`: the key may not have this."""


class OverloadedError(StatusError):
    """`RESOURCE_EXHAUSTED`: the service is full, or a limit of the key is reached; come back after `retry_after`."""

    may_pass = True


class UnavailableError(StatusError):
    """`UNAVAILABLE`: no service that could answer is there, or the gateway is not reached."""

    may_pass = True


class DeadlineExceededError(StatusError):
    """`DEADLINE_EXCEEDED`: the time limit passed before the answer was there."""


class CancelledError(StatusError):
    """`CANCELLED`: the call was given up."""


class InternalError(StatusError):
    """`INTERNAL`, or a status that no service of Espalier uses: something is broken there."""


_ERRORS: dict[grpc.StatusCode, type[StatusError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    # A message longer than any target could serve is refused with this before it is read.
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgumentError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledError,
}

_OF_TRANSPORT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
)
"""With one of these and no party in its metadata, a status was made by what lies between: nobody was reached."""


class _Ended(Protocol):
    """What gRPC's own errors have, which its base class does not say."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def from_grpc(error: grpc.RpcError) -> StatusError:
    """Read what a call to a gateway ended with."""
    ended = cast("_Ended", error)
    status, details = ended.code(), ended.details() or ""
    metadata = dict(ended.trailing_metadata() or ())
    party = metadata.get(PARTY_KEY)
    if party not in PARTIES and status in _OF_TRANSPORT:
        return UnavailableError(grpc.StatusCode.UNAVAILABLE, f"the gateway is not reached: {details}")
    kind = _ERRORS.get(status, InternalError)
    known = str(party) if party in PARTIES else "gateway"
    return kind(status, details, party=known, retry_after=_retry_after(metadata.get(RETRY_AFTER_KEY)))


def _retry_after(value: str | bytes | None) -> float | None:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    return int(text) / 1000 if text is not None and text.isdecimal() else None
