"""The engine's parts without a viewer: connect, poll, subscribe, fold, and write rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from itertools import chain

from natstui.cli.watch.assets import (
    Freshness,
    consumer_freshness,
    consumer_rows,
    stream_freshness,
    stream_rows,
)
from natstui.cli.watch.happened import happened_rows
from natstui.cli.watch.lines import Row
from natstui.cli.watch.server import server_rows
from natstui.config import Connection
from natstui.engine.live import beside_polling, polling
from natstui.errors import RequestFailed, ServerGone
from natstui.jetstream.connection.client import connect
from natstui.jetstream.polling.control import PollControl
from natstui.model.findings.attention import preferred
from natstui.model.findings.evaluate import judged_after
from natstui.model.live.age import at_moment
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Unavailable


class Collector:
    """A sink of records that folds them into a state, and queues rows of events."""

    def __init__(self) -> None:
        self.state = State()
        self.polls_count = 0
        self.changed = asyncio.Event()
        self._event_rows: list[Row] = []
        self._swept_streams: set[str] = set()
        self._is_listed = False

    def add(self, record: Record) -> None:
        """Fold a record into `state`, and queue its events.

        A poll, a failure of one, and a change of the connection set `changed`.
        """
        before, self.state = self.state, judged_after(self.state, record)
        if isinstance(record, Snapshot):
            self.polls_count += 1
            self._is_listed = self._is_listed or record.streams_complete
            self._swept_streams.update(record.swept_streams)
            if record.consumers_complete:
                self._swept_streams.update(self.state.streams.columns.name)
        self._event_rows += happened_rows(before, record, self.state)
        if isinstance(record, Snapshot | LinkChanged | Unavailable):
            self.changed.set()

    def take_events(self) -> list[Row]:
        """Return the rows of events since the last call, and clear `changed`."""
        self.changed.clear()
        event_rows, self._event_rows = self._event_rows, []
        return event_rows

    @property
    def now(self) -> State:
        """Return the state as old as it is now: rows become stale without polls too."""
        if not self.polls_count:
            return self.state
        return at_moment(self.state, time.monotonic_ns() // 1000 - self.state.now_mono_us)

    @property
    def is_complete(self) -> bool:
        """Return whether all streams are listed, and the consumers of each reachable one."""
        columns = self.state.streams.columns
        counts = zip(columns.name, columns.consumers_count, strict=True)
        unreachable = self.state.unreachable_streams
        return self._is_listed and all(
            not consumers_count or name in self._swept_streams or name in unreachable
            for name, consumers_count in counts
        )

    @property
    def problem(self) -> Unavailable | None:
        """Return why streams or consumers cannot be listed or read; None if they can."""
        for source, failure in self.state.unavailable.items():
            is_list = source.startswith(("STREAM.LIST", "CONSUMER.LIST", "answers"))
            if is_list or (source == "INFO" and failure.denied_subject is None):
                return failure
        return None


def all_rows(state: State) -> Iterator[Row]:
    """Yield the rows of server and account, then of every stream, then of every consumer."""
    yield from server_rows(state)
    yield from stream_rows(state)
    yield from consumer_rows(state)


class WrittenRows:
    """The sample time and staleness of each row as last written.

    Replies can overtake each other, so a row of one poll may be older than in the previous poll:
    each row is compared with its last written version.
    """

    def __init__(self) -> None:
        self._streams: Freshness = {}
        self._consumers: Freshness = {}

    def changed(self, state: State) -> tuple[list[int], list[int]]:
        """Return the indexes of streams, and of consumers, with another sample or staleness than
        written.

        Keeps the current ones as written.
        """
        streams, consumers = stream_freshness(state), consumer_freshness(state)
        changed_rows = (
            [
                row
                for row, (key, freshness) in enumerate(streams.items())
                if self._streams.get(key) != freshness
            ],
            [
                r
                for r, (key, freshness) in enumerate(consumers.items())
                if self._consumers.get(key) != freshness
            ],
        )
        self._streams, self._consumers = streams, consumers
        return changed_rows


Write = Callable[[Iterable[Row]], None]

_ONCE_REQUESTS_PER_S = 300
_ONCE_INTERVAL_S = 1.0
_LAG_CONSUMERS_COUNT = 12
_STALENESS_CHECK_S = 1.0
"""Interval of staleness checks without new records."""


async def watch_once(connection: Connection, interval_s: float, write: Write) -> None:
    """Write one complete set of rows with rates, and return.

    Polls twice, because a rate needs two polls, each `interval_s` or 1 s, whichever is shorter,
    and with more requests than a monitor may send. Raises ConnectionFailed, ServerGone if the
    connection is lost, and RequestFailed after writing if not everything could be read.
    """
    collector, control = Collector(), PollControl(min(interval_s, _ONCE_INTERVAL_S))
    client = await connect(connection, on_link=collector.add)
    try:
        poll_work = polling(client, control, collector, _ONCE_REQUESTS_PER_S)
        await run_until_first_ends(poll_work, _wait_until_complete(collector, control))
        write([*collector.take_events(), *all_rows(collector.state)])
    finally:
        await client.close()
    if collector.problem is not None:
        raise RequestFailed(f"{collector.problem.what}: {collector.problem.reason}")
    if (left_out := left_out_text(collector.state)) is not None:
        raise RequestFailed(left_out)


_MOST_NAMES = 10


def left_out_text(state: State) -> str | None:
    """Return a sentence with the unreachable streams and consumers; None if there are none."""
    consumers = sorted(state.unreachable_consumers)
    names = [
        *sorted(state.unreachable_streams),
        *(f"{name} on {stream}" for stream, name in consumers),
    ]
    if not names:
        return None
    more_count = len(names) - _MOST_NAMES
    more_text = f" and {more_count:,} more" if more_count > 0 else ""
    return (
        f"not everything could be read: not reachable: {', '.join(names[:_MOST_NAMES])}{more_text}"
    )


async def _wait_until_complete(collector: Collector, control: PollControl) -> None:
    """Return when everything was read with rates, or cannot be."""
    while True:
        await _wait_for_poll(collector)
        if collector.problem is not None:
            return
        if collector.is_complete:
            break
        control.poll_now()
    request_lags(control, collector.state)
    await _wait_for_poll(collector)


async def _wait_for_poll(collector: Collector) -> None:
    """Wait for a poll or its failure; raises ServerGone when the connection is lost meanwhile."""
    polls_count = collector.polls_count
    while collector.polls_count == polls_count and collector.problem is None:
        await collector.changed.wait()
        collector.changed.clear()
        link = collector.state.link
        if link is not None and link.state != "connected":
            raise ServerGone(link.reason or "the connection was lost")


async def watch_until_cancelled(
    connection: Connection,
    interval_s: float,
    requests_per_s: float | None,
    write: Write,
    only_new: bool,
    collector: Collector,
) -> None:
    """Poll each `interval_s`, and write the rows of each poll until cancelled.

    `requests_per_s` is the limit of requests, None: no limit. With `only_new`, only rows with a
    new sample or that became stale are written, else all rows. `collector` is a new one; its state
    can be read at any time. Raises ConnectionFailed, and what `write` raises.
    """
    control = PollControl(interval_s)
    client = await connect(connection, on_link=collector.add)
    try:
        poll_work = polling(client, control, collector, requests_per_s)
        write_work = _write_changes(collector, control, write, only_new)
        await run_until_first_ends(
            poll_work, *beside_polling(client, collector, requests_per_s), write_work
        )
    finally:
        await client.close()


async def _write_changes(
    collector: Collector, control: PollControl, write: Write, only_new: bool
) -> None:
    written_rows, polls_count = WrittenRows(), 0
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STALENESS_CHECK_S):
                await collector.changed.wait()
        event_rows, state = collector.take_events(), collector.now
        has_polled, polls_count = collector.polls_count > polls_count, collector.polls_count
        if has_polled:
            request_lags(control, state)
        rows = _rows_to_write(state, written_rows, has_polled, only_new)
        # In a thread: neither many rows nor a reader that has stopped may block the connection.
        await asyncio.to_thread(write, chain(event_rows, rows))


def _rows_to_write(
    state: State, written_rows: WrittenRows, has_polled: bool, only_new: bool
) -> Iterator[Row]:
    """Yield the rows to write after a poll, or after some time without one."""
    streams, consumers = written_rows.changed(state)
    if only_new:
        if has_polled:
            yield from server_rows(state)
        yield from stream_rows(state, streams)
        yield from consumer_rows(state, consumers)
    elif has_polled or streams or consumers:
        yield from all_rows(state)


def request_lags(control: PollControl, state: State) -> None:
    """Make the poller read the next message of 12 consumers with pending messages.

    They are those with the oldest samples. Rows with a finding are preferred in every poll.
    """
    control.prefer(frozenset(preferred(state.findings)))
    columns = state.consumers.columns
    lagging = sorted(
        (row for row, pending in enumerate(columns.pending_msgs) if pending),
        key=columns.sampled_mono_us.__getitem__,
    )
    names = ((columns.stream[row], columns.name[row]) for row in lagging[:_LAG_CONSUMERS_COUNT])
    control.look_at((), tuple(names))


async def run_until_first_ends(*coroutines: Coroutine[None, None, None]) -> None:
    """Run coroutines until the first one ends, cancel the others, and raise its error, if any."""
    tasks = {asyncio.create_task(coroutine) for coroutine in coroutines}
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
