"""Who was refused comes again: when, how often, and not more often than all calls together may."""

from __future__ import annotations

import grpc
import pytest

from espalier import InvalidArgumentError, OverloadedError, UnavailableError
from espalier._retries import Budget, Limit, Tries

LOST = UnavailableError(grpc.StatusCode.UNAVAILABLE, "test")


def full(retry_after: float | None) -> OverloadedError:
    return OverloadedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "test", retry_after=retry_after)


def tries(left: int, seconds: float | None = None, budget: Budget | None = None) -> Tries:
    return Tries(left, budget or Budget(), Limit(seconds, clock=lambda: 0.0), chance=lambda: 0.0)


def test_pauses_double_unless_the_gateway_tells_them() -> None:
    call = tries(5)
    errors = [LOST, LOST, full(0.7), LOST, full(None), LOST]
    assert [call.pause_after(error) for error in errors] == [0.1, 0.2, 0.7, 0.8, 1.6, None]


def test_only_what_may_pass_is_tried_again() -> None:
    assert tries(5).pause_after(InvalidArgumentError(grpc.StatusCode.INVALID_ARGUMENT, "test")) is None
    assert tries(5).pause_after(ValueError()) is None
    assert tries(0).pause_after(LOST) is None


def test_nobody_waits_for_long_or_in_vain() -> None:
    assert tries(5).pause_after(full(10.0)) == 10.0
    assert tries(5).pause_after(full(10.1)) is None
    assert tries(5, seconds=1.0).pause_after(full(0.9)) == 0.9
    assert tries(5, seconds=1.0).pause_after(full(1.0)) is None


def test_those_who_were_refused_together_do_not_come_back_together() -> None:
    pauses = {Tries(1, Budget(), Limit(None)).pause_after(full(1.0)) for _ in range(20)}
    assert len(pauses) > 1
    assert all(pause is not None and 1.0 <= pause <= 1.2 for pause in pauses)


def test_where_all_calls_fail_a_tenth_of_them_is_tried_again() -> None:
    budget = Budget()
    again = sum(tries(3, budget=budget).pause_after(LOST) is not None for _ in range(1000))
    assert again == pytest.approx(10 + 100, abs=2)
