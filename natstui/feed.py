"""The message bus: sources push records into sinks; a `Feed` passes them to several sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from natstui.model.records.record import Record


class Sink(Protocol):
    """Receives records in their order, and never blocks."""

    def add(self, record: Record) -> None:
        """Receive a record and return at once: a sink does slow work in the background."""


class Feed:
    """Passes every record to its sinks in their order, the recorder first."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._sinks: list[Sink] = list(sinks)

    def add(self, record: Record) -> None:
        """Pass a record to every sink."""
        for sink in self._sinks:
            sink.add(record)

    def add_sink(self, sink: Sink, *, first: bool = False) -> None:
        """Add a sink, before all others when `first`."""
        self._sinks.insert(0 if first else len(self._sinks), sink)

    def remove_sink(self, sink: Sink) -> None:
        """Remove a sink."""
        self._sinks.remove(sink)
