"""Converts the bulk replies of all servers to the rows of the account, each from its leader.

Every server reports its replicas. Only a stream's leader knows the lag of the others, and only a
consumer's leader, which may be another server, how much is pending.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.decode.asset import ClusterRow, clamp_to_int64
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.connection.times import time_or_never_us
from natstui.model.live.snapshot import Account, StoredReplica

_JSZ = "JSZ"
_UNLIMITED = 1 << 63
_NO_CONFIGURATION = msgspec.Raw(b"")


class _JszConsumer(ConsumerRow, kw_only=True):
    config: msgspec.Raw = _NO_CONFIGURATION


class _JszStream(StreamRow, kw_only=True):
    config: msgspec.Raw = _NO_CONFIGURATION
    consumer_detail: list[_JszConsumer] | None = None


class _AccountApi(msgspec.Struct):
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int = 0


class _AccountUse(msgspec.Struct):
    """Use of an account, as one server reports it: memory and storage on all servers it knows."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    api: _AccountApi = msgspec.field(default_factory=_AccountApi)
    stream_detail: list[_JszStream] | None = None


class _JszConfig(msgspec.Struct):
    domain: str | None = None


class _Jsz(msgspec.Struct):
    """The reply to JSZ: `account_details` of several accounts, or the streams of one."""

    account_details: list[_AccountUse] | None = None
    stream_detail: list[_JszStream] | None = None
    config: _JszConfig | None = None
    now: str | None = None


_JSZ_DECODER = decoder_of(_Jsz)


class KnownConfigurations:
    """The last known configurations; replies without configurations are half as long."""

    def __init__(self) -> None:
        self._configurations_of_streams: dict[str, tuple[str, msgspec.Raw]] = {}
        self._configurations_of_consumers: dict[str, dict[str, tuple[str, msgspec.Raw]]] = {}

    def fill_in_configuration(self, row: StreamRow | ConsumerRow) -> bool:
        """Store the configuration of a row, or set the stored one in a row that has none.

        Returns False if none is stored.
        """
        if isinstance(row, ConsumerRow):
            configurations = self._configurations_of_consumers.setdefault(row.stream_name, {})
        else:
            configurations = self._configurations_of_streams
        created_text, config = configurations.get(row.name, ("", _NO_CONFIGURATION))
        if row.config is not _NO_CONFIGURATION:
            if config != row.config:
                # A copy: the decoded part would keep the complete reply in memory.
                config = msgspec.Raw(bytes(row.config))
            configurations[row.name] = row.created, config
        elif created_text != row.created:
            return False
        row.config = config
        return True

    def keep_only_existing(self, names_by_stream: Mapping[str, Container[str]]) -> None:
        """Discard all streams but these, and all consumers but these."""
        for removed_name in self._configurations_of_streams.keys() - names_by_stream.keys():
            del self._configurations_of_streams[removed_name]
        for removed_name in self._configurations_of_consumers.keys() - names_by_stream.keys():
            del self._configurations_of_consumers[removed_name]
        for stream, configurations in self._configurations_of_consumers.items():
            for name in [name for name in configurations if name not in names_by_stream[stream]]:
                del configurations[name]


@dataclass(slots=True)
class BulkView:
    """The combined rows of the replies of all servers."""

    requested_mono_us: int = 0
    raw_bytes: int = 0
    """Size of the longest reply: it determines the work of its server."""
    streams: dict[str, StreamRow] = field(default_factory=dict)
    replicas: dict[str, list[StoredReplica]] = field(default_factory=dict)
    """Stream → the stored messages of its replicas, except the leader's."""
    consumers: dict[str, dict[str, ConsumerRow]] = field(default_factory=dict)
    """Stream → its consumers; also of streams without a row."""
    transferred_bytes: int = 0
    """Size of all replies over the link."""
    incomplete_streams: set[str] = field(default_factory=set)
    """Streams that are, or have a consumer, without a leader, with two, or without a known
    configuration.
    """
    assets_with_two_leaders: set[tuple[str, str | None]] = field(default_factory=set)
    """Streams (consumer None) and consumers that two servers report to lead."""
    assets_without_configuration: set[tuple[str, str | None]] = field(default_factory=set)
    """Streams (consumer None) and consumers whose configuration is unknown."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Every stream of which any server has a replica → the names of its consumers."""
    servers: set[str] = field(default_factory=set)
    """Names of the servers that replied."""
    account: Account | None = None
    """Use of JetStream by the account; None if no reply has `account_details`."""

    @property
    def consumers_count(self) -> int:
        """Return the number of consumers."""
        return sum(map(len, self.consumers.values()))


