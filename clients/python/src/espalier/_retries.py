"""When a call that was refused is made again, and how often all calls of a client together."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE_MIN = 0.1
"""Seconds before the first further try where the gateway does not say how many; they double each time."""

PAUSE_MAX = 10.0
"""Whoever is told to come back after more seconds than these is not kept waiting, and gets the error."""

JITTER = 0.2
"""A pause is longer by up to this share, so that many who were refused together do not come back together."""

SAVED_MAX = 10.0
"""Further tries that a client has at hand."""

EARNED = 0.1
"""Further tries that each call brings: where most calls fail, tries add a tenth to the load, and not a multiple."""


class Budget:
    """The further tries that all calls of a client have together; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved = SAVED_MAX

    def earn(self) -> None:
        """Count a call."""
        with self._lock:
            self._saved = min(self._saved + EARNED, SAVED_MAX)

    def spend(self) -> bool:
        """Take a further try, if there is one."""
        with self._lock:
            if self._saved < 1:
                return False
            self._saved -= 1
            return True


class Limit:
    """The time that a call may take, tries and pauses included. It begins when it is first asked for."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._seconds = seconds
        self._started: float | None = None

    def elapsed(self) -> float:
        """Tell how many seconds have passed."""
        now = self.clock()
        if self._started is None:
            self._started = now
        return now - self._started

    def remaining(self) -> float | None:
        """Tell how many seconds are left; nothing if there is no limit."""
        elapsed = self.elapsed()
        return None if self._seconds is None else max(self._seconds - elapsed, 0.0)

    def allows(self, pause: float) -> bool:
        """Whether there is time left after a pause of so many seconds."""
        remaining = self.remaining()
        return remaining is None or pause < remaining


@dataclass
class Tries:
    """The tries of one call that was not let in yet."""

    left: int
    """Further tries that it may have."""
    budget: Budget
    limit: Limit
    chance: Callable[[], float] = random.random
    _made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.budget.earn()

    def pause_after(self, error: Exception) -> float | None:
        """Tell how many seconds to wait before a further try; nothing if there is to be none."""
        if self.left == 0 or not (isinstance(error, StatusError) and error.may_pass):
            return None
        told = PAUSE_MIN * 2**self._made if error.retry_after is None else error.retry_after
        pause = told * (1 + JITTER * self.chance())
        if told > PAUSE_MAX or not self.limit.allows(pause) or not self.budget.spend():
            return None
        self.left -= 1
        self._made += 1
        return pause
