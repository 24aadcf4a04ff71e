"""A gateway: its address, how it is connected to, and what travels with calls to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import SplitResult, urlsplit

import grpc

from ._heard import Heard
from ._retries import Budget, Limit, Tries
from .request import build_request
from .v1 import generation_pb2, status_pb2

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from .request import Options, Prompt

Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Method(Generic[Asked, Told]):
    """A call of the protocol."""

    path: str
    write: Callable[[Asked], bytes]
    read: Callable[[bytes], Told]


GENERATE: Method[generation_pb2.GenerateRequest, generation_pb2.GenerateResponse] = Method(
    "/espalier.v1.Generation/Generate",
    generation_pb2.GenerateRequest.SerializeToString,
    generation_pb2.GenerateResponse.FromString,
)

LIST_TARGETS: Method[generation_pb2.ListTargetsRequest, generation_pb2.ListTargetsResponse] = Method(
    "/espalier.v1.Generation/ListTargets",
    generation_pb2.ListTargetsRequest.SerializeToString,
    generation_pb2.ListTargetsResponse.FromString,
)

STATUS: Method[status_pb2.SystemStatusRequest, status_pb2.SystemStatusResponse] = Method(
    "/espalier.v1.Generation/Status",
    status_pb2.SystemStatusRequest.SerializeToString,
    status_pb2.SystemStatusResponse.FromString,
)

STATUS_MAX = 5.0
"""Seconds that a status may take."""

KEY_CHARACTERS_MAX = 512
"""The longest API key."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A gateway that is stopped or cut off is noticed within two seconds: after so many milliseconds of silence it is
    # asked for a sign of life, and has so many to give one. Of the two limits gRPC takes the longer one.
    ("grpc.keepalive_time_ms", 200),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.http2.ping_timeout_ms", 500),
    ("grpc.http2.max_pings_without_data", 0),
    # One that was started again is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Calls are made again by the rules of this package alone.
    ("grpc.enable_retries", 0),
    # Clients share no connections, so that closing one ends its own.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A model that answers at present."""

    name: str
    context: int
    """Prompt and answer together, in tokens."""
    drafters: tuple[str, ...]
    """The drafters whose tokenizer agrees with this target's."""
    vocabulary_size: int
    """Rows of its embedding, padding included: tokens have ids below it."""
    fingerprint: str
    """Hash of the tokenizer's vocabulary and merges."""


class Gateway:
    """What both kinds of client are made of."""

    def __init__(
        self,
        gateway: str,
        *,
        key: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
        patience: float = 0.0,
        retries: int = 2,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_name: str | None = None,
    ) -> None:
        """Make a client, which connects when it is first used.

        Args:
            gateway: its address, `http://host:port`, or `https://host:port` under TLS.
            key: the API key to show, where the gateway asks for keys.
            name: in whose name is asked: a gateway is fair between names, not requests. Where keys count, it does not.
            timeout: seconds that a whole answer may take, tries and pauses included; no limit if `None`.
            patience: an answer whose stream breaks is gone on with until it has not come any further for so many
                seconds; 0 raises the error at once. The text is that of an unbroken stream.
            retries: how often a call that was refused for want of room, or because nobody could be reached, is made
                again before it is let in; in pauses that the gateway tells, or of 0.1, 0.2, 0.4 … seconds. All calls of
                a client together have ten further tries and get one more with every tenth call.
            tls_ca: a file with the authorities to check the gateway's certificate by; those that gRPC comes with if
                `None`.
            tls_cert: a file with a certificate to show, where the gateway asks for one.
            tls_key: the file with its private key.
            tls_name: the name that the gateway's certificate must have, if it is not the host in the address.

        """
        url = _split(gateway)
        self._address = url.netloc
        self._metadata = _metadata(key, name)
        self._timeout, self._patience, self._retries = timeout, patience, retries
        self._budget = Budget()
        self._channel_options: list[tuple[str, int | str]] = list(CHANNEL_OPTIONS)
        if tls_name is not None:
            self._channel_options.append(("grpc.ssl_target_name_override", tls_name))
        given = [tls_ca, tls_cert, tls_key, tls_name]
        if url.scheme == "http" and any(option is not None for option in given):
            raise ValueError(f"`{gateway}` would be spoken to in the clear, although TLS was asked for: write https://")
        if (tls_cert is None) != (tls_key is None):
            raise ValueError("a certificate to show and its private key belong together: tls_cert and tls_key")
        self._credentials = _credentials(tls_ca, tls_cert, tls_key) if url.scheme == "https" else None

        self._prepare()

    def _prepare(self) -> None:
        """Make what calls go through, where it can be made at once."""

    def _tries(self, seconds: float | None) -> Tries:
        return Tries(self._retries, self._budget, Limit(seconds))

    def _heard(self, target: str, prompt: Prompt, options: Options) -> Heard:
        tries = self._tries(options.get("timeout", self._timeout))
        return Heard(build_request(target, prompt, options), tries, self._patience)

    def _metadata_of(self, options: Options) -> tuple[tuple[str, str | bytes], ...]:
        session = options.get("session")
        if session is None:
            return self._metadata
        if not (session and session.isascii() and session.isprintable()):
            raise ValueError(f"`{session}` cannot be the name of a session: it is not visible ASCII")
        return (*self._metadata, ("x-espalier-session", session))


def _split(gateway: str) -> SplitResult:
    fault = ValueError(f"`{gateway}` is not an address of the form http://host:port or https://host:port")
    try:
        url = urlsplit(gateway)
        is_address = bool(url.hostname) and url.port is not None and url.username is None
    except ValueError:
        raise fault from None
    if url.scheme not in ("http", "https") or not is_address or url.path.strip("/") or url.query or url.fragment:
        raise fault
    return url


def _metadata(key: str | None, name: str | None) -> tuple[tuple[str, str | bytes], ...]:
    metadata: list[tuple[str, str | bytes]] = []
    if key is not None:
        if not (1 <= len(key) <= KEY_CHARACTERS_MAX and all("!" <= character <= "~" for character in key)):
            # Without the text: that may be a secret.
            limit = f"1 to {KEY_CHARACTERS_MAX} visible ASCII characters"
            raise ValueError(f"an API key of {len(key.encode())} bytes; it must be {limit}")
        metadata.append(("authorization", f"Bearer {key}"))
    if name is not None:
        if not (name and name.isascii() and name.isprintable()):
            raise ValueError(f"`{name}` cannot be the name of a client: it is not printable ASCII")
        metadata.append(("x-espalier-client", name))
    return tuple(metadata)


def _credentials(
    ca: str | os.PathLike[str] | None, cert: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None
) -> grpc.ChannelCredentials:
    authorities, own_cert, own_key = (None if path is None else Path(path).read_bytes() for path in (ca, cert, key))
    return grpc.ssl_channel_credentials(authorities, own_key, own_cert)


def read_targets(wire: generation_pb2.ListTargetsResponse) -> list[Target]:
    """Read which models answer."""
    return [
        Target(
            name=target.name,
            context=target.context,
            drafters=tuple(target.drafters),
            vocabulary_size=target.vocabulary.size,
            fingerprint=target.vocabulary.fingerprint,
        )
        for target in wire.targets
    ]
