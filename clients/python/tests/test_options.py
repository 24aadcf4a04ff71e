"""Each option does what it says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from espalier import InvalidArgumentError, Options, Tokens
from espalier.v1 import common_pb2, generation_pb2
from questions import QUESTION, TEXT

if TYPE_CHECKING:
    from espalier import Client


@pytest.fixture(scope="module")
def greedy(client: Client) -> list[int]:
    return client.generate("medium", TEXT, max_tokens=24).token_ids


def ids(client: Client, **options: Any) -> list[int]:  # noqa: ANN401
    return client.generate("medium", TEXT, **{"max_tokens": 24, **options}).token_ids


def test_options_are_those_of_the_protocol() -> None:
    request = set(generation_pb2.GenerateRequest.DESCRIPTOR.fields_by_name)
    sampling = set(common_pb2.Sampling.DESCRIPTOR.fields_by_name)
    arguments = {"target", "text", "conversation", "token_ids", "sampling"}
    fields = (request | sampling) - arguments - {"no_speculation"} | {"speculation", "timeout", "session"}
    assert set(Options.__annotations__) == fields


def test_a_prompt_is_text_or_tokens_or_a_conversation(client: Client, greedy: list[int]) -> None:
    assert len(greedy) == 24
    by_tokens = client.generate("medium", greedy, max_tokens=4)
    assert (by_tokens.prompt_tokens, len(by_tokens.tokens)) == (24, 4)
    talk = client.generate("medium", QUESTION, max_tokens=8)
    assert talk.prompt_tokens > client.generate("medium", QUESTION[0]["content"], max_tokens=8).prompt_tokens


def test_without_max_tokens_the_answer_may_fill_the_context(client: Client) -> None:
    context = next(target.context for target in client.targets() if target.name == "small")
    answer = client.generate("small", TEXT, temperature=0.0, logit_bias={2: -100.0})
    assert (answer.reason, answer.prompt_tokens + len(answer.tokens)) == ("length", context)


def test_what_is_too_long_is_refused_or_cut(client: Client) -> None:
    with pytest.raises(InvalidArgumentError, match="max_tokens is 100000, but after a prompt of"):
        client.generate("small", TEXT, max_tokens=100_000)
    cut = client.generate("small", TEXT, max_tokens=100_000, cut_to_context=True, stop_strings=[" "])
    assert cut.stop_string == " "


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}])
def test_whoever_may_choose_one_token_only_decodes_greedily(
    client: Client, greedy: list[int], options: dict[str, Any]
) -> None:
    assert ids(client, temperature=1.5, seed=3, **options) == greedy


def test_temperature_and_seed(client: Client, greedy: list[int]) -> None:
    drawn = [ids(client, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[2] != drawn[0] != greedy
    unseeded = client.generate("medium", TEXT, max_tokens=24, temperature=1.0)
    assert ids(client, temperature=1.0, seed=unseeded.seed) == unseeded.token_ids


@pytest.mark.parametrize("penalty", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_penalties_keep_tokens_from_coming_again(client: Client, penalty: str) -> None:
    plain, punished = (
        client.generate("small", TEXT, max_tokens=64, logit_bias={2: -100.0}, **options).token_ids  # type: ignore[arg-type]
        for options in ({}, {penalty: 2.0})
    )
    assert len(set(punished)) > len(set(plain))


def test_bias_forbids_a_token(client: Client, greedy: list[int]) -> None:
    assert greedy[0] not in ids(client, logit_bias={greedy[0]: -100.0})


def test_acceptance(client: Client, greedy: list[int]) -> None:
    assert ids(client, acceptance="rejection") == ids(client, acceptance="coupled") == greedy
    drawn = ids(client, temperature=0.8, acceptance="rejection", logit_bias={2: -100.0})
    assert len(drawn) == 24
    with pytest.raises(InvalidArgumentError, match="eagle2"):
        ids(client, temperature=0.8, acceptance="rejection", policy="eagle2")
    with pytest.raises(ValueError, match="acceptance cannot be sent: `maybe` is none of coupled, rejection"):
        ids(client, acceptance="maybe")


def test_stop_strings_cut_the_text(client: Client) -> None:
    whole = client.generate("medium", TEXT, max_tokens=24).text
    stop = whole[5:9]
    cut = client.generate("medium", TEXT, max_tokens=24, stop_strings=["never in it", stop])
    assert (cut.text, cut.stop_string, cut.reason) == (whole[: whole.index(stop)], stop, "stop")
    with pytest.raises(TypeError, match="stop_strings cannot be sent: it is a list of texts, not one text"):
        ids(client, stop_strings=stop)


def test_stop_tokens_are_the_last(client: Client, greedy: list[int]) -> None:
    stop = greedy[7]
    stopped = client.generate("medium", TEXT, max_tokens=24, stop_tokens=[stop])
    assert (stopped.token_ids, stopped.reason) == (greedy[: greedy.index(stop) + 1], "stop")


def test_an_answer_goes_on_behind_what_is_known_of_it(client: Client, greedy: list[int]) -> None:
    assert ids(client, generated=greedy[:10]) == greedy[10:]


@pytest.mark.parametrize(
    ("options", "drafter"),
    [({"speculation": False}, "none"), ({"drafter": "none"}, "none"), ({"drafter": "ngram"}, "ngram")],
)
def test_who_drafts_changes_no_text(client: Client, options: dict[str, Any], drafter: str) -> None:
    usual = client.generate("medium", TEXT, max_tokens=24, temperature=0.7, seed=5)
    other = client.generate("medium", TEXT, max_tokens=24, temperature=0.7, seed=5, **options)
    assert other.text == usual.text
    assert other.statistics.drafter == drafter
    if drafter == "none":
        assert (other.statistics.drafted, other.statistics.tau) == (0, 1.0)


def test_a_policy_is_used_and_told(client: Client, greedy: list[int]) -> None:
    answer = client.generate("medium", TEXT, max_tokens=24, policy="constant,k=3,gate=off", drafter="sorted")
    assert answer.token_ids == greedy
    statistics = answer.statistics
    assert (statistics.policy.split(",")[0], statistics.drafter) == ("constant", "sorted")
    assert sum(token.drafted for token in answer.tokens) == statistics.accepted > 0
    assert statistics.tau is not None
    assert math.isclose(statistics.tau, 24 / statistics.rounds)


def test_a_session_is_a_name(client: Client, greedy: list[int]) -> None:
    assert ids(client, session="chat-7") == greedy
    with pytest.raises(InvalidArgumentError, match="is not 1 to 128 visible ASCII characters"):
        ids(client, session="x" * 129)
    with pytest.raises(ValueError, match="`ä` cannot be the name of a session"):
        ids(client, session="ä")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_tokens": -1}, ValueError, "max_tokens cannot be sent: "),
        ({"temperature": "hot"}, TypeError, "temperature cannot be sent: "),
        ({"max_token": 3}, TypeError, "there is no option `max_token`"),
    ],
)
def test_what_cannot_be_sent_is_named(
    client: Client, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ids(client, **options)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([1, QUESTION[0]], "prompt cannot be sent: it mixes messages and tokens"),
        ([{"role": "user"}], "prompt cannot be sent: a message has no `content`"),
        ([{**QUESTION[0], "mood": "merry"}], 'prompt cannot be sent: .*"mood"'),
    ],
)
def test_a_prompt_that_is_none_is_not_sent(client: Client, prompt: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises((TypeError, ValueError), match=words):
        client.generate("medium", prompt)


def test_rounds_say_what_was_drafted(client: Client, greedy: list[int]) -> None:
    with client.stream("medium", TEXT, max_tokens=24, rounds=True, policy="pct,gate=off") as stream:
        rounds = [(event.tokens, event.round) for event in stream if isinstance(event, Tokens)]
    assert [token.id for tokens, _ in rounds for token in tokens] == greedy
    assert any(found is not None and found.nodes for _, found in rounds)
    for tokens, found in rounds:
        assert found is not None
        accepted = [node.id for node in found.nodes if node.fate == "accepted"]
        assert accepted == [token.id for token in tokens if token.drafted]


def test_a_constraint_holds(client: Client) -> None:
    answer = client.generate("medium", TEXT, max_tokens=64, constraint={"regex": "(yes|no)"})
    assert answer.text in ("yes", "no")
    assert answer.reason == "stop"
