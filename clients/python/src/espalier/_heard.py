"""An answer as far as it has come, and when the rest is asked for after its stream broke: all but the stream itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .answer import Answer
from .errors import BrokenStreamError, EspalierError, StatusError
from .events import Begun, Event, Finished, Token, Tokens, read_event

if TYPE_CHECKING:
    from ._retries import Tries
    from .v1.generation_pb2 import GenerateRequest, GenerateResponse

PAUSE_MIN = 0.02
"""Seconds before the rest is first asked for; they double each time."""

PAUSE_MAX = 1.0
"""The longest pause between two tries, in seconds."""


class Heard:
    """An answer, as far as it has come."""

    def __init__(self, request: GenerateRequest, tries: Tries, patience: float) -> None:
        self.request = request
        """What is asked for next: all that has not come."""
        self.limit = tries.limit
        """The time that the whole answer may take."""
        self.finished: Finished | None = None
        """How it ended, once it has."""
        self._tries = tries
        self._patience = patience
        self._begun: Begun | None = None
        self._tokens: list[Token] = []
        # Since when it has not come any further, and the tries since then.
        self._stuck: tuple[float, int] | None = None
        self._resumed = 0

    def hear(self, message: GenerateResponse) -> Event | None:
        """Take a message of a stream; nothing comes of one that whoever waits for the answer has had."""
        event = read_event(message)
        match event:
            case Begun():
                return self._begin(event)
            case Tokens():
                self.request.generated.extend(token.id for token in event.tokens)
                self._tokens.extend(event.tokens)
                self._stuck = None
            case Finished():
                self.finished = event
        return event

    def _begin(self, event: Begun) -> Begun | None:
        is_first, self._begun = self._begun is None, event
        # Without the seed nobody could go on with the answer.
        self.request.sampling.seed = event.seed
        return event if is_first else None

    def pause_after(self, error: EspalierError) -> float | None:
        """Tell how many seconds to wait before the rest is asked for; nothing if it must not be."""
        if self._begun is None:
            return self._tries.pause_after(error)
        may_pass = isinstance(error, BrokenStreamError) or (isinstance(error, StatusError) and error.may_pass)
        now = self.limit.clock()
        since, tries = self._stuck or (now, 0)
        told = error.retry_after if isinstance(error, StatusError) else None
        pause = min(PAUSE_MIN * 2 ** min(tries, 16) if told is None else told, PAUSE_MAX)
        if not may_pass or now - since >= self._patience or not self.limit.allows(pause):
            return None
        self._stuck = (since, tries + 1)
        self._resumed += 1
        return pause

    def answer(self) -> Answer:
        """Put the whole answer together."""
        if self.finished is None or self._begun is None:
            raise ValueError("the answer has not come to its end")
        end = self.finished
        return Answer(
            id=self._begun.id,
            text="".join(token.text for token in self._tokens) + end.text,
            tokens=tuple(self._tokens),
            reason=end.reason,
            stop_string=end.stop_string,
            seed=end.seed,
            prompt_tokens=end.prompt_tokens,
            statistics=end.statistics,
            elapsed=self.limit.elapsed(),
            resumed=self._resumed,
            alternatives=self.request.logprobs if self.request.HasField("logprobs") else None,
        )
