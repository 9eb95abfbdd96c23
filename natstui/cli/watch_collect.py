"""A sink for `natstui watch`: folds records, and keeps what happened until it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from natstui.cli.watch_build import consumer_rows, removed_rows, stream_rows
from natstui.cli.watch_build_server import account_row, server_row
from natstui.cli.watch_rows import Row
from natstui.cli.watch_rows_events import AdvisoryRow, RestoredRow, UnavailableRow
from natstui.model.record import Advisory, LinkChanged, Record, Restored, Unavailable
from natstui.model.snapshot import Snapshot
from natstui.model.state import State


class Collector:
    """A sink that folds records, and keeps what happened until it is taken."""

    def __init__(self) -> None:
        self.state = State()
        self.polls_count = 0
        self.changed = asyncio.Event()
        self._happened: list[Row] = []
        self._swept: set[str] = set()

    def add(self, record: Record) -> None:
        """Take one record."""
        before, self.state = self.state, self.state.after(record)
        if isinstance(record, Snapshot):
            self.polls_count += 1
            self._swept.update(record.swept_streams)
            if record.consumers_complete:
                self._swept.update(self.state.streams.columns.name)
        self._happened += _happening(before, record, self.state)
        if isinstance(record, Snapshot | LinkChanged | Unavailable):
            self.changed.set()

    def take(self) -> list[Row]:
        """Return what happened since the last time."""
        self.changed.clear()
        happened, self._happened = self._happened, []
        return happened

    @property
    def is_complete(self) -> bool:
        """Whether every stream was listed, and the consumers of each."""
        columns = self.state.streams.columns
        counts = zip(columns.name, columns.consumers_count, strict=True)
        return self.polls_count > 0 and all(not n or name in self._swept for name, n in counts)

    @property
    def trouble(self) -> Unavailable | None:
        """Why the streams or consumers cannot be listed, if they cannot."""
        for what, told in self.state.unavailable.items():
            is_list = what.startswith(("STREAM.LIST", "CONSUMER.LIST", "answers"))
            if is_list or (what == "INFO" and told.denied_subject is None):
                return told
        return None


def _happening(before: State, record: Record, after: State) -> Iterator[Row]:
    """Yield the rows of a record that is worth one at once."""
    match record:
        case Snapshot():
            yield from removed_rows(before, after)
        case LinkChanged() if record.state != "connected" and (row := server_row(after)):
            yield row
        case Unavailable():
            yield UnavailableRow(
                name=record.what,
                at_us=record.at_us,
                reason=record.reason,
                denied_subject=record.denied_subject,
            )
        case Restored():
            yield RestoredRow(name=record.what, at_us=record.at_us)
        case Advisory():
            yield AdvisoryRow(
                name=record.type,
                at_us=record.at_us,
                stream=record.stream,
                consumer=record.consumer,
                text=record.text,
            )
        case _:
            return


def present_rows(state: State, since_mono_us: int = 0) -> Iterator[Row]:
    """Yield server and account, then the streams and consumers sampled after a moment."""
    for row in (server_row(state), account_row(state)):
        if row is not None:
            yield row
    yield from stream_rows(state, since_mono_us)
    yield from consumer_rows(state, since_mono_us)
