"""Bulk answers of all servers → the rows of the account, each from its own leader.

Every server tells of its replicas. Only a stream's leader knows how far the others are, and only
a consumer's leader, which may be another server, how much is pending.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.replies import reading
from natstui.jetstream.connection.times import time_or_never_us
from natstui.jetstream.polling.decode.cluster import ClusterRow, bounded
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.model.live.snapshot import Account, StoredReplica

_JSZ = "JSZ"
_UNLIMITED = 1 << 63
_NONE = msgspec.Raw(b"")


class _Consumer(ConsumerRow, kw_only=True):
    config: msgspec.Raw = _NONE


class _Stream(StreamRow, kw_only=True):
    config: msgspec.Raw = _NONE
    consumer_detail: list[_Consumer] | None = None


class _Api(msgspec.Struct):
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int = 0


class _Held(msgspec.Struct):
    """An account on one server; memory and file are those of all servers, as far as it knows."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    api: _Api = msgspec.field(default_factory=_Api)
    stream_detail: list[_Stream] | None = None


class _Config(msgspec.Struct):
    domain: str | None = None


class _Jsz(msgspec.Struct):
    """With `account_details` when it was asked of all accounts, else the account itself."""

    account_details: list[_Held] | None = None
    stream_detail: list[_Stream] | None = None
    config: _Config | None = None
    now: str | None = None


_ANSWER = decoder_of(_Jsz)


class KnownConfigurations:
    """The configurations that came last: answers without them are half as long."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[str, msgspec.Raw]] = {}
        self._consumers: dict[str, dict[str, tuple[str, msgspec.Raw]]] = {}

    def fill_in(self, row: StreamRow | ConsumerRow) -> bool:
        """Complete a row, or learn from it; False when its configuration never came."""
        if isinstance(row, ConsumerRow):
            known = self._consumers.setdefault(row.stream_name, {})
        else:
            known = self._streams
        created, config = known.get(row.name, ("", _NONE))
        if row.config is not _NONE:
            if config != row.config:
                # A copy: what was read is a part of the whole answer, and would keep it.
                config = msgspec.Raw(bytes(row.config))
            known[row.name] = row.created, config
        elif created != row.created:
            return False
        row.config = config
        return True

    def keep(self, named: Mapping[str, Container[str]]) -> None:
        """Forget all other streams, and all other consumers of each."""
        for gone in self._streams.keys() - named.keys():
            del self._streams[gone]
        for gone in self._consumers.keys() - named.keys():
            del self._consumers[gone]
        for stream, known in self._consumers.items():
            for name in [name for name in known if name not in named[stream]]:
                del known[name]


@dataclass(slots=True)
class BulkView:
    """What the answers tell together."""

    asked_mono_us: int = 0
    raw_bytes: int = 0
    """Of the longest answer: what it cost its server."""
    streams: dict[str, StreamRow] = field(default_factory=dict)
    stored: dict[str, list[StoredReplica]] = field(default_factory=dict)
    """Stream → what its replicas have stored, but for the leader's."""
    consumers: dict[str, dict[str, ConsumerRow]] = field(default_factory=dict)
    """Stream → its consumers; those of streams without a row too."""
    packed_bytes: int = 0
    """Of all answers, over the link."""
    unsure: set[str] = field(default_factory=set)
    """Streams of which something has no leader, two, or no known configuration."""
    twice: set[tuple[str, str | None]] = field(default_factory=set)
    """What two servers say they lead: one may have been frozen, and not know yet."""
    unknown: set[tuple[str, str | None]] = field(default_factory=set)
    """Rows whose configuration never came."""
    named: dict[str, set[str]] = field(default_factory=dict)
    """Every stream and its consumers that any server holds a replica of."""
    account: Account | None = None
    """Its use of JetStream; None where no server tells of the account as one of several."""

    @property
    def consumers_count(self) -> int:
        """How many consumers there are."""
        return sum(map(len, self.consumers.values()))


def read_view(
    answers: Sequence[BulkAnswer], domain: str | None, known: KnownConfigurations
) -> BulkView:
    """Return what servers of one domain tell; raises RequestFailed when it cannot be read."""
    view = BulkView(min((answer.asked_mono_us for answer in answers), default=0))
    view.packed_bytes = sum(answer.packed_bytes for answer in answers)
    uses: list[_Held] = []
    for answer in answers:
        with reading(_JSZ):
            told = _ANSWER.decode(answer.data)
        if (answer.domain or (told.config.domain if told.config else None) or None) != domain:
            continue
        view.raw_bytes = max(view.raw_bytes, len(answer.data))
        with reading(_JSZ):
            _take(view, answer, list(_dated(answer, told)))
        uses += told.account_details or ()
    _complete(view, known)
    view.account = _account(view, uses, domain)
    return view


