"""Logprobs as arrays: those of the target's own distribution, whatever was drafted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from espalier._heard import Heard
from espalier._retries import Budget, Limit, Tries
from espalier.request import build_request
from espalier.v1 import common_pb2
from espalier.v1 import generation_pb2 as pb
from questions import TEXT

if TYPE_CHECKING:
    from espalier import Client


def test_logprobs_are_arrays_and_those_of_plain_decoding(client: Client) -> None:
    drafted, plain = (
        client.generate("medium", TEXT, max_tokens=24, temperature=0.9, seed=4, logprobs=5, speculation=speculation)
        for speculation in (True, False)
    )
    assert drafted.text == plain.text
    assert (str(drafted.logprobs.dtype), drafted.logprobs.shape) == ("float64", (24,))
    assert (drafted.top_logprobs.ids.shape, drafted.top_logprobs.values.shape) == ((24, 5), (24, 5))
    np.testing.assert_array_equal(drafted.logprobs, plain.logprobs)
    np.testing.assert_array_equal(drafted.top_logprobs.ids, plain.top_logprobs.ids)
    np.testing.assert_array_equal(drafted.top_logprobs.values, plain.top_logprobs.values)


def test_logprobs_are_logarithms_of_probabilities(client: Client) -> None:
    answer = client.generate("medium", TEXT, max_tokens=24, logprobs=20)
    ids, values = answer.top_logprobs
    assert (np.diff(values, axis=1) <= 0).all()
    sums = np.exp(values).sum(axis=1)
    # 20 tokens of 4096 have a part of it, the most probable ones most of it, and none have more than all.
    assert (sums <= 1 + 1e-6).all()
    assert sums.mean() > 0.5
    # Greedy decoding takes the most probable.
    assert ids[:, 0].tolist() == answer.token_ids
    np.testing.assert_array_equal(values[:, 0], answer.logprobs)
    assert answer.logprobs.sum() == pytest.approx(sum(token.logprob or 0.0 for token in answer.tokens))


def test_logprobs_may_come_without_alternatives_and_not_at_all(client: Client) -> None:
    alone = client.generate("medium", TEXT, max_tokens=4, logprobs=0)
    assert (alone.logprobs.shape, alone.top_logprobs.ids.shape) == ((4,), (4, 0))
    without = client.generate("medium", TEXT, max_tokens=4)
    assert without.tokens[0].logprob is None
    for read in (lambda: without.logprobs, lambda: without.top_logprobs):
        with pytest.raises(ValueError, match="did not ask for logprobs"):
            read()


def test_where_there_are_fewer_alternatives_the_rows_are_filled_up() -> None:
    heard = Heard(build_request("toy", [1], {"logprobs": 3}), Tries(0, Budget(), Limit(None)), patience=0.0)
    heard.hear(pb.GenerateResponse(begun=pb.Begun(seed=1)))
    other = pb.Alternative(id=7, text="a", logprob=-0.5)
    token = pb.GeneratedToken(id=7, text="a", logprob=-0.5, alternatives=[other])
    heard.hear(pb.GenerateResponse(chunk=pb.Chunk(tokens=[token])))
    heard.hear(pb.GenerateResponse(finished=pb.Finished(reason=common_pb2.FINISH_REASON_LENGTH)))
    ids, values = heard.answer().top_logprobs
    assert ids.tolist() == [[7, -1, -1]]
    np.testing.assert_array_equal(values, [[-0.5, np.nan, np.nan]])
