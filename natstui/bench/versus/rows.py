"""What is compared: one row for each pattern, as plans of ours and as words of `nats bench`. Pure.

The words are those of the NATS CLI of July 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.bench.plan.check import check
from natstui.errors import NotFound
from natstui.model.bench.plan import (
    Acks,
    BenchmarkPlan,
    ClientKind,
    Pattern,
    Payload,
    Role,
    StreamPlan,
)

Storage = Literal["file", "memory"]
SUBJECT = "natstui.versus"
_CORE_MSGS, _FAN_OUT_MSGS, _STORED_MSGS, _SLOW_MSGS = 3_000_000, 700_000, 200_000, 15_000
_LEAST_MSGS = 1000
_PLAIN_SHARE, _PLAIN_SLOW_SHARE = 20, 4
"""nats-py gets so many times fewer messages, to take about as long."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pattern, by the same words for every client."""

    name: str
    pattern: Pattern
    words: str
    """Of `nats bench`, with `{subject}`, `{stream}` and `{consumer}` to be filled in."""
    most_msgs: int = _STORED_MSGS
    size_bytes: int = 128
    beside: Pattern | None = None
    """What takes or answers the messages, in the same run …"""
    beside_count: int = 1
    beside_words: str = ""
    """… and how `nats bench` says it: a process that is started first …"""
    counts_beside: bool = False
    """… and whose rate counts."""
    before_words: str = ""
    """What `nats bench` needs to have done first."""
    storage: Storage = "file"
    acks: Acks = "explicit"

    @property
    def reads(self) -> bool:
        """Whether it works on messages that are stored already."""
        does = Role("", self.pattern).traits
        return does.consumes or does.reads_stored

    @property
    def is_bucket(self) -> bool:
        """Whether its stream is a KV bucket."""
        return "--bucket" in self.words

    @property
    def has_plain(self) -> bool:
        """Whether nats-py has a call for it."""
        return not Role("", self.pattern).traits.is_wire_only

    def total_msgs(self, client: ClientKind, wanted: int | None = None) -> int:
        """Return how many messages a client gets."""
        total = wanted or self.most_msgs
        if client == "wire":
            return total
        slow = Role("", self.pattern).traits.is_slow
        return max(total // (_PLAIN_SLOW_SHARE if slow else _PLAIN_SHARE), _LEAST_MSGS)


_STORE = "--stream {stream}"
_READ = "--stream {stream} --consumer {consumer} --batch 500 --acks"


def _publishes(mode: str, pattern: Pattern, storage: Storage, batch: str, most: int) -> Row:
    name, words = f"js pub {mode} {storage}", f"js pub {mode} {{subject}} {_STORE}{batch}"
    return Row(name, pattern, words, most, storage=storage)


_BATCH = " --batch 500"
ROWS = (
    Row("core pub 128 B", "publish", "pub {subject}", _CORE_MSGS),
    Row("core pub 16 B", "publish", "pub {subject}", _CORE_MSGS, 16),
    Row("core 1 to 1", "publish", "pub {subject}", _CORE_MSGS // 2, 128, "subscribe", 1,
        "sub {subject}", True),
    Row("core 1 to 4", "publish", "pub {subject}", _FAN_OUT_MSGS, 128, "subscribe", 4,
        "sub {subject}", True),
    _publishes("sync", "js-publish-sync", "file", "", _SLOW_MSGS),
    _publishes("sync", "js-publish-sync", "memory", "", _SLOW_MSGS),
    _publishes("async", "js-publish-async", "file", _BATCH, _STORED_MSGS),
    _publishes("async", "js-publish-async", "memory", _BATCH, _STORED_MSGS),
    _publishes("atomic", "js-publish-atomic", "file", _BATCH, _STORED_MSGS // 2),
    _publishes("atomic", "js-publish-atomic", "memory", _BATCH, _STORED_MSGS // 2),
    _publishes("fast", "js-publish-fast", "file", _BATCH, _STORED_MSGS),
    _publishes("fast", "js-publish-fast", "memory", _BATCH, _STORED_MSGS),
    Row("js consume explicit", "js-consume", f"js consume {_READ} explicit"),
    Row("js consume none", "js-consume", f"js consume {_READ} none", acks="none"),
    Row("js fetch explicit", "js-fetch", f"js fetch {_READ} explicit"),
    Row("js ordered", "js-ordered", f"js ordered {_STORE} --batch 500", acks="none"),
    Row("js get sync", "js-get", f"js get sync {_STORE}", _SLOW_MSGS),
    Row("js get batch", "js-get-batch", f"js get batch {_STORE} --batch 500"),
    Row("kv put", "kv-put", "kv put --bucket {stream}", _SLOW_MSGS),
    Row("kv get", "kv-get", "kv get --bucket {stream}", _SLOW_MSGS,
        before_words="kv put --bucket {stream}"),
    Row("service request", "request", "service request {subject}", _SLOW_MSGS, 128, "serve", 1,
        "service serve {subject}"),
)  # fmt: skip


def chosen(words: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows whose name has these words in it; all of them without any.

    Raises NotFound.
    """
    text = " ".join(words)
    found = tuple(row for row in ROWS if text in row.name)
    if not found:
        names = ", ".join(row.name for row in ROWS)
        raise NotFound(f"no pattern has {text!r} in its name: there are {names}")
    return found


def plan_of(row: Row, client: ClientKind, total: int, stream: str) -> BenchmarkPlan:
    """Return the plan of a row; `stream` is its own, or the filled one that it reads."""
    place = _stream(row, stream) if needs_stream(row) else None
    return _checked(BenchmarkPlan(row.name, "", _roles(row, client, total, stream), place, None))


def filling(row: Row, total: int, stream: str) -> BenchmarkPlan:
    """Return the plan that stores what a row reads, and leaves it behind."""
    writes: Pattern = "kv-put" if row.is_bucket else "js-publish-async"
    role = _role(row, "publishers", writes, "wire", stream, total)
    place = _made(row, stream, keep=True)
    return _checked(BenchmarkPlan(f"filling for {row.name}", "", (role,), place, None))


def _checked(plan: BenchmarkPlan) -> BenchmarkPlan:
    check(plan, plan.title)
    return plan


def _roles(row: Row, client: ClientKind, total: int, stream: str) -> tuple[Role, ...]:
    works = _role(row, "workers", row.pattern, client, stream, total)
    if not works.traits.has_end:
        works = _role(row, "workers", row.pattern, client, stream, None)
    if row.beside is None:
        return (works,)
    beside = _role(row, "others", row.beside, client, stream, None, row.beside_count)
    return (beside, works)


def _role(
    row: Row,
    name: str,
    pattern: Pattern,
    client: ClientKind,
    stream: str,
    total: int | None,
    count: int = 1,
) -> Role:
    payload = Payload(size_bytes=row.size_bytes)
    subject, keys = subject_of(row, stream), 1
    if row.is_bucket:
        # As `nats bench` does: every message has a key of its own.
        keys = total or 1
    return Role(
        name, pattern, count, client, subject=subject, subjects_count=keys,
        total_msgs=total, payload=payload, acks=row.acks,
    )  # fmt: skip


def subject_of(row: Row, stream: str) -> str:
    """Return what a row publishes to: streams must not share a subject."""
    return f"$KV.{stream}.key" if row.is_bucket else f"{SUBJECT}.{stream}"


def _stream(row: Row, name: str) -> StreamPlan:
    if row.reads:
        return StreamPlan(name, create=False, history_count=1 if row.is_bucket else None)
    return _made(row, name)


def _made(row: Row, name: str, *, keep: bool = False) -> StreamPlan:
    if row.is_bucket:
        return StreamPlan(name, keep=keep, storage=row.storage, history_count=1)
    subjects = (subject_of(row, name),)
    return StreamPlan(name, keep=keep, subjects=subjects, storage=row.storage, allow_batches=True)


def made_stream(row: Row, name: str) -> StreamPlan | None:
    """Return the stream that another program needs to publish to; None where it needs none."""
    return _made(row, name) if needs_stream(row) and not row.reads else None


def needs_stream(row: Row) -> bool:
    """Return whether it works on a stream or a bucket."""
    return Role("", row.pattern).traits.needs_stream
