from espalier.v1 import common_pb2 as _common_pb2
from espalier.v1 import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_FATE_UNSPECIFIED: _ClassVar[NodeFate]
    NODE_FATE_PRUNED: _ClassVar[NodeFate]
    NODE_FATE_REJECTED: _ClassVar[NodeFate]
    NODE_FATE_ACCEPTED: _ClassVar[NodeFate]
NODE_FATE_UNSPECIFIED: NodeFate
NODE_FATE_PRUNED: NodeFate
NODE_FATE_REJECTED: NodeFate
NODE_FATE_ACCEPTED: NodeFate

class GenerateRequest(_message.Message):
    __slots__ = ("target", "text", "conversation", "token_ids", "max_tokens", "sampling", "stop_tokens", "policy", "drafter", "no_speculation", "stop_strings", "logprobs", "generated", "cut_to_context", "rounds", "constraint")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    NO_SPECULATION_FIELD_NUMBER: _ClassVar[int]
    STOP_STRINGS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_FIELD_NUMBER: _ClassVar[int]
    CUT_TO_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    target: str
    text: str
    conversation: Conversation
    token_ids: TokenIds
    max_tokens: int
    sampling: _common_pb2.Sampling
    stop_tokens: _containers.RepeatedScalarFieldContainer[int]
    policy: str
    drafter: str
    no_speculation: bool
    stop_strings: _containers.RepeatedScalarFieldContainer[str]
    logprobs: int
    generated: _containers.RepeatedScalarFieldContainer[int]
    cut_to_context: bool
    rounds: bool
    constraint: _common_pb2.Constraint
    def __init__(self, target: _Optional[str] = ..., text: _Optional[str] = ..., conversation: _Optional[_Union[Conversation, _Mapping]] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., max_tokens: _Optional[int] = ..., sampling: _Optional[_Union[_common_pb2.Sampling, _Mapping]] = ..., stop_tokens: _Optional[_Iterable[int]] = ..., policy: _Optional[str] = ..., drafter: _Optional[str] = ..., no_speculation: bool = ..., stop_strings: _Optional[_Iterable[str]] = ..., logprobs: _Optional[int] = ..., generated: _Optional[_Iterable[int]] = ..., cut_to_context: bool = ..., rounds: bool = ..., constraint: _Optional[_Union[_common_pb2.Constraint, _Mapping]] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("messages", "tools", "tool_choice")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    tool_choice: ToolChoice
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content", "tool_calls", "tool_call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    tool_call_id: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "description", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[str] = ...) -> None: ...

