"""Which configurations were seen already: only new and changed ones are decoded and reported."""

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
    """Return the end of a configuration, from its metadata on, as the list writes it."""
    return _NO_METADATA.sub(b"", _ADDED.sub(b"", end).replace(b"{,", b"{"))


class _Mark(NamedTuple):
    """How a configuration is recognized."""

    created: str
    meaning_hash: int
    text_hashes: tuple[int, ...]
    """Of its bytes, as `INFO` and as the list write it."""


def _meaning_hash(config: bytes) -> int:
    """Return a hash of what is set; raise RequestFailed when it cannot be read.

    Servers write the same fields in the same order wherever they tell of a configuration, the
    monitoring ports with spaces and lines. So the text says whether it is the same: to read all of
    it takes ten times as long, and there are tens of thousands on a big server.
    """
    if b'": ' in config:
        with reading("the configuration"):
            config = msgspec.json.format(config, indent=-1)
    if b'"_nats.ver":' in config or b'"_nats.level":' in config:
        head, metadata, rest = config.partition(_METADATA)
        config = head + _as_listed(metadata + rest) if metadata else _as_listed(head)
    return hash(config)


def _marked(known: _Mark | None, created: str, config: bytes) -> tuple[_Mark, bool]:
    """Return the mark of a configuration, and whether it is new or changed."""
    text_hash = hash(config)
    same = known is not None and known.created == created
    if known is not None and same and text_hash in known.text_hashes:
        return known, False
    meaning_hash = _meaning_hash(config)
    if known is not None and same and meaning_hash == known.meaning_hash:
        return _Mark(created, meaning_hash, (*known.text_hashes[-1:], text_hash)), False
    return _Mark(created, meaning_hash, (text_hash,)), True


class ConfigurationHashes:
    """Remembers the last configuration of every stream and consumer by hashes."""

    def __init__(self) -> None:
        self._streams: dict[str, _Mark] = {}
        self._consumers: dict[str, dict[str, _Mark]] = {}
        self._replicas_count: dict[str, int] = {}

    def changed_in(
        self, at_us: int, streams: StreamsSeen, consumers: ConsumersSeen, living: set[str]
    ) -> Configured | None:
        """Return what is new in the poll of a moment, if anything is, and forget what is gone.

        `living` are all streams that exist, as far as is known.
        """
        new_streams = self.new_streams(streams.rows)
        new_consumers = self.new_consumers(consumers.rows.values())
        if streams.complete:
            self.keep_streams(living)
        listed: dict[str, set[str]] = {stream: set() for stream in consumers.swept}
        for stream, name in consumers.rows.keys() | consumers.missing:
            listed.get(stream, set()).add(name)
        for stream, names in listed.items():
            self.keep_consumers(stream, names)
        if not new_streams and not new_consumers:
            return None
        return Configured(at_us, new_streams, new_consumers)

    def new_streams(self, rows: Iterable[StreamRow]) -> tuple[StreamConfiguration, ...]:
        """Return the configurations that changed or are new, and remember them."""
        changed = []
        for row in rows:
            mark, is_new = _marked(self._streams.get(row.name), row.created, bytes(row.config))
            if is_new:
                configuration = stream_configuration(row)
                changed.append(configuration)
                self._replicas_count[row.name] = configuration.replicas_count
            self._streams[row.name] = mark
        return tuple(changed)

    def new_consumers(self, rows: Iterable[ConsumerRow]) -> tuple[ConsumerConfiguration, ...]:
        """Return the configurations that changed or are new, and remember them."""
        changed = []
        for row in rows:
            marks = self._consumers.setdefault(row.stream_name, {})
            mark, is_new = _marked(marks.get(row.name), row.created, bytes(row.config))
            if is_new:
                replicas_count = self._replicas_count.get(row.stream_name, 1)
                changed.append(consumer_configuration(row, replicas_count))
            marks[row.name] = mark
        return tuple(changed)

    def consumers_of(self, stream: str) -> set[str]:
        """Return the names of a stream's consumers."""
        return set(self._consumers.get(stream, ()))

    def keep_streams(self, names: set[str]) -> None:
        """Forget all other streams, with their consumers."""
        for gone in self._streams.keys() - names:
            del self._streams[gone]
            self._replicas_count.pop(gone, None)
        for gone in self._consumers.keys() - names:
            del self._consumers[gone]

    def keep_consumers(self, stream: str, names: set[str]) -> None:
        """Forget all other consumers of a stream."""
        marks = self._consumers.get(stream, {})
        for gone in marks.keys() - names:
            del marks[gone]
