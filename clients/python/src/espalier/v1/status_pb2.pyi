from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerifierStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifierStatusResponse(_message.Message):
    __slots__ = ("process", "sequences", "trees_waiting", "passes", "rounds", "kv", "arithmetic")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TREES_WAITING_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    KV_FIELD_NUMBER: _ClassVar[int]
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    process: Process
    sequences: Slots
    trees_waiting: int
    passes: PassCounts
    rounds: RoundCounts
    kv: KvMemory
    arithmetic: str
    def __init__(self, process: _Optional[_Union[Process, _Mapping]] = ..., sequences: _Optional[_Union[Slots, _Mapping]] = ..., trees_waiting: _Optional[int] = ..., passes: _Optional[_Union[PassCounts, _Mapping]] = ..., rounds: _Optional[_Union[RoundCounts, _Mapping]] = ..., kv: _Optional[_Union[KvMemory, _Mapping]] = ..., arithmetic: _Optional[str] = ...) -> None: ...

class DrafterStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrafterStatusResponse(_message.Message):
    __slots__ = ("process", "sequences", "trees_growing", "passes", "rounds", "kv", "targets", "arithmetic")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TREES_GROWING_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    KV_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    process: Process
    sequences: Slots
    trees_growing: int
    passes: PassCounts
    rounds: RoundCounts
    kv: KvMemory
    targets: _containers.RepeatedCompositeFieldContainer[TargetStatus]
    arithmetic: str
    def __init__(self, process: _Optional[_Union[Process, _Mapping]] = ..., sequences: _Optional[_Union[Slots, _Mapping]] = ..., trees_growing: _Optional[int] = ..., passes: _Optional[_Union[PassCounts, _Mapping]] = ..., rounds: _Optional[_Union[RoundCounts, _Mapping]] = ..., kv: _Optional[_Union[KvMemory, _Mapping]] = ..., targets: _Optional[_Iterable[_Union[TargetStatus, _Mapping]]] = ..., arithmetic: _Optional[str] = ...) -> None: ...

class TargetStatus(_message.Message):
    __slots__ = ("name", "sequences_open", "rounds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_OPEN_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    sequences_open: int
    rounds: RoundCounts
    def __init__(self, name: _Optional[str] = ..., sequences_open: _Optional[int] = ..., rounds: _Optional[_Union[RoundCounts, _Mapping]] = ...) -> None: ...

class SystemStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SystemStatusResponse(_message.Message):
    __slots__ = ("gateway", "verifiers", "drafters")
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    VERIFIERS_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    gateway: GatewayStatus
    verifiers: _containers.RepeatedCompositeFieldContainer[VerifierState]
    drafters: _containers.RepeatedCompositeFieldContainer[DrafterState]
    def __init__(self, gateway: _Optional[_Union[GatewayStatus, _Mapping]] = ..., verifiers: _Optional[_Iterable[_Union[VerifierState, _Mapping]]] = ..., drafters: _Optional[_Iterable[_Union[DrafterState, _Mapping]]] = ...) -> None: ...

class GatewayStatus(_message.Message):
    __slots__ = ("process", "requests", "requests_queued", "ended", "rounds")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_QUEUED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    process: Process
    requests: Slots
    requests_queued: int
    ended: EndCounts
    rounds: RoundCounts
    def __init__(self, process: _Optional[_Union[Process, _Mapping]] = ..., requests: _Optional[_Union[Slots, _Mapping]] = ..., requests_queued: _Optional[int] = ..., ended: _Optional[_Union[EndCounts, _Mapping]] = ..., rounds: _Optional[_Union[RoundCounts, _Mapping]] = ...) -> None: ...

class EndCounts(_message.Message):
    __slots__ = ("stop", "length", "failed", "abandoned", "refused", "invalid")
    STOP_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    INVALID_FIELD_NUMBER: _ClassVar[int]
    stop: int
    length: int
    failed: int
    abandoned: int
    refused: int
    invalid: int
    def __init__(self, stop: _Optional[int] = ..., length: _Optional[int] = ..., failed: _Optional[int] = ..., abandoned: _Optional[int] = ..., refused: _Optional[int] = ..., invalid: _Optional[int] = ...) -> None: ...

class VerifierState(_message.Message):
    __slots__ = ("url", "name", "up", "status")
    URL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    url: str
    name: str
    up: bool
    status: VerifierStatusResponse
    def __init__(self, url: _Optional[str] = ..., name: _Optional[str] = ..., up: bool = ..., status: _Optional[_Union[VerifierStatusResponse, _Mapping]] = ...) -> None: ...

class DrafterState(_message.Message):
    __slots__ = ("url", "name", "up", "status")
    URL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    url: str
    name: str
    up: bool
    status: DrafterStatusResponse
    def __init__(self, url: _Optional[str] = ..., name: _Optional[str] = ..., up: bool = ..., status: _Optional[_Union[DrafterStatusResponse, _Mapping]] = ...) -> None: ...

class Process(_message.Message):
    __slots__ = ("uptime_ms", "resident_bytes")
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    uptime_ms: int
    resident_bytes: int
    def __init__(self, uptime_ms: _Optional[int] = ..., resident_bytes: _Optional[int] = ...) -> None: ...

class Slots(_message.Message):
    __slots__ = ("open", "max")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    open: int
    max: int
    def __init__(self, open: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class PassCounts(_message.Message):
    __slots__ = ("passes", "rows", "sequences", "missed")
    PASSES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    passes: int
    rows: int
    sequences: int
    missed: int
    def __init__(self, passes: _Optional[int] = ..., rows: _Optional[int] = ..., sequences: _Optional[int] = ..., missed: _Optional[int] = ...) -> None: ...

class RoundCounts(_message.Message):
    __slots__ = ("rounds", "drafted", "verified", "accepted", "tokens")
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    rounds: int
    drafted: int
    verified: int
    accepted: int
    tokens: int
    def __init__(self, rounds: _Optional[int] = ..., drafted: _Optional[int] = ..., verified: _Optional[int] = ..., accepted: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class KvMemory(_message.Message):
    __slots__ = ("blocks", "held", "promised", "lingering", "block_bytes")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    LINGERING_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    blocks: int
    held: int
    promised: int
    lingering: int
    block_bytes: int
    def __init__(self, blocks: _Optional[int] = ..., held: _Optional[int] = ..., promised: _Optional[int] = ..., lingering: _Optional[int] = ..., block_bytes: _Optional[int] = ...) -> None: ...