def read_view(
    replies: Sequence[BulkReply], domain: str | None, known_configurations: KnownConfigurations
) -> BulkView:
    """Return the combined replies of one domain's servers; raises RequestFailed for an
    unreadable reply.
    """
    view = BulkView(min((reply.requested_mono_us for reply in replies), default=0))
    view.transferred_bytes = sum(reply.transferred_bytes for reply in replies)
    account_uses: list[_AccountUse] = []
    for reply in replies:
        with raise_unreadable(_JSZ):
            jsz = _JSZ_DECODER.decode(reply.data)
        if (reply.domain or (jsz.config.domain if jsz.config else None) or None) != domain:
            continue
        view.servers.add(reply.name)
        view.raw_bytes = max(view.raw_bytes, len(reply.data))
        with raise_unreadable(_JSZ):
            _add_reply(view, reply, list(_streams_with_times(reply, jsz)))
        account_uses += jsz.account_details or ()
    _complete_rows(view, known_configurations)
    view.account = _make_account(view, account_uses, domain)
    return view


def _make_account(
    view: BulkView, account_uses: Sequence[_AccountUse], domain: str | None
) -> Account | None:
    """Return the use and limits of the account; None without reports of it."""
    if not account_uses:
        return None
    return Account(
        memory_bytes=max(account_use.memory for account_use in account_uses),
        storage_bytes=max(account_use.storage for account_use in account_uses),
        streams_count=len(view.names),
        consumers_count=sum(map(len, view.names.values())),
        max_memory_bytes=_find_max_limit(
            account_use.reserved_memory for account_use in account_uses
        ),
        max_storage_bytes=_find_max_limit(
            account_use.reserved_storage for account_use in account_uses
        ),
        max_streams_count=None,
        max_consumers_count=None,
        # Each server counts the requests to which it replied.
        api_requests_count=sum(account_use.api.total for account_use in account_uses),
        api_errors_count=sum(account_use.api.errors for account_use in account_uses),
        api_inflight_count=sum(account_use.api.inflight for account_use in account_uses),
        api_level=max(account_use.api.level for account_use in account_uses),
        domain=domain,
    )


def _find_max_limit(values: Iterable[int]) -> int | None:
    """Return the largest limit; None is unlimited, which servers write as a negative number."""
    return max((value for value in values if 0 < value < _UNLIMITED), default=None)


def _streams_with_times(reply: BulkReply, jsz: _Jsz) -> Iterator[_JszStream]:
    """Yield the streams of a reply, after setting the times of their rows.

    A stream has no time in the reply. It gets that of the last consumer before it, else that of
    the begin of the reply: with a time later than its values, a newer row would look outdated.
    """
    streams = list(jsz.stream_detail or ())
    for account in jsz.account_details or ():
        streams += account.stream_detail or ()
    ts = jsz.now or reply.written_at
    for stream in streams:
        stream.ts = ts
        for row in (stream, *(stream.consumer_detail or ())):
            row.written_at_us = time_or_never_us(row.ts)
            row.requested_mono_us = reply.requested_mono_us
            row.sampled_mono_us = reply.began_mono_us
            ts = row.ts or ts
        yield stream


