"""A whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .events import FinishReason, Statistics, Token


class TopLogprobs(NamedTuple):
    """The most probable tokens in each token's place: a row for each token, most probable first."""

    ids: NDArray[np.int64]
    """Their ids; -1 where there are fewer than were asked for."""
    values: NDArray[np.float64]
    """Natural logarithms of their probabilities; NaN where there are fewer than were asked for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, and how it came about."""

    id: str
    """Names the request in the logs of all services; of an answer that was resumed, the last request."""
    text: str
    tokens: tuple[Token, ...]
    reason: FinishReason
    stop_string: str | None
    """The stop string that ended the text, if one did."""
    seed: int
    """The seed that was used: repeat the request with it to get the same text."""
    prompt_tokens: int
    """Tokens of the prompt, template included."""
    statistics: Statistics
    """How speculation went; of an answer that was resumed, since the last time."""
    elapsed: float
    """Seconds from the request to the end of the answer."""
    resumed: int
    """How often its stream broke and was gone on with."""
    alternatives: int | None
    """Alternatives that each token was to come with (`logprobs`); `None` if no logprobs were asked for."""

    @property
    def token_ids(self) -> list[int]:
        """The ids of its tokens."""
        return [token.id for token in self.tokens]

    @property
    def logprobs(self) -> NDArray[np.float64]:
        """The logprob of each token. Needs numpy, and that the request asked for `logprobs`."""
        import numpy as np

        self._asked()
        return np.array([token.logprob for token in self.tokens], dtype=np.float64)

    @property
    def top_logprobs(self) -> TopLogprobs:
        """The most probable tokens in each token's place. Needs numpy, and that the request asked for `logprobs`."""
        import numpy as np

        shape = (len(self.tokens), self._asked())
        ids, values = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
        for row, token in enumerate(self.tokens):
            for column, other in enumerate(token.alternatives):
                ids[row, column], values[row, column] = other.id, other.logprob
        return TopLogprobs(ids, values)

    def _asked(self) -> int:
        if self.alternatives is None:
            raise ValueError("the request did not ask for logprobs: `logprobs=0`, or a number of alternatives, does")
        return self.alternatives
