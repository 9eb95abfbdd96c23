"""Which configurations were seen already: only new and changed ones are decoded and told."""

from __future__ import annotations

from collections.abc import Iterable

from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_consumer_configuration import consumer_configuration
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.decode_stream_configuration import stream_configuration
from natstui.jetstream.poll_snapshot import ConsumersSeen, StreamsSeen
from natstui.model.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.record import Configured


class KnownConfigurations:
    """Remembers the last configuration of every stream and consumer by a hash of its bytes."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[str, int]] = {}
        self._consumers: dict[str, dict[str, tuple[str, int]]] = {}
        self._replicas_count: dict[str, int] = {}

    def take_up(
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
            mark = (row.created, hash(bytes(row.config)))
            if self._streams.get(row.name) != mark:
                configuration = stream_configuration(row)
                changed.append(configuration)
                self._streams[row.name] = mark
                self._replicas_count[row.name] = configuration.replicas_count
        return tuple(changed)

    def new_consumers(self, rows: Iterable[ConsumerRow]) -> tuple[ConsumerConfiguration, ...]:
        """Return the configurations that changed or are new, and remember them."""
        changed = []
        for row in rows:
            marks = self._consumers.setdefault(row.stream_name, {})
            mark = (row.created, hash(bytes(row.config)))
            if marks.get(row.name) != mark:
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
