"""What can be asked for: keyword arguments that mirror `GenerateRequest` and `Sampling` of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from .v1 import common_pb2, generation_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TOKENS_LIMIT = 2**32 - 1
"""The largest `max_tokens` that can be sent; with `cut_to_context` it is as many as fit."""

Acceptance: TypeAlias = Literal["coupled", "rejection"]
"""How drafted tokens are accepted: with noise that the drafter shares, or with probability min(1, p/q)."""


Constraint: TypeAlias = Mapping[Literal["json_schema", "regex", "grammar"], str]
"""What a text must be: one of these, of at most 64 KiB."""

Message: TypeAlias = Mapping[str, Any]
"""What one party said in a conversation: `content`, and its `role`, which is `system`, `user`, `assistant`, `tool`, or
whatever else the target's chat template knows; with `tool_calls` or a `tool_call_id` as `ChatMessage` has them."""

Prompt: TypeAlias = str | Sequence[int] | Sequence[Message]
"""Text as it is, ids of tokens as they are, or a conversation, which is put into the target's chat template."""


class Options(TypedDict, total=False):
    """How an answer is made. What is not given has the meaning that the gateway gives it.

    `docs/sampling.md` says what each parameter of sampling does exactly.
    """

    max_tokens: int
    """At most so many tokens, 1 or more; as many as fit the target's context if not given."""
    cut_to_context: bool
    """Where fewer than `max_tokens` fit the context, generate as many as do instead of refusing the request."""

    temperature: float
    """0 (the default) decodes greedily; above 0 the logits are divided by it."""
    top_k: int
    """Only so many most probable tokens may be chosen; 0 allows all."""
    top_p: float
    """Only the most probable tokens that together hold this share may be chosen; in (0, 1]."""
    min_p: float
    """Only tokens at least so many times as probable as the most probable one may be chosen; in [0, 1]."""
    seed: int
    """The same seed gives the same text; the gateway draws one if not given, and the answer tells it."""
    repetition_penalty: float
    """Divides positive logits, and multiplies others, of tokens that prompt or answer hold; in [0.01, 100]."""
    presence_penalty: float
    """Taken off the logits of tokens that the answer holds; in [-2, 2]."""
    frequency_penalty: float
    """Taken off the logits of tokens for each time that the answer holds them; in [-2, 2]."""
    logit_bias: Mapping[int, float]
    """Added to the logits of tokens, each in [-100, 100]; at most 1024."""
    acceptance: Acceptance
    """`coupled` (the default): the text depends on the seed and not on what was drafted."""

    stop_strings: Sequence[str]
    """Texts that end the answer, which is cut before the first of them; at most 16, each of 1 to 256 bytes."""
    stop_tokens: Sequence[int]
    """Further tokens that end the answer, besides the target's own; at most 16."""
    logprobs: int
    """Each token comes with its logprob and so many alternatives, 0 to 20; with none if not given."""
    constraint: Constraint
    """What the answer must be: `{"json_schema": ...}`, `{"regex": ...}` or `{"grammar": ...}`."""
    rounds: bool
    """`True`: each `Tokens` comes with the round that they are from."""
    generated: Sequence[int]
    """The first tokens of the answer, where they are known: it goes on behind them."""

    policy: str
    """How trees of drafted tokens are grown, as `name,key=value,...`."""
    drafter: str
    """The drafter that must be used, by name, or `ngram` or `none` to do without a draft model."""
    speculation: bool
    """`False` decodes with the target alone."""

    timeout: float
    """Seconds that the whole answer may take, tries and pauses included; that of the client if not given."""
    session: str
    """Requests of one session go to the same replica while it has room; 1 to 128 visible ASCII characters."""


_OF_CALL = frozenset({"timeout", "session"})
"""Options that travel beside the request."""

_ACCEPTANCES = {
    "coupled": common_pb2.ACCEPTANCE_COUPLED,
    "rejection": common_pb2.ACCEPTANCE_REJECTION,
}

_SAMPLING = frozenset(common_pb2.Sampling.DESCRIPTOR.fields_by_name)


def build_request(target: str, prompt: Prompt, options: Options) -> generation_pb2.GenerateRequest:
    """Write a request as it is sent; `ValueError` or `TypeError` name what cannot be."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option `{min(unknown)}`")
    wire = generation_pb2.GenerateRequest(target=target)
    _write("prompt", lambda: _write_prompt(wire, prompt))
    if "max_tokens" not in options:
        options = {"max_tokens": MAX_TOKENS_LIMIT, "cut_to_context": True, **options}
    for name, value in options.items():
        if name not in _OF_CALL:
            _write(name, lambda name=name, value=value: _write_option(wire, name, value))  # type: ignore[misc]
    return wire


def _write(name: str, write: Callable[[], None]) -> None:
    """Name the option that cannot be sent, which the message of protobuf does not."""
    try:
        write()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be sent: {error}") from error


def _write_prompt(wire: generation_pb2.GenerateRequest, prompt: Prompt) -> None:
    if isinstance(prompt, str):
        wire.text = prompt
        return
    said: list[generation_pb2.ChatMessage] = []
    ids: list[int] = []
    for part in prompt:
        if isinstance(part, Mapping):
            said.append(_read_message(part))
        else:
            ids.append(part)
    if said and ids:
        raise TypeError("it mixes messages and tokens")
    if said:
        wire.conversation.messages.extend(said)
    else:
        wire.token_ids.ids.extend(ids)
        # No tokens are a prompt, too, of which the gateway has something to say.
        wire.token_ids.SetInParent()


def _read_message(part: Message) -> generation_pb2.ChatMessage:
    missing = {"role", "content"} - part.keys()
    if missing:
        raise ValueError(f"a message has no `{min(missing)}`")
    # Of what the protocol does not have, protobuf says so.
    return generation_pb2.ChatMessage(**part)


def _write_option(wire: generation_pb2.GenerateRequest, name: str, value: Any) -> None:  # noqa: ANN401
    if name == "speculation":
        wire.no_speculation = not value
    elif name == "acceptance":
        if value not in _ACCEPTANCES:
            raise ValueError(f"`{value}` is none of {', '.join(_ACCEPTANCES)}")
        wire.sampling.acceptance = _ACCEPTANCES[value]
    elif name == "constraint":
        wire.constraint.CopyFrom(common_pb2.Constraint(**value))
    elif name == "logit_bias":
        wire.sampling.logit_bias.update(value)
    elif name == "stop_strings" and isinstance(value, str):
        raise TypeError("it is a list of texts, not one text")
    elif name in _SAMPLING:
        setattr(wire.sampling, name, value)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        getattr(wire, name).extend(value)
    else:
        setattr(wire, name, value)
