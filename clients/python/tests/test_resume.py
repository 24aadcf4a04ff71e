"""An answer whose stream broke is gone on with, at whatever gateway then answers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import espalier
from conftest import free_port, gateway
from espalier import AsyncClient, Begun, BrokenStreamError, Client, EspalierError, Tokens, UnavailableError
from espalier._heard import Heard
from espalier._retries import Budget, Limit, Tries
from espalier.request import build_request
from espalier.v1 import generation_pb2 as pb
from questions import TEXT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import System

PATIENCE = 3.0
LONG: dict[str, Any] = {"max_tokens": 600, "temperature": 0.8, "seed": 5, "logit_bias": {2: -100.0}, "logprobs": 1}


class Clock:
    """A time that stands still unless told otherwise."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def heard(clock: Clock, timeout: float | None = None) -> Heard:
    request = build_request("toy", [1], {"max_tokens": 9, "temperature": 0.8})
    return Heard(request, Tries(0, Budget(), Limit(timeout, clock)), PATIENCE)


def begun(seed: int) -> pb.GenerateResponse:
    return pb.GenerateResponse(begun=pb.Begun(id="a", seed=seed, prompt_tokens=1))


def tokens(*ids: int) -> pb.GenerateResponse:
    return pb.GenerateResponse(chunk=pb.Chunk(tokens=[pb.GeneratedToken(id=id_) for id_ in ids]))


def test_the_rest_is_asked_for_with_the_seed_and_the_tokens_that_came() -> None:
    answer = heard(Clock())
    assert isinstance(answer.hear(begun(77)), Begun)
    answer.hear(tokens(5, 6))
    answer.hear(tokens(7))
    request = answer.request
    assert (request.sampling.seed, list(request.generated), request.max_tokens) == (77, [5, 6, 7], 9)
    # Whoever waits for the answer knows that it has begun.
    assert answer.hear(begun(77)) is None


def test_who_comes_no_further_loses_patience_and_who_does_has_all_of_it_again() -> None:
    clock = Clock()
    answer = heard(clock)
    answer.hear(begun(0))

    def pauses() -> Iterator[int]:
        while (pause := answer.pause_after(BrokenStreamError())) is not None:
            clock.now += pause
            yield round(pause * 1000)

    expected = [20, 40, 80, 160, 320, 640, 1000, 1000]
    assert list(pauses()) == expected
    answer.hear(tokens(5))
    assert list(pauses()) == expected


def test_only_what_may_pass_is_tried_again_and_only_by_who_was_let_in() -> None:
    status = grpc.StatusCode
    lost: list[EspalierError] = [
        espalier.OverloadedError(status.RESOURCE_EXHAUSTED, "test"),
        UnavailableError(status.UNAVAILABLE, "test"),
        BrokenStreamError(),
    ]
    answer = heard(Clock())
    assert all(answer.pause_after(error) is None for error in lost)
    answer.hear(begun(0))
    assert all(answer.pause_after(error) is not None for error in lost)
    for error in (
        espalier.InvalidArgumentError(status.INVALID_ARGUMENT, "test"),
        espalier.DeadlineExceededError(status.DEADLINE_EXCEEDED, "test"),
        espalier.InternalError(status.INTERNAL, "test"),
    ):
        assert answer.pause_after(error) is None


def test_no_pause_is_longer_than_a_second_or_than_the_time_that_is_left() -> None:
    full = espalier.OverloadedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "test", retry_after=60.0)
    patient, hurried = heard(Clock()), heard(Clock(), timeout=0.9)
    for answer in (patient, hurried):
        answer.hear(begun(0))
    assert (patient.pause_after(full), hurried.pause_after(full)) == (1.0, None)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_an_answer_outlives_its_gateway(client: Client, system: System) -> None:
    unbroken = client.generate("medium", TEXT, **LONG)
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", patience=30.0) as patient:
        with gateway(system, port) as first:
            stream = patient.stream("medium", TEXT, **LONG)
            while not isinstance(next(stream), Tokens):
                pass
            kill(first)
        with gateway(system, port):
            events = list(stream)
    answer = stream.answer
    assert not any(isinstance(event, Begun) for event in events)
    assert answer.resumed >= 1
    assert (answer.text, answer.reason) == (unbroken.text, unbroken.reason)
    assert answer.logprobs.tolist() == unbroken.logprobs.tolist()


def test_an_awaited_answer_outlives_its_gateway(client: Client, system: System) -> None:
    unbroken = client.generate("medium", TEXT, **LONG)
    port = free_port()

    async def ask() -> espalier.Answer:
        async with AsyncClient(f"http://127.0.0.1:{port}", patience=30.0) as patient:
            with gateway(system, port) as first:
                stream = patient.stream("medium", TEXT, **LONG)
                while not isinstance(await anext(stream), Tokens):
                    pass
                kill(first)
            with gateway(system, port):
                async for _ in stream:
                    pass
            return stream.answer

    answer = asyncio.run(ask())
    assert answer.resumed >= 1
    assert answer.text == unbroken.text


def test_who_has_no_patience_is_told_at_once(system: System) -> None:
    port = free_port()
    with gateway(system, port) as process, Client(f"http://127.0.0.1:{port}") as hasty:
        stream = hasty.stream("medium", TEXT, **LONG)
        next(stream)
        kill(process)
        with pytest.raises(UnavailableError, match="the gateway is not reached"):
            list(stream)
        assert list(stream) == [], "it has come to its end"


def test_a_gateway_that_is_stopped_is_noticed_soon(system: System) -> None:
    port = free_port()
    with gateway(system, port) as process, Client(f"http://127.0.0.1:{port}") as hasty:
        stream = hasty.stream("medium", TEXT, **LONG)
        next(stream)
        os.kill(process.pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(UnavailableError):
            list(stream)
        # Half a second where nothing else wants the processor.
        assert time.monotonic() - started < 5


def test_one_that_is_closed_while_it_pauses_ends(system: System) -> None:
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", patience=60.0) as patient:
        with gateway(system, port) as process:
            stream = patient.stream("medium", TEXT, **LONG)
            next(stream)
            kill(process)
        closing = threading.Timer(0.5, stream.close)
        closing.start()
        started = time.monotonic()
        list(stream)
        closing.join()
        assert time.monotonic() - started < 5
