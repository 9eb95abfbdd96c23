"""Converts bulk replies of all servers to the rows of the account, each from its own leader.

Every server reports its replicas. Only a stream's leader knows the lag of the others, and only a
consumer's leader, which may be another server, how much is pending.
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
    """The reply of JSZ: with `account_details` when all accounts were requested, else the account
    itself.
    """

    account_details: list[_Held] | None = None
    stream_detail: list[_Stream] | None = None
    config: _Config | None = None
    now: str | None = None


_ANSWER = decoder_of(_Jsz)


class KnownConfigurations:
    """The last configurations: replies without them are half as long."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[str, msgspec.Raw]] = {}
        self._consumers: dict[str, dict[str, tuple[str, msgspec.Raw]]] = {}

    def fill_in(self, row: StreamRow | ConsumerRow) -> bool:
        """Complete a row, or learn from it; returns False without a known configuration."""
        if isinstance(row, ConsumerRow):
            configurations = self._consumers.setdefault(row.stream_name, {})
        else:
            configurations = self._streams
        created_text, config = configurations.get(row.name, ("", _NONE))
        if row.config is not _NONE:
            if config != row.config:
                # A copy: what was read is a part of the whole answer, and would keep it.
                config = msgspec.Raw(bytes(row.config))
            configurations[row.name] = row.created, config
        elif created_text != row.created:
            return False
        row.config = config
        return True

    def keep(self, names_by_stream: Mapping[str, Container[str]]) -> None:
        """Discard all other streams, and all other consumers of each."""
        for removed in self._streams.keys() - names_by_stream.keys():
            del self._streams[removed]
        for removed in self._consumers.keys() - names_by_stream.keys():
            del self._consumers[removed]
        for stream, configurations in self._consumers.items():
            for name in [name for name in configurations if name not in names_by_stream[stream]]:
                del configurations[name]


@dataclass(slots=True)
class BulkView:
    """The combined content of the replies."""

    asked_mono_us: int = 0
    raw_bytes: int = 0
    """Size of the longest reply: it determines the work of its server."""
    streams: dict[str, StreamRow] = field(default_factory=dict)
    stored: dict[str, list[StoredReplica]] = field(default_factory=dict)
    """Stream → the stored messages of its replicas, except the leader's."""
    consumers: dict[str, dict[str, ConsumerRow]] = field(default_factory=dict)
    """Stream → its consumers; also of streams without a row."""
    packed_bytes: int = 0
    """Size of all replies over the link."""
    unsure: set[str] = field(default_factory=set)
    """Streams in which something has no leader, two, or no known configuration."""
    twice: set[tuple[str, str | None]] = field(default_factory=set)
    """Assets that two servers report to lead: one may have been frozen, and not know yet."""
    unknown: set[tuple[str, str | None]] = field(default_factory=set)
    """Rows whose configuration is unknown."""
    named: dict[str, set[str]] = field(default_factory=dict)
    """Every stream and its consumers of which any server has a replica."""
    account: Account | None = None
    """Its use of JetStream; None if no server reports the account as one of several."""

    @property
    def consumers_count(self) -> int:
        """Return the number of consumers."""
        return sum(map(len, self.consumers.values()))


def read_view(
    replies: Sequence[BulkAnswer], domain: str | None, known_configurations: KnownConfigurations
) -> BulkView:
    """Return the view of one domain's servers; raises RequestFailed for an unreadable reply."""
    view = BulkView(min((reply.asked_mono_us for reply in replies), default=0))
    view.packed_bytes = sum(reply.packed_bytes for reply in replies)
    uses: list[_Held] = []
    for reply in replies:
        with reading(_JSZ):
            jsz = _ANSWER.decode(reply.data)
        if (reply.domain or (jsz.config.domain if jsz.config else None) or None) != domain:
            continue
        view.raw_bytes = max(view.raw_bytes, len(reply.data))
        with reading(_JSZ):
            _take(view, reply, list(_dated(reply, jsz)))
        uses += jsz.account_details or ()
    _complete(view, known_configurations)
    view.account = _account(view, uses, domain)
    return view


def _account(view: BulkView, uses: Sequence[_Held], domain: str | None) -> Account | None:
    """Return the use of the account and the limits that servers report."""
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


