"""Detects new and changed configurations: only these are decoded and reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.polling.decode.consumers import ConsumerRow, consumer_configuration
from natstui.jetstream.polling.decode.streams import StreamRow, stream_configuration
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.records.record import Configured

_ADDED_METADATA = re.compile(rb',?"_nats\.(?:ver|level)":"[^"\\]*"')
"""Metadata that `INFO` adds and the list of a cluster does not."""
_NO_METADATA = re.compile(rb',?"metadata":\{\}')


_METADATA = b',"metadata":{'


def _normalize_metadata(end: bytes) -> bytes:
    """Return the end of a configuration, from its metadata on, as the list has it."""
    return _NO_METADATA.sub(b"", _ADDED_METADATA.sub(b"", end).replace(b"{,", b"{"))


class _Hashes(NamedTuple):
    """The creation time of a stream or consumer, and hashes of its configuration."""

    created: str
    value_hash: int
    byte_hashes: tuple[int, ...]
    """Hashes of the raw bytes, as in `INFO` and in the list."""


def _hash_values(config: bytes) -> int:
    """Return a hash of a configuration in any format; raises RequestFailed if it is unreadable.

    Servers write the same fields in the same order everywhere, the monitoring ports with spaces
    and line breaks. So the text is compared: parsing takes ten times as long, and a big server has
    tens of thousands of configurations.
    """
    if b'": ' in config:
        with raise_unreadable("the configuration"):
            config = msgspec.json.format(config, indent=-1)
    if b'"_nats.ver":' in config or b'"_nats.level":' in config:
        head, metadata, tail = config.partition(_METADATA)
        config = (
            head + _normalize_metadata(metadata + tail) if metadata else _normalize_metadata(head)
        )
    return hash(config)


def _compare_hashes(
    known: _Hashes | None, created_text: str, config: bytes
) -> tuple[_Hashes, bool]:
    """Return the hashes of a configuration, and whether it is new or changed."""
    text_hash = hash(config)
    is_same_asset = known is not None and known.created == created_text
    if known is not None and is_same_asset and text_hash in known.byte_hashes:
        return known, False
    value_hash = _hash_values(config)
    if known is not None and is_same_asset and value_hash == known.value_hash:
        return _Hashes(created_text, value_hash, (*known.byte_hashes[-1:], text_hash)), False
    return _Hashes(created_text, value_hash, (text_hash,)), True


class ConfigurationHashes:
    """Stores hashes of the last configuration of every stream and consumer."""

    def __init__(self) -> None:
        self._streams: dict[str, _Hashes] = {}
        self._consumers: dict[str, dict[str, _Hashes]] = {}
        self._replicas_count: dict[str, int] = {}

    def find_changes(
        self,
        at_us: int,
        streams: PolledStreams,
        consumers: PolledConsumers,
        existing_streams: set[str],
    ) -> Configured | None:
        """Return the new and changed configurations of a poll, or None; discard those of deleted
        streams and consumers.

        `existing_streams` are all streams that are known to exist.
        """
        new_streams = self.update_streams(streams.rows)
        new_consumers = self.update_consumers(consumers.rows.values())
        if streams.complete:
            self.keep_streams(existing_streams)
        listed_names: dict[str, set[str]] = {stream: set() for stream in consumers.swept}
        for stream, name in consumers.rows.keys() | consumers.missing:
            listed_names.get(stream, set()).add(name)
        for stream, names in listed_names.items():
            self.keep_consumers(stream, names)
        if not new_streams and not new_consumers:
            return None
        return Configured(at_us, new_streams, new_consumers)

    def update_streams(self, rows: Iterable[StreamRow]) -> tuple[StreamConfiguration, ...]:
        """Store the hashes of configurations; return the new and changed ones."""
        changed_rows = []
        for row in rows:
            hashes, is_changed = _compare_hashes(
                self._streams.get(row.name), row.created, bytes(row.config)
            )
            if is_changed:
                configuration = stream_configuration(row)
                changed_rows.append(configuration)
                self._replicas_count[row.name] = configuration.replicas_count
            self._streams[row.name] = hashes
        return tuple(changed_rows)

    def update_consumers(self, rows: Iterable[ConsumerRow]) -> tuple[ConsumerConfiguration, ...]:
        """Store the hashes of configurations; return the new and changed ones."""
        changed_rows = []
        for row in rows:
            hashes_by_name = self._consumers.setdefault(row.stream_name, {})
            hashes, is_changed = _compare_hashes(
                hashes_by_name.get(row.name), row.created, bytes(row.config)
            )
            if is_changed:
                replicas_count = self._replicas_count.get(row.stream_name, 1)
                changed_rows.append(consumer_configuration(row, replicas_count))
            hashes_by_name[row.name] = hashes
        return tuple(changed_rows)

    def consumer_names(self, stream: str) -> set[str]:
        """Return the names of a stream's consumers."""
        return set(self._consumers.get(stream, ()))

    def keep_streams(self, names: set[str]) -> None:
        """Discard all streams but these, with their consumers."""
        for removed in self._streams.keys() - names:
            del self._streams[removed]
            self._replicas_count.pop(removed, None)
        for removed in self._consumers.keys() - names:
            del self._consumers[removed]

    def keep_consumers(self, stream: str, names: set[str]) -> None:
        """Discard all consumers of a stream but these."""
        hashes_by_name = self._consumers.get(stream, {})
        for removed in hashes_by_name.keys() - names:
            del hashes_by_name[removed]
