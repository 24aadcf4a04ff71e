"""A client for programs that wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import grpc

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


class Call(Protocol):
    """A stream of gRPC."""

    def __next__(self) -> GenerateResponse: ...

    def cancel(self) -> bool:
        """Give it up."""


class Stream(Iterator[Event]):
    """What comes of an answer while it is made; it is asked for when the first event is.

    Leaving it (`close`, or the end of a `with` block) cancels the request, which frees all that it holds.
    """

    def __init__(self, heard: Heard, open_call: Callable[[GenerateRequest, float | None], Call]) -> None:
        self._heard = heard
        self._open_call = open_call
        self._call: Call | None = None
        self._closed = threading.Event()

    def __next__(self) -> Event:
        while self._heard.finished is None and not self._closed.is_set():
            try:
                event = self._heard.hear(self._read())
            except EspalierError as error:
                self._drop()
                self._wait_after(error)
            else:
                if event is not None:
                    return event
        self._drop()
        raise StopIteration

    def _read(self) -> GenerateResponse:
        call = self._call
        if call is None:
            call = self._call = self._open_call(self._heard.request, self._heard.limit.remaining())
            if self._closed.is_set():
                # Whoever closed it may not have seen this call.
                call.cancel()
        try:
            return next(call)
        except StopIteration:
            raise BrokenStreamError from None
        except grpc.RpcError as error:
            raise from_grpc(error) from error

    def _wait_after(self, error: EspalierError) -> None:
        if self._closed.is_set():
            return
        pause = self._heard.pause_after(error)
        if pause is None:
            self._closed.set()
            raise error
        self._closed.wait(pause)

    def _drop(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def texts(self) -> Iterator[str]:
        """Go through the pieces of text, as they become complete."""
        for event in self:
            if isinstance(event, Tokens | Finished) and event.text:
                yield event.text

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has come to its end."""
        return self._heard.answer()

    def close(self) -> None:
        """Give the answer up; for a thread that goes through it, it ends here."""
        self._closed.set()
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Client(Gateway):
    """A connection to a gateway; may be used by several threads. `AsyncClient` is the same for asyncio."""

    def _prepare(self) -> None:
        if self._credentials is None:
            self._channel = grpc.insecure_channel(self._address, self._channel_options)
        else:
            self._channel = grpc.secure_channel(self._address, self._credentials, self._channel_options)

    def stream(self, target: str, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """Ask, and go through what comes: `Begun`, `Tokens` for each round of speculation, `Finished`.

        Args:
            target: the model that answers, by its name in `targets()`.
            prompt: text as it is, ids of tokens as they are, or a conversation of messages like
                `{"role": "user", "content": "Ann has 3 dogs."}`.
            options: how the answer is made; `Options` explains each.

        """
        metadata = self._metadata_of(options)
        call = self._channel.unary_stream(GENERATE.path, GENERATE.write, GENERATE.read)
        heard = self._heard(target, prompt, options)
        return Stream(heard, lambda request, timeout: call(request, timeout=timeout, metadata=metadata))

    def generate(self, target: str, prompt: Prompt, **options: Unpack[Options]) -> Answer:
        """Ask as `stream` does, and wait for the whole answer."""
        with self.stream(target, prompt, **options) as stream:
            for _ in stream:
                pass
            return stream.answer

    def targets(self) -> list[Target]:
        """Tell which models answer at present."""
        return read_targets(self._ask(LIST_TARGETS, ListTargetsRequest(), self._timeout))

    def status(self) -> SystemStatusResponse:
        """Tell what the gateway and all services behind it are doing and have done.

        What is told is a message of the protocol: `proto/espalier/v1/status.proto` explains its fields. It may take 5
        seconds. Where the gateway asks for keys, the key needs the right to ask this.
        """
        return self._ask(STATUS, SystemStatusRequest(), STATUS_MAX)

    def _ask(self, method: Method[Asked, Told], request: Asked, seconds: float | None) -> Told:
        call = self._channel.unary_unary(method.path, method.write, method.read)
        tries = self._tries(seconds)
        while True:
            try:
                return call(request, timeout=tries.limit.remaining(), metadata=self._metadata)
            except grpc.RpcError as cause:
                error = from_grpc(cause)
                pause = tries.pause_after(error)
                if pause is None:
                    raise error from cause
            time.sleep(pause)

    def close(self) -> None:
        """End the connection, and with it all that was asked."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