def _add_reply(view: BulkView, reply: BulkReply, streams: list[_JszStream]) -> None:
    """Add the rows of streams and consumers that the server leads, and the names of all others."""
    for stream in streams:
        names = view.names.setdefault(stream.name, set())
        if _is_leader(reply, stream.cluster):
            if stream.name in view.streams:
                view.assets_with_two_leaders.add((stream.name, None))
            view.streams[stream.name] = stream
        else:
            view.replicas.setdefault(stream.name, []).append(_make_replica(reply.name, stream))
        rows_by_name = view.consumers.setdefault(stream.name, {})
        for row in stream.consumer_detail or ():
            names.add(row.name)
            if _is_leader(reply, row.cluster):
                if row.name in rows_by_name:
                    view.assets_with_two_leaders.add((stream.name, row.name))
                rows_by_name[row.name] = row
        stream.consumer_detail = None


def _make_replica(server: str, row: StreamRow) -> StoredReplica:
    """Return the stored messages of a replica that is not the leader."""
    state = row.state
    return StoredReplica(
        server,
        clamp_to_int64(state.first_seq),
        clamp_to_int64(state.last_seq),
        clamp_to_int64(state.messages),
    )


def _is_leader(reply: BulkReply, cluster: ClusterRow | None) -> bool:
    return cluster is None or cluster.leader == reply.name


def _complete_rows(view: BulkView, known_configurations: KnownConfigurations) -> None:
    """Set known configurations in the rows, and find the streams without complete rows.

    Rows with two leaders or an unknown configuration are removed.
    """
    for stream, consumer in view.assets_with_two_leaders:
        if consumer is not None:
            del view.consumers[stream][consumer]
        elif stream in view.streams:
            del view.streams[stream]
    for stream, names in view.names.items():
        rows_by_name = view.consumers[stream]
        row = view.streams.get(stream)
        for name in [
            name
            for name, row in rows_by_name.items()
            if not known_configurations.fill_in_configuration(row)
        ]:
            del rows_by_name[name]
            view.assets_without_configuration.add((stream, name))
        if row is not None and not known_configurations.fill_in_configuration(row):
            del view.streams[stream]
            view.assets_without_configuration.add((stream, None))
            row = None
        if row is not None:
            row.stored_replicas = tuple(
                sorted(view.replicas.get(stream, ()), key=lambda row: row.name)
            )
            # A leader counts only the consumers on its own server.
            row.state.consumer_count = max(row.state.consumer_count, len(names))
        if row is None or len(rows_by_name) < row.state.consumer_count:
            view.incomplete_streams.add(stream)
    known_configurations.keep_only_existing(view.names)


class BulkReply(Protocol):
    """The reply of one server about the account, as raw JSON, with its times."""

    @property
    def name(self) -> str:
        """Return the server's name, as in `cluster.leader`."""

    @property
    def domain(self) -> str | None:
        """Return the JetStream domain in the reply, or None."""

    @property
    def written_at(self) -> str | None:
        """Return when the reply was sent, by the server's clock, in RFC 3339."""

    @property
    def data(self) -> bytes:
        """Return the reply to JSZ."""

    @property
    def transferred_bytes(self) -> int:
        """Return the size of the reply over the link, which may be compressed."""

    @property
    def requested_mono_us(self) -> int:
        """Return the time of the request, by our monotonic clock."""

    @property
    def began_mono_us(self) -> int:
        """Return the time of the reply's first bytes."""

    @property
    def ended_mono_us(self) -> int:
        """Return the time of the reply's last bytes."""


class BulkSource(Protocol):
    """Sends requests for bulk replies to all servers at once."""

    @property
    def max_pending_bytes(self) -> int | None:
        """Return how many bytes may wait for a slow connection before a server closes it; None if
        unknown.
        """

    async def request(self, *, config: bool, compressed: bool) -> Sequence[BulkReply] | None:
        """Return the reply of each server; None without a source.

        They have configurations if `config`, and are compressed on the link if `compressed`.
        Raises NatstuiError if the source does not reply.
        """

    async def close(self) -> None:
        """Close the connections that were opened for the source."""