def _account(view: BulkView, uses: Sequence[_Held], domain: str | None) -> Account | None:
    """Return the use of the account and those limits that servers tell."""
    if not uses:
        return None
    return Account(
        memory_bytes=max(use.memory for use in uses),
        storage_bytes=max(use.storage for use in uses),
        streams_count=len(view.named),
        consumers_count=sum(map(len, view.named.values())),
        max_memory_bytes=_limit(use.reserved_memory for use in uses),
        max_storage_bytes=_limit(use.reserved_storage for use in uses),
        max_streams_count=None,
        max_consumers_count=None,
        # Each server counts those that it answered.
        api_requests_count=sum(use.api.total for use in uses),
        api_errors_count=sum(use.api.errors for use in uses),
        api_inflight_count=sum(use.api.inflight for use in uses),
        api_level=max(use.api.level for use in uses),
        domain=domain,
    )


def _limit(values: Iterable[int]) -> int | None:
    """Return the largest limit; None is unlimited, which servers write as a negative number."""
    return max((value for value in values if 0 < value < _UNLIMITED), default=None)


def _dated(one: BulkAnswer, told: _Jsz) -> Iterator[_Stream]:
    """Yield the streams of an answer with the times of their rows.

    A stream's row has none, but its consumers follow it at once, and theirs have.
    """
    streams = list(told.stream_detail or ())
    for account in told.account_details or ():
        streams += account.stream_detail or ()
    times = (consumer.ts for stream in streams for consumer in stream.consumer_detail or ())
    ts = next((time for time in times if time), told.now or one.written_at)
    for stream in streams:
        ts = next((it.ts for it in stream.consumer_detail or () if it.ts), ts)
        stream.ts = ts
        for row in (stream, *(stream.consumer_detail or ())):
            row.made_at_us = time_or_never_us(row.ts)
            row.asked_mono_us = one.asked_mono_us
            row.sampled_mono_us = one.began_mono_us
        yield stream


def _take(view: BulkView, one: BulkAnswer, streams: list[_Stream]) -> None:
    """Take what the server leads, and note the names of all it holds."""
    for stream in streams:
        names = view.named.setdefault(stream.name, set())
        if _leads(one, stream.cluster):
            if stream.name in view.streams:
                view.twice.add((stream.name, None))
            view.streams[stream.name] = stream
        else:
            view.stored.setdefault(stream.name, []).append(_stored(one.name, stream))
        found = view.consumers.setdefault(stream.name, {})
        for row in stream.consumer_detail or ():
            names.add(row.name)
            if _leads(one, row.cluster):
                if row.name in found:
                    view.twice.add((stream.name, row.name))
                found[row.name] = row
        stream.consumer_detail = None


def _stored(server: str, row: StreamRow) -> StoredReplica:
    """Return what a server has of a stream that another one leads."""
    state = row.state
    return StoredReplica(
        server, bounded(state.first_seq), bounded(state.last_seq), bounded(state.messages)
    )


def _leads(one: BulkAnswer, cluster: ClusterRow | None) -> bool:
    return cluster is None or cluster.leader == one.name


def _complete(view: BulkView, known: KnownConfigurations) -> None:
    """Fill in what was not told, and find out of which streams something is missing."""
    for stream, consumer in view.twice:
        if consumer is not None:
            del view.consumers[stream][consumer]
        elif stream in view.streams:
            del view.streams[stream]
    for stream, names in view.named.items():
        found = view.consumers[stream]
        row = view.streams.get(stream)
        for name in [name for name, it in found.items() if not known.fill_in(it)]:
            del found[name]
            view.unknown.add((stream, name))
        if row is not None and not known.fill_in(row):
            del view.streams[stream]
            view.unknown.add((stream, None))
            row = None
        if row is not None:
            row.stored = tuple(sorted(view.stored.get(stream, ()), key=lambda one: one.name))
            # A leader knows only of the consumers on its own server.
            row.state.consumer_count = max(row.state.consumer_count, len(names))
        if row is None or len(found) < row.state.consumer_count:
            view.unsure.add(stream)
    known.keep(view.named)


class BulkAnswer(Protocol):
    """What one server holds of the account, as raw JSON, and when that came."""

    @property
    def name(self) -> str:
        """The server's name, as in `cluster.leader`."""

    @property
    def domain(self) -> str | None:
        """JetStream's domain, where the answer's envelope says it."""

    @property
    def written_at(self) -> str | None:
        """When it was sent, by the server's clock."""

    @property
    def data(self) -> bytes:
        """The answer to JSZ."""

    @property
    def packed_bytes(self) -> int:
        """What came over the link."""

    @property
    def asked_mono_us(self) -> int:
        """When it was asked for."""

    @property
    def began_mono_us(self) -> int:
        """When its first bytes came."""

    @property
    def ended_mono_us(self) -> int:
        """When its last bytes came."""


class BulkSource(Protocol):
    """Asks all servers at once."""

    @property
    def may_hold_bytes(self) -> int | None:
        """What a server keeps for a slow connection before it closes it; None is not known."""

    async def ask(self, *, config: bool, packed: bool) -> Sequence[BulkAnswer] | None:
        """Return what each server holds; None where there is nobody to ask.

        Raises NatstuiError when there is, and no answer comes.
        """

    async def close(self) -> None:
        """End what was opened for it."""
