"""Detects new and changed configurations: only these are decoded and reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from natstui.errors import RequestFailed
from natstui.jetstream.connection.decode.consumers import ConsumerRow, consumer_configuration
from natstui.jetstream.connection.decode.streams import StreamRow, stream_configuration
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.records.record import Configured

_INFO_METADATA = re.compile(rb',?"_nats\.(?:ver|level)":"[^"\\]*"')
"""Metadata that `INFO` adds and the list of a cluster does not."""
_EMPTY_METADATA = re.compile(rb',?"metadata":\{\}')


_DEFAULT_REPLICAS_COUNT = 1
_OWN_REPLICAS = re.compile(rb'"num_replicas":\s*[1-9]')
"""A consumer's own number of replicas; without one, it has its stream's."""
_METADATA_START = b',"metadata":{'


def _normalize_metadata(config_end: bytes) -> bytes:
    """Return a configuration from its metadata on, without the metadata that `INFO` adds."""
    return _EMPTY_METADATA.sub(b"", _INFO_METADATA.sub(b"", config_end).replace(b"{,", b"{"))


class _AssetHashes(NamedTuple):
    """The creation time of a stream or consumer, and hashes of its configuration."""

    created: str
    value_hash: int
    byte_hashes: tuple[int, ...]
    """Hashes of the raw bytes, as in `INFO` and in the list."""


def _hash_values(config: bytes) -> int:
    """Return the hash of a configuration in any format; raises RequestFailed if unreadable.

    Servers write the same fields in the same order everywhere, the monitoring ports with spaces
    and line breaks. So the text is compared: parsing takes ten times as long, and a big server has
    tens of thousands of configurations.
    """
    if b'": ' in config:
        with raise_unreadable("the configuration"):
            config = msgspec.json.format(config, indent=-1)
    if b'"_nats.ver":' in config or b'"_nats.level":' in config:
        config_start, metadata, config_rest = config.partition(_METADATA_START)
        config = (
            config_start + _normalize_metadata(metadata + config_rest)
            if metadata
            else _normalize_metadata(config_start)
        )
    return hash(config)


def _compare_hashes(
    known_hashes: _AssetHashes | None, created_text: str, config: bytes
) -> tuple[_AssetHashes, bool]:
    """Return the hashes of a configuration, and whether it is new or changed."""
    text_hash = hash(config)
    is_same_asset = known_hashes is not None and known_hashes.created == created_text
    if known_hashes is not None and is_same_asset and text_hash in known_hashes.byte_hashes:
        return known_hashes, False
    value_hash = _hash_values(config)
    if known_hashes is not None and is_same_asset and value_hash == known_hashes.value_hash:
        return _AssetHashes(
            created_text, value_hash, (*known_hashes.byte_hashes[-1:], text_hash)
        ), False
    return _AssetHashes(created_text, value_hash, (text_hash,)), True


class ConfigurationHashes:
    """Stores hashes of the last configuration of every stream and consumer."""

    def __init__(self) -> None:
        self._stream_hashes: dict[str, _AssetHashes | None] = {}
        """Stream → its hashes; None if its configuration is not reported yet."""
        self._consumer_hashes: dict[str, dict[str, _AssetHashes | None]] = {}
        """Stream → consumer → the same of the consumer."""
        self._unreported_hashes_and_names: list[tuple[dict[str, _AssetHashes | None], str]] = []
        """The changes of the current poll: each as its dictionary of hashes, and its name."""
        self._replicas_count_by_stream: dict[str, int] = {}
        self._names_with_old_replicas: dict[str, set[str]] = {}
        """Stream → its consumers that were reported before its number of replicas changed."""

    def find_changes(
        self,
        at_us: int,
        streams: PolledStreams,
        consumers: PolledConsumers,
        existing_streams: set[str],
    ) -> Configured | None:
        """Return the new and changed configurations of a poll, or None; discard those of deleted
        streams and consumers.

        `existing_streams` are all streams that are known to exist. Raises RequestFailed if a
        configuration is unreadable; the other changes are returned by the next call.
        """
        self._unreported_hashes_and_names.clear()
        try:
            new_streams = self.update_streams(streams.rows)
            new_consumers = self.update_consumers(consumers.rows.values())
        except RequestFailed:
            for hashes_by_name, name in self._unreported_hashes_and_names:
                hashes_by_name[name] = None
            raise
        if streams.is_complete:
            self.keep_streams(existing_streams)
        listed_names: dict[str, set[str]] = {stream: set() for stream in consumers.swept_streams}
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
                self._stream_hashes.get(row.name), row.created, bytes(row.config)
            )
            if is_changed:
                self._unreported_hashes_and_names.append((self._stream_hashes, row.name))
                configuration = stream_configuration(row)
                changed_rows.append(configuration)
                if configuration.replicas_count != self._replicas_count_by_stream.get(
                    row.name, _DEFAULT_REPLICAS_COUNT
                ):
                    self._names_with_old_replicas[row.name] = self.consumer_names(row.name)
                self._replicas_count_by_stream[row.name] = configuration.replicas_count
            self._stream_hashes[row.name] = hashes
        return tuple(changed_rows)

    def update_consumers(self, rows: Iterable[ConsumerRow]) -> tuple[ConsumerConfiguration, ...]:
        """Store the hashes of configurations; return the new and changed ones.

        A consumer with the replicas of its stream is also changed when that number is.
        """
        changed_rows = []
        for row in rows:
            hashes_by_name = self._consumer_hashes.setdefault(row.stream_name, {})
            hashes, is_changed = _compare_hashes(
                hashes_by_name.get(row.name), row.created, bytes(row.config)
            )
            names_with_old_replicas = self._names_with_old_replicas.get(row.stream_name)
            if names_with_old_replicas and row.name in names_with_old_replicas:
                names_with_old_replicas.remove(row.name)
                is_changed = is_changed or _OWN_REPLICAS.search(bytes(row.config)) is None
            if is_changed:
                self._unreported_hashes_and_names.append((hashes_by_name, row.name))
                replicas_count = self._replicas_count_by_stream.get(
                    row.stream_name, _DEFAULT_REPLICAS_COUNT
                )
                changed_rows.append(consumer_configuration(row, replicas_count))
            hashes_by_name[row.name] = hashes
        return tuple(changed_rows)

    def consumer_names(self, stream: str) -> set[str]:
        """Return the names of a stream's consumers."""
        return set(self._consumer_hashes.get(stream, ()))

    def keep_streams(self, names: set[str]) -> None:
        """Discard all streams but these, with their consumers."""
        for removed_name in self._stream_hashes.keys() - names:
            del self._stream_hashes[removed_name]
            self._replicas_count_by_stream.pop(removed_name, None)
            self._names_with_old_replicas.pop(removed_name, None)
        for removed_name in self._consumer_hashes.keys() - names:
            del self._consumer_hashes[removed_name]

    def keep_consumers(self, stream: str, names: set[str]) -> None:
        """Discard all consumers of a stream but these."""
        hashes_by_name = self._consumer_hashes.get(stream, {})
        for removed_name in hashes_by_name.keys() - names:
            del hashes_by_name[removed_name]
            self._names_with_old_replicas.get(stream, set()).discard(removed_name)