class ToolChoice(_message.Message):
    __slots__ = ("required", "name", "single")
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINGLE_FIELD_NUMBER: _ClassVar[int]
    required: bool
    name: str
    single: bool
    def __init__(self, required: bool = ..., name: _Optional[str] = ..., single: bool = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class CallForm(_message.Message):
    __slots__ = ("open", "middle", "between", "close")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    MIDDLE_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    open: str
    middle: str
    between: str
    close: str
    def __init__(self, open: _Optional[str] = ..., middle: _Optional[str] = ..., between: _Optional[str] = ..., close: _Optional[str] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("chunk", "finished", "begun")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    chunk: Chunk
    finished: Finished
    begun: Begun
    def __init__(self, chunk: _Optional[_Union[Chunk, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., begun: _Optional[_Union[Begun, _Mapping]] = ...) -> None: ...

class Begun(_message.Message):
    __slots__ = ("id", "seed", "prompt_tokens", "call_form")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CALL_FORM_FIELD_NUMBER: _ClassVar[int]
    id: str
    seed: int
    prompt_tokens: int
    call_form: CallForm
    def __init__(self, id: _Optional[str] = ..., seed: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., call_form: _Optional[_Union[CallForm, _Mapping]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("tokens", "round")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[GeneratedToken]
    round: RoundTrace
    def __init__(self, tokens: _Optional[_Iterable[_Union[GeneratedToken, _Mapping]]] = ..., round: _Optional[_Union[RoundTrace, _Mapping]] = ...) -> None: ...

class RoundTrace(_message.Message):
    __slots__ = ("nodes", "levels_ms", "draft_ms", "verify_ms", "wait_ms", "at_ms", "drafter", "tokens")
    NODES_FIELD_NUMBER: _ClassVar[int]
    LEVELS_MS_FIELD_NUMBER: _ClassVar[int]
    DRAFT_MS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[TraceNode]
    levels_ms: _containers.RepeatedScalarFieldContainer[float]
    draft_ms: float
    verify_ms: float
    wait_ms: float
    at_ms: float
    drafter: str
    tokens: int
    def __init__(self, nodes: _Optional[_Iterable[_Union[TraceNode, _Mapping]]] = ..., levels_ms: _Optional[_Iterable[float]] = ..., draft_ms: _Optional[float] = ..., verify_ms: _Optional[float] = ..., wait_ms: _Optional[float] = ..., at_ms: _Optional[float] = ..., drafter: _Optional[str] = ..., tokens: _Optional[int] = ...) -> None: ...

class TraceNode(_message.Message):
    __slots__ = ("id", "text", "parent", "prob", "fate")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PROB_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    id: int
    text: str
    parent: int
    prob: float
    fate: NodeFate
    def __init__(self, id: _Optional[int] = ..., text: _Optional[str] = ..., parent: _Optional[int] = ..., prob: _Optional[float] = ..., fate: _Optional[_Union[NodeFate, str]] = ...) -> None: ...

class GeneratedToken(_message.Message):
    __slots__ = ("id", "text", "drafted", "logprob", "alternatives")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    id: int
    text: str
    drafted: bool
    logprob: float
    alternatives: _containers.RepeatedCompositeFieldContainer[Alternative]
    def __init__(self, id: _Optional[int] = ..., text: _Optional[str] = ..., drafted: bool = ..., logprob: _Optional[float] = ..., alternatives: _Optional[_Iterable[_Union[Alternative, _Mapping]]] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("id", "text", "logprob")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    id: int
    text: str
    logprob: float
    def __init__(self, id: _Optional[int] = ..., text: _Optional[str] = ..., logprob: _Optional[float] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("reason", "usage", "statistics", "text", "seed", "stop_string")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    reason: _common_pb2.FinishReason
    usage: Usage
    statistics: SpeculationStatistics
    text: str
    seed: int
    stop_string: str
    def __init__(self, reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., statistics: _Optional[_Union[SpeculationStatistics, _Mapping]] = ..., text: _Optional[str] = ..., seed: _Optional[int] = ..., stop_string: _Optional[str] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ...) -> None: ...

class SpeculationStatistics(_message.Message):
    __slots__ = ("rounds", "drafted", "verified", "accepted", "accepted_by_depth", "tau", "draft_ms", "verify_ms", "wait_ms", "drafter", "policy", "failovers", "depth")
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_BY_DEPTH_FIELD_NUMBER: _ClassVar[int]
    TAU_FIELD_NUMBER: _ClassVar[int]
    DRAFT_MS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    FAILOVERS_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    rounds: int
    drafted: int
    verified: int
    accepted: int
    accepted_by_depth: _containers.RepeatedScalarFieldContainer[int]
    tau: float
    draft_ms: float
    verify_ms: float
    wait_ms: float
    drafter: str
    policy: str
    failovers: int
    depth: int
    def __init__(self, rounds: _Optional[int] = ..., drafted: _Optional[int] = ..., verified: _Optional[int] = ..., accepted: _Optional[int] = ..., accepted_by_depth: _Optional[_Iterable[int]] = ..., tau: _Optional[float] = ..., draft_ms: _Optional[float] = ..., verify_ms: _Optional[float] = ..., wait_ms: _Optional[float] = ..., drafter: _Optional[str] = ..., policy: _Optional[str] = ..., failovers: _Optional[int] = ..., depth: _Optional[int] = ...) -> None: ...

class ListTargetsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTargetsResponse(_message.Message):
    __slots__ = ("targets",)
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    targets: _containers.RepeatedCompositeFieldContainer[Target]
    def __init__(self, targets: _Optional[_Iterable[_Union[Target, _Mapping]]] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("name", "vocabulary", "context", "drafters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    vocabulary: _common_pb2.Vocabulary
    context: int
    drafters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., vocabulary: _Optional[_Union[_common_pb2.Vocabulary, _Mapping]] = ..., context: _Optional[int] = ..., drafters: _Optional[_Iterable[str]] = ...) -> None: ...
