"""What is wrong is told by an exception for each status, in the gateway's own words."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import espalier
from conftest import free_port
from espalier import AsyncClient, Client, errors
from questions import QUESTION, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import System


@pytest.mark.parametrize(
    ("target", "prompt", "options", "words"),
    [
        ("huge", TEXT, {}, "unknown target `huge`; known targets are `medium`, `small`"),
        ("medium", TEXT, {"policy": "guess"}, "unknown policy `guess`"),
        ("medium", TEXT, {"drafter": "nobody"}, "unknown drafter `nobody`"),
        ("medium", "", {}, "the prompt is empty"),
        ("medium", [], {}, "the prompt is empty"),
        ("medium", [99_999], {}, "the prompt holds token 99999, but `medium` has tokens 0 to 4095"),
        ("medium", [5] * 3000, {}, "the prompt has 3000 tokens, but the context of `medium` is 2048 tokens"),
        ("medium", QUESTION, {"max_tokens": 0}, "max_tokens is 0; it must be at least 1"),
        ("medium", TEXT, {"temperature": -1.0}, "temperature"),
        ("medium", TEXT, {"logprobs": 21}, "logprobs"),
        ("medium", TEXT, {"generated": [5], "temperature": 1.0}, "the seed that they were drawn with is not given"),
    ],
)
def test_a_request_that_is_wrong(
    client: Client,
    target: str,
    prompt: Any,  # noqa: ANN401
    options: Any,  # noqa: ANN401
    words: str,
) -> None:
    with pytest.raises(espalier.InvalidArgumentError) as found:
        client.generate(target, prompt, **options)
    error = found.value
    assert words in error.message
    assert (error.status, error.party, error.retry_after) == (grpc.StatusCode.INVALID_ARGUMENT, "client", None)
    assert str(error) == f"client: {error.message}"


def test_who_awaits_is_told_the_same(client: Client, system: System) -> None:
    async def ask() -> None:
        async with AsyncClient(system.gateway) as gateway:
            await gateway.generate("huge", TEXT)

    with pytest.raises(espalier.InvalidArgumentError) as awaited:
        asyncio.run(ask())
    with pytest.raises(espalier.InvalidArgumentError) as waited:
        client.generate("huge", TEXT)
    assert str(awaited.value) == str(waited.value)


def test_a_message_longer_than_any_target_could_serve(client: Client) -> None:
    with pytest.raises(espalier.InvalidArgumentError):
        client.generate("medium", "a" * 3_000_000)


def test_time_that_is_too_short(client: Client, system: System) -> None:
    options: dict[str, Any] = {"logit_bias": {2: -100.0}, "speculation": False}
    started = time.monotonic()
    with pytest.raises(espalier.DeadlineExceededError):
        client.generate("medium", TEXT, timeout=0.2, **options)
    with Client(system.gateway, timeout=0.2) as hurried, pytest.raises(espalier.DeadlineExceededError):
        hurried.generate("medium", TEXT, **options)
    assert time.monotonic() - started < 5


def test_nobody_at_the_address() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as nobody:
        for ask in (nobody.targets, nobody.status, lambda: nobody.generate("medium", TEXT)):
            started = time.monotonic()
            with pytest.raises(espalier.UnavailableError, match="gateway: the gateway is not reached: "):
                ask()
            assert 0.3 <= time.monotonic() - started < 5, "two further tries, after 0.1 and 0.2 seconds"


@pytest.mark.parametrize(
    "address", ["", "localhost:50051", "ftp://localhost:1", "http://localhost", "http://a:1/v1", "http://a:b"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ValueError, match=f"`{address}` is not an address of the form http://host:port"):
        Client(address)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Client("http://a:1", name="ä"), "`ä` cannot be the name of a client"),
        (lambda: Client("http://a:1", key="two words"), "an API key of 9 bytes; it must be 1 to 512 visible"),
        (lambda: Client("http://a:1", tls_ca="ca.pem"), "would be spoken to in the clear"),
        (lambda: Client("https://a:1", tls_cert="c.pem"), "belong together: tls_cert and tls_key"),
    ],
)
def test_arguments_that_are_wrong(make: Callable[[], Client], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


class Ended(grpc.RpcError):
    """What a call ended with, as gRPC tells it."""

    def __init__(self, status: grpc.StatusCode, metadata: tuple[tuple[str, str | bytes], ...] = ()) -> None:
        super().__init__()
        self.status, self.metadata = status, metadata

    def code(self) -> grpc.StatusCode:
        return self.status

    def details(self) -> str:
        return "connection reset"

    def trailing_metadata(self) -> Any:  # noqa: ANN401
        return self.metadata


def test_a_status_that_the_transport_made_means_that_the_gateway_is_not_reached() -> None:
    of_transport = [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,
    ]
    for status in of_transport:
        error = errors.from_grpc(Ended(status))
        assert isinstance(error, espalier.UnavailableError)
        assert error.message == "the gateway is not reached: connection reset"
    # One of ours is what it says.
    told = errors.from_grpc(Ended(grpc.StatusCode.INTERNAL, (("espalier-party", "verifier"),)))
    assert isinstance(told, espalier.InternalError)
    assert str(told) == "verifier: connection reset"
    assert isinstance(errors.from_grpc(Ended(grpc.StatusCode.UNIMPLEMENTED)), espalier.InternalError)


@pytest.mark.parametrize(("value", "seconds"), [("250", 0.25), ("soon", None), ("-1", None)])
def test_when_to_come_again_is_read(value: str, seconds: float | None) -> None:
    metadata = (("espalier-party", "gateway"), ("retry-after-ms", value))
    error = errors.from_grpc(Ended(grpc.StatusCode.RESOURCE_EXHAUSTED, metadata))
    assert isinstance(error, espalier.OverloadedError)
    assert error.retry_after == seconds
