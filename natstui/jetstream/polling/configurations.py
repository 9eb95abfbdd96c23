"""Detects new and changed configurations: only these are decoded and reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from natstui.jetstream.connection.replies import reading
from natstui.jetstream.polling.decode.consumers import ConsumerRow, consumer_configuration
from natstui.jetstream.polling.decode.streams import StreamRow, stream_configuration
from natstui.jetstream.polling.snapshot import ConsumersSeen, StreamsSeen
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.records.record import Configured

_ADDED = re.compile(rb',?"_nats\.(?:ver|level)":"[^"\\]*"')
"""Metadata that `INFO` adds and the list of a cluster does not: no part of the configuration."""
_NO_METADATA = re.compile(rb',?"metadata":\{\}')


_METADATA = b',"metadata":{'


def _as_listed(end: bytes) -> bytes:
    """Return the end of a configuration, from its metadata on, in the format of the list."""
    return _NO_METADATA.sub(b"", _ADDED.sub(b"", end).replace(b"{,", b"{"))


class _Mark(NamedTuple):
    """Hashes that identify a configuration."""

    created: str
    meaning_hash: int
    text_hashes: tuple[int, ...]
    """Hashes of its bytes, as in `INFO` and in the list."""


def _meaning_hash(config: bytes) -> int:
    """Return a hash of the set values; raises RequestFailed for unreadable text.

    Servers write the same fields in the same order everywhere, the monitoring ports with spaces
    and lines. So the text shows whether it is the same: parsing takes ten times as long, and there
    are tens of thousands on a big server.
    """
    if b'": ' in config:
        with reading("the configuration"):
            config = msgspec.json.format(config, indent=-1)
    if b'"_nats.ver":' in config or b'"_nats.level":' in config:
        head, metadata, tail = config.partition(_METADATA)
        config = head + _as_listed(metadata + tail) if metadata else _as_listed(head)
    return hash(config)


def _marked(known_mark: _Mark | None, created_text: str, config: bytes) -> tuple[_Mark, bool]:
    """Return the mark of a configuration, and whether it is new or changed."""
    text_hash = hash(config)
    is_same_asset = known_mark is not None and known_mark.created == created_text
    if known_mark is not None and is_same_asset and text_hash in known_mark.text_hashes:
        return known_mark, False
    meaning_hash = _meaning_hash(config)
    if known_mark is not None and is_same_asset and meaning_hash == known_mark.meaning_hash:
        return _Mark(created_text, meaning_hash, (*known_mark.text_hashes[-1:], text_hash)), False
    return _Mark(created_text, meaning_hash, (text_hash,)), True


class ConfigurationHashes:
    """Stores hashes of the last configuration of every stream and consumer."""

    def __init__(self) -> None:
        self._streams: dict[str, _Mark] = {}
        self._consumers: dict[str, dict[str, _Mark]] = {}
        self._replicas_count: dict[str, int] = {}

    def changed_in(
        self, at_us: int, streams: StreamsSeen, consumers: ConsumersSeen, living: set[str]
    ) -> Configured | None:
        """Return the new configurations of a poll, if any, and discard deleted ones.

        `living` are all existing streams, as far as known.
        """
        new_streams = self.new_streams(streams.rows)
        new_consumers = self.new_consumers(consumers.rows.values())
        if streams.complete:
            self.keep_streams(living)
        listed_names: dict[str, set[str]] = {stream: set() for stream in consumers.swept}
        for stream, name in consumers.rows.keys() | consumers.missing:
            listed_names.get(stream, set()).add(name)
        for stream, names in listed_names.items():
            self.keep_consumers(stream, names)
        if not new_streams and not new_consumers:
            return None
        return Configured(at_us, new_streams, new_consumers)

    def new_streams(self, rows: Iterable[StreamRow]) -> tuple[StreamConfiguration, ...]:
        """Return the changed or new configurations, and store their hashes."""
        changed_rows = []
        for row in rows:
            mark, is_new = _marked(self._streams.get(row.name), row.created, bytes(row.config))
            if is_new:
                configuration = stream_configuration(row)
                changed_rows.append(configuration)
                self._replicas_count[row.name] = configuration.replicas_count
            self._streams[row.name] = mark
        return tuple(changed_rows)

    def new_consumers(self, rows: Iterable[ConsumerRow]) -> tuple[ConsumerConfiguration, ...]:
        """Return the changed or new configurations, and store their hashes."""
        changed_rows = []
        for row in rows:
            marks = self._consumers.setdefault(row.stream_name, {})
            mark, is_new = _marked(marks.get(row.name), row.created, bytes(row.config))
            if is_new:
                replicas_count = self._replicas_count.get(row.stream_name, 1)
                changed_rows.append(consumer_configuration(row, replicas_count))
            marks[row.name] = mark
        return tuple(changed_rows)

    def consumers_of(self, stream: str) -> set[str]:
        """Return the names of a stream's consumers."""
        return set(self._consumers.get(stream, ()))

    def keep_streams(self, names: set[str]) -> None:
        """Discard all other streams, with their consumers."""
        for removed in self._streams.keys() - names:
            del self._streams[removed]
            self._replicas_count.pop(removed, None)
        for removed in self._consumers.keys() - names:
            del self._consumers[removed]

    def keep_consumers(self, stream: str, names: set[str]) -> None:
        """Discard all other consumers of a stream."""
        marks = self._consumers.get(stream, {})
        for removed in marks.keys() - names:
            del marks[removed]
