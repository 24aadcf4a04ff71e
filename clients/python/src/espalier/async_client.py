"""A client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

import grpc.aio

from ._gateway import GENERATE, LIST_TARGETS, STATUS, STATUS_MAX, Asked, Gateway, Method, Target, Told, read_targets
from .errors import BrokenStreamError, EspalierError, from_grpc
from .events import Event, Finished, Tokens
from .v1.generation_pb2 import GenerateRequest, GenerateResponse, ListTargetsRequest
from .v1.status_pb2 import SystemStatusRequest, SystemStatusResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ._heard import Heard
    from .answer import Answer
    from .request import Options, Prompt

    Call: TypeAlias = grpc.aio.UnaryStreamCall[GenerateRequest, GenerateResponse]


class AsyncStream(AsyncIterator[Event]):
    """What comes of an answer while it is made; it is asked for when the first event is.

    Leaving it (`aclose`, or the end of an `async with` block) cancels the request, which frees all that it holds.
    """

    def __init__(self, heard: Heard, open_call: Callable[[GenerateRequest, float | None], Call]) -> None:
        self._heard = heard
        self._open_call = open_call
        self._call: Call | None = None
        self._closed = False

    async def __anext__(self) -> Event:
        while self._heard.finished is None and not self._closed:
            try:
                event = self._heard.hear(await self._read())
            except EspalierError as error:
                self._drop()
                await self._wait_after(error)
            else:
                if event is not None:
                    return event
        self._drop()
        raise StopAsyncIteration

    async def _read(self) -> GenerateResponse:
        call = self._call
        if call is None:
            call = self._call = self._open_call(self._heard.request, self._heard.limit.remaining())
        try:
            message = await call.read()
        except grpc.RpcError as error:
            raise from_grpc(error) from error
        if isinstance(message, GenerateResponse):
            return message
        raise BrokenStreamError

    async def _wait_after(self, error: EspalierError) -> None:
        pause = self._heard.pause_after(error)
        if pause is None:
            self._closed = True
            raise error
        await asyncio.sleep(pause)

    def _drop(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    async def texts(self) -> AsyncIterator[str]:
        """Go through the pieces of text, as they become complete."""
        async for event in self:
            if isinstance(event, Tokens | Finished) and event.text:
                yield event.text

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has come to its end."""
        return self._heard.answer()

    async def aclose(self) -> None:
        """Give the answer up."""
        self._closed = True
        self._drop()

    def __del__(self) -> None:
        # gRPC goes on with a call that nobody holds. Where the event loop is closed, there is none any more.
        with contextlib.suppress(RuntimeError):
            self._drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncClient(Gateway):
    """A connection to a gateway, within one event loop. `Client` is the same for programs that wait."""

    _opened: grpc.aio.Channel | None = None

    @property
    def _channel(self) -> grpc.aio.Channel:
        # It belongs to the event loop that runs when it is made, so it is made when it is used.
        if self._opened is None:
            if self._credentials is None:
                self._opened = grpc.aio.insecure_channel(self._address, self._channel_options)
            else:
                self._opened = grpc.aio.secure_channel(self._address, self._credentials, self._channel_options)
        return self._opened

    def stream(self, target: str, prompt: Prompt, **options: Unpack[Options]) -> AsyncStream:
        """Ask, and go through what comes: `Begun`, `Tokens` for each round of speculation, `Finished`.

        Args:
            target: the model that answers, by its name in `targets()`.
            prompt: text as it is, ids of tokens as they are, or a conversation of messages like
                `{"role": "user", "content": "Ann has 3 dogs."}`.
            options: how the answer is made; `Options` explains each.

        """
        metadata = self._metadata_of(options)
        heard = self._heard(target, prompt, options)

        def open_call(request: GenerateRequest, timeout: float | None) -> Call:
            call = self._channel.unary_stream(GENERATE.path, GENERATE.write, GENERATE.read)
            return call(request, timeout=timeout, metadata=metadata)

        return AsyncStream(heard, open_call)

    async def generate(self, target: str, prompt: Prompt, **options: Unpack[Options]) -> Answer:
        """Ask as `stream` does, and wait for the whole answer."""
        async with self.stream(target, prompt, **options) as stream:
            async for _ in stream:
                pass
            return stream.answer

    async def targets(self) -> list[Target]:
        """Tell which models answer at present."""
        return read_targets(await self._ask(LIST_TARGETS, ListTargetsRequest(), self._timeout))

    async def status(self) -> SystemStatusResponse:
        """Tell what the gateway and all services behind it are doing and have done.

        What is told is a message of the protocol: `proto/espalier/v1/status.proto` explains its fields. It may take 5
        seconds. Where the gateway asks for keys, the key needs the right to ask this.
        """
        return await self._ask(STATUS, SystemStatusRequest(), STATUS_MAX)

    async def _ask(self, method: Method[Asked, Told], request: Asked, seconds: float | None) -> Told:
        call = self._channel.unary_unary(method.path, method.write, method.read)
        tries = self._tries(seconds)
        while True:
            try:
                return await call(request, timeout=tries.limit.remaining(), metadata=self._metadata)
            except grpc.RpcError as cause:
                error = from_grpc(cause)
                pause = tries.pause_after(error)
                if pause is None:
                    raise error from cause
            await asyncio.sleep(pause)

    async def aclose(self) -> None:
        """End the connection, and with it all that was asked."""
        if self._opened is not None:
            await self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