def _dated(reply: BulkAnswer, jsz: _Jsz) -> Iterator[_Stream]:
    """Yield the streams of a reply with the times of their rows.

    A stream's row has none, but its consumers follow it at once, and theirs have.
    """
    streams = list(jsz.stream_detail or ())
    for account in jsz.account_details or ():
        streams += account.stream_detail or ()
    times = (consumer.ts for stream in streams for consumer in stream.consumer_detail or ())
    ts = next((time for time in times if time), jsz.now or reply.written_at)
    for stream in streams:
        ts = next((detail.ts for detail in stream.consumer_detail or () if detail.ts), ts)
        stream.ts = ts
        for row in (stream, *(stream.consumer_detail or ())):
            row.made_at_us = time_or_never_us(row.ts)
            row.asked_mono_us = reply.asked_mono_us
            row.sampled_mono_us = reply.began_mono_us
        yield stream


def _take(view: BulkView, reply: BulkAnswer, streams: list[_Stream]) -> None:
    """Add the assets that the server leads, and the names of all its replicas."""
    for stream in streams:
        names = view.named.setdefault(stream.name, set())
        if _leads(reply, stream.cluster):
            if stream.name in view.streams:
                view.twice.add((stream.name, None))
            view.streams[stream.name] = stream
        else:
            view.stored.setdefault(stream.name, []).append(_stored(reply.name, stream))
        rows_by_name = view.consumers.setdefault(stream.name, {})
        for row in stream.consumer_detail or ():
            names.add(row.name)
            if _leads(reply, row.cluster):
                if row.name in rows_by_name:
                    view.twice.add((stream.name, row.name))
                rows_by_name[row.name] = row
        stream.consumer_detail = None


def _stored(server: str, row: StreamRow) -> StoredReplica:
    """Return the stored messages of a server's replica that another one leads."""
    state = row.state
    return StoredReplica(
        server, bounded(state.first_seq), bounded(state.last_seq), bounded(state.messages)
    )


def _leads(reply: BulkAnswer, cluster: ClusterRow | None) -> bool:
    return cluster is None or cluster.leader == reply.name


def _complete(view: BulkView, known_configurations: KnownConfigurations) -> None:
    """Add known configurations, and find the streams in which something is missing."""
    for stream, consumer in view.twice:
        if consumer is not None:
            del view.consumers[stream][consumer]
        elif stream in view.streams:
            del view.streams[stream]
    for stream, names in view.named.items():
        rows_by_name = view.consumers[stream]
        row = view.streams.get(stream)
        for name in [
            name for name, row in rows_by_name.items() if not known_configurations.fill_in(row)
        ]:
            del rows_by_name[name]
            view.unknown.add((stream, name))
        if row is not None and not known_configurations.fill_in(row):
            del view.streams[stream]
            view.unknown.add((stream, None))
            row = None
        if row is not None:
            row.stored = tuple(sorted(view.stored.get(stream, ()), key=lambda row: row.name))
            # A leader knows only of the consumers on its own server.
            row.state.consumer_count = max(row.state.consumer_count, len(names))
        if row is None or len(rows_by_name) < row.state.consumer_count:
            view.unsure.add(stream)
    known_configurations.keep(view.named)


class BulkAnswer(Protocol):
    """The reply of one server about the account, as raw JSON, with its times."""

    @property
    def name(self) -> str:
        """Return the server's name, as in `cluster.leader`."""

    @property
    def domain(self) -> str | None:
        """Return JetStream's domain, if the reply has it."""

    @property
    def written_at(self) -> str | None:
        """Return when it was sent, by the server's clock."""

    @property
    def data(self) -> bytes:
        """Return the reply to JSZ."""

    @property
    def packed_bytes(self) -> int:
        """Return the size over the link."""

    @property
    def asked_mono_us(self) -> int:
        """Return the time of the request."""

    @property
    def began_mono_us(self) -> int:
        """Return the time of its first bytes."""

    @property
    def ended_mono_us(self) -> int:
        """Return the time of its last bytes."""


class BulkSource(Protocol):
    """Sends requests to all servers at once."""

    @property
    def may_hold_bytes(self) -> int | None:
        """Return how much a server queues for a slow connection before it closes it; None if
        unknown.
        """

    async def ask(self, *, config: bool, packed: bool) -> Sequence[BulkAnswer] | None:
        """Return the reply of each server; None without a source.

        Raises NatstuiError for a source without a reply.
        """

    async def close(self) -> None:
        """Close the connections that were opened for it."""
