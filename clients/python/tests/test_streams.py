"""An answer is the same whole and streamed, waited for and awaited; leaving it frees what it holds."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from espalier import AsyncClient, Begun, Client, Finished, Tokens
from questions import QUESTION, TEXT

if TYPE_CHECKING:
    from conftest import System
    from espalier import Answer
    from espalier.v1.status_pb2 import SystemStatusResponse

DRAWN: dict[str, Any] = {"max_tokens": 32, "temperature": 0.8, "seed": 11, "logprobs": 2}
ENDLESS: dict[str, Any] = {"logit_bias": {2: -100.0}, "speculation": False}
"""Runs to the end of the context: 2000 tokens, seconds."""

FREED_MAX = 5.0
"""Seconds within which all that a request held is to be free."""


def what_is_said(answer: Answer) -> tuple[Any, ...]:
    return (answer.text, answer.tokens and answer.token_ids, answer.reason, answer.seed, answer.logprobs.tolist())


def test_a_stream_begins_goes_on_and_ends(client: Client) -> None:
    events = list(client.stream("medium", QUESTION, **DRAWN))
    begun, *middle, finished = events
    assert isinstance(begun, Begun)
    assert isinstance(finished, Finished)
    assert (begun.seed, begun.prompt_tokens) == (11, finished.prompt_tokens)
    assert all(isinstance(event, Tokens) and event.tokens for event in middle)
    assert sum(len(event.tokens) for event in middle if isinstance(event, Tokens)) == finished.completion_tokens == 32


def test_pieces_of_text_are_the_whole_text(client: Client) -> None:
    stream = client.stream("medium", QUESTION, **DRAWN)
    with pytest.raises(ValueError, match="has not come to its end"):
        _ = stream.answer
    pieces = list(stream.texts())
    assert len(pieces) > 1
    assert "".join(pieces) == stream.answer.text == client.generate("medium", QUESTION, **DRAWN).text
    assert list(stream) == []


def test_who_awaits_gets_what_who_waits_gets(client: Client, system: System) -> None:
    async def ask() -> tuple[Answer, Answer, str, int, list[str]]:
        async with AsyncClient(system.gateway, timeout=60) as gateway:
            whole = await gateway.generate("medium", QUESTION, **DRAWN)
            async with gateway.stream("medium", QUESTION, **DRAWN) as stream:
                kinds = [type(event).__name__ async for event in stream]
            texts = [piece async for piece in gateway.stream("medium", QUESTION, **DRAWN).texts()]
            targets, status = await gateway.targets(), await gateway.status()
            assert (kinds[0], kinds[-1]) == ("Begun", "Finished")
            names = [target.name for target in targets]
            return whole, stream.answer, "".join(texts), status.gateway.requests.max, names

    whole, streamed, text, slots, names = asyncio.run(ask())
    waited = client.generate("medium", QUESTION, **DRAWN)
    assert what_is_said(whole) == what_is_said(streamed) == what_is_said(waited)
    assert text == waited.text
    assert slots == client.status().gateway.requests.max > 0
    assert names == [target.name for target in client.targets()] == ["medium", "small"]


def test_many_ask_at_once(client: Client, system: System) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(system.gateway) as gateway:
            asked = (gateway.generate("small", TEXT, max_tokens=16) for _ in range(16))
            return [answer.text for answer in await asyncio.gather(*asked)]

    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(client.generate("small", TEXT, max_tokens=16).text))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    awaited = asyncio.run(ask())
    for thread in threads:
        thread.join()
    assert len(texts) == 8
    assert len({*texts, *awaited}) == 1


def held(status: SystemStatusResponse) -> list[int]:
    """Slots that are taken, of the gateway and of all services."""
    services = [verifier.status.sequences.open for verifier in status.verifiers]
    services += [drafter.status.sequences.open for drafter in status.drafters]
    return [status.gateway.requests.open, *services]


def wait_until_nothing_is_held(client: Client) -> None:
    deadline = time.monotonic() + FREED_MAX
    while any(held(client.status())):
        assert time.monotonic() < deadline, held(client.status())
        time.sleep(0.02)


def abandoned(client: Client) -> int:
    return client.status().gateway.ended.abandoned


def test_who_leaves_a_stream_frees_what_it_holds(client: Client) -> None:
    wait_until_nothing_is_held(client)
    before = abandoned(client)
    with client.stream("medium", TEXT, **ENDLESS) as stream:
        assert isinstance(next(stream), Begun)
        assert isinstance(next(stream), Tokens)
        assert held(client.status())[0] == 1
    wait_until_nothing_is_held(client)
    assert abandoned(client) == before + 1
    assert list(stream) == []


def test_who_forgets_a_stream_frees_what_it_holds(client: Client) -> None:
    for event in client.stream("medium", TEXT, **ENDLESS):
        if isinstance(event, Tokens):
            break
    wait_until_nothing_is_held(client)


def test_who_forgets_an_awaited_stream_frees_what_it_holds(client: Client, system: System) -> None:
    async def forget() -> None:
        async with AsyncClient(system.gateway) as gateway:
            async for event in gateway.stream("medium", TEXT, **ENDLESS):
                if isinstance(event, Tokens):
                    break
            deadline = time.monotonic() + FREED_MAX
            while held(await gateway.status())[0]:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

    asyncio.run(forget())
    wait_until_nothing_is_held(client)


def test_another_thread_may_end_a_stream(client: Client) -> None:
    stream = client.stream("medium", TEXT, **ENDLESS)
    next(stream)
    closing = threading.Timer(0.2, stream.close)
    closing.start()
    for event in stream:
        assert isinstance(event, Tokens)
    closing.join()
    wait_until_nothing_is_held(client)


def test_a_task_that_is_cancelled_frees_what_it_holds(client: Client, system: System) -> None:
    async def give_up() -> None:
        async with AsyncClient(system.gateway) as gateway:
            await asyncio.wait_for(gateway.generate("medium", TEXT, **ENDLESS), 0.3)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(give_up())
    wait_until_nothing_is_held(client)
