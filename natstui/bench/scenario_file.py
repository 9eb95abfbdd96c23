"""The words of a scenario file (TOML), with their defaults; anything else is refused."""

from __future__ import annotations

from typing import Literal

import msgspec

from natstui.model.benchmark_role import Acks, ClientKind, FaultKind, Pattern


class Table(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """A table that refuses keys it does not know."""


class RateTable(Table):
    """`rate = {…}`: one of ramp, steps, burst."""

    ramp: tuple[float, float] | None = None
    over: str = "10s"
    steps: list[float] | None = None
    every: str = "5s"
    burst: int | None = None


class PayloadTable(Table):
    """`payload = {…}` of a role."""

    kind: Literal["fixed", "range", "file", "json"] = "fixed"
    size: int | str = 128
    size_max: int | str | None = None
    file: str | None = None
    headers: dict[str, str] = {}
    msg_ids: bool = False
    duplicates: float = 0.0


class RoleTable(Table):
    """One `[[role]]`."""

    name: str
    pattern: Pattern
    workers: int = 1
    client: ClientKind = "wire"
    subject: str = "bench"
    subjects: int = 1
    random_subjects: bool = False
    queue: str | None = None
    msgs: int | str | None = None
    payload: PayloadTable = msgspec.field(default_factory=PayloadTable)
    rate: float | RateTable | None = None
    batch: int = 500
    window: int = 1000
    consumer: str | None = None
    acks: Acks = "explicit"
    ack_wait: str = "30s"
    max_ack_pending: int = 10_000
    naks: float = 0.0
    terms: float = 0.0
    never_acked: float = 0.0
    think: str = "0s"
    timeout: str = "10s"


class StreamTable(Table):
    """`[stream]`."""

    name: str = "NATSTUI_BENCH"
    create: bool = True
    keep: bool = False
    subjects: list[str] = []
    storage: Literal["file", "memory"] = "memory"
    replicas: int = 1
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    discard: Literal["old", "new"] = "old"
    max_msgs: int | str | None = None
    max_bytes: int | str | None = None
    duplicate_window: str | None = None
    history: int | None = None
    """Makes it a KV bucket."""


class FaultTable(Table):
    """One `[[fault]]`."""

    at: str
    kind: FaultKind
    role: str
    worker: int | None = None


class ScenarioFile(Table):
    """The whole file."""

    title: str
    role: list[RoleTable]
    description: str = ""
    duration: str | None = None
    warmup: str = "0s"
    ramp: str = "0s"
    drain: str = "10s"
    stream: StreamTable | None = None
    fault: list[FaultTable] = []
