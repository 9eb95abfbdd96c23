"""The engine's parts without a viewer: connect, poll, listen, fold, and write rows."""

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
    """A sink that folds records, and keeps what happened until it is taken."""

    def __init__(self) -> None:
        self.state = State()
        self.polls_count = 0
        self.changed = asyncio.Event()
        self._happened: list[Row] = []
        self._swept: set[str] = set()
        self._listed = False

    def add(self, record: Record) -> None:
        """Take one record."""
        before, self.state = self.state, judged_after(self.state, record)
        if isinstance(record, Snapshot):
            self.polls_count += 1
            self._listed = self._listed or record.streams_complete
            self._swept.update(record.swept_streams)
            if record.consumers_complete:
                self._swept.update(self.state.streams.columns.name)
        self._happened += happened_rows(before, record, self.state)
        if isinstance(record, Snapshot | LinkChanged | Unavailable):
            self.changed.set()

    def take(self) -> list[Row]:
        """Return what happened since the last time."""
        self.changed.clear()
        happened, self._happened = self._happened, []
        return happened

    @property
    def now(self) -> State:
        """What is known, at the present moment: rows grow older without polls as well."""
        if not self.polls_count:
            return self.state
        return at_moment(self.state, time.monotonic_ns() // 1000 - self.state.now_mono_us)

    @property
    def is_complete(self) -> bool:
        """Whether every stream was listed, and the consumers of each that answers."""
        columns = self.state.streams.columns
        counts = zip(columns.name, columns.consumers_count, strict=True)
        away = self.state.unreachable_streams
        return self._listed and all(
            not n or name in self._swept or name in away for name, n in counts
        )

    @property
    def problem(self) -> Unavailable | None:
        """Why the streams or consumers cannot be listed, if they cannot."""
        for what, failure in self.state.unavailable.items():
            is_list = what.startswith(("STREAM.LIST", "CONSUMER.LIST", "answers"))
            if is_list or (what == "INFO" and failure.denied_subject is None):
                return failure
        return None


def all_rows(state: State) -> Iterator[Row]:
    """Yield server and account, then every stream and consumer."""
    yield from server_rows(state)
    yield from stream_rows(state)
    yield from consumer_rows(state)


class WrittenRows:
    """When the row of each stream and consumer was sampled, and whether it was stale, as written.

    Answers can overtake each other, so a row of one poll may be older than rows of the poll
    before it: each row is compared with what was last written of the same row.
    """

    def __init__(self) -> None:
        self._streams: Freshness = {}
        self._consumers: Freshness = {}

    def changed(self, state: State) -> tuple[list[int], list[int]]:
        """Return the rows of streams and of consumers that changed, and count them as written."""
        streams, consumers = stream_freshness(state), consumer_freshness(state)
        found = (
            [row for row, (key, it) in enumerate(streams.items()) if self._streams.get(key) != it],
            [r for r, (key, it) in enumerate(consumers.items()) if self._consumers.get(key) != it],
        )
        self._streams, self._consumers = streams, consumers
        return found


Write = Callable[[Iterable[Row]], None]

_ONCE_REQUESTS_PER_S = 300
_ONCE_RATES_S = 1.0
_LAGS_COUNT = 12
_LOOK_S = 1.0
"""How often rows are checked for staleness while nothing new comes."""


async def watch_once(connection: Connection, interval_s: float, write: Write) -> None:
    """Write one complete set with rates; raise the reason where that is not possible.

    Polls twice, because a rate needs two looks. Asks faster than a monitor may, for a short time.
    """
    collector, control = Collector(), PollControl(min(interval_s, _ONCE_RATES_S))
    client = await connect(connection, on_link=collector.add)
    try:
        polls = polling(client, control, collector, _ONCE_REQUESTS_PER_S)
        await beside(polls, _complete(collector, control))
        write([*collector.take(), *all_rows(collector.state)])
    finally:
        await client.close()
    if collector.problem is not None:
        raise RequestFailed(collector.problem.reason)
    if (left_out := left_out_text(collector.state)) is not None:
        raise RequestFailed(left_out)


_MOST_NAMED = 10


def left_out_text(state: State) -> str | None:
    """Return which streams and consumers do not answer; None where all do."""
    consumers = sorted(state.unreachable_consumers)
    away = [*sorted(state.unreachable_streams), *(f"{name} on {of}" for of, name in consumers)]
    if not away:
        return None
    more_count = len(away) - _MOST_NAMED
    more = f" and {more_count:,} more" if more_count > 0 else ""
    return f"not everything could be read: not reachable: {', '.join(away[:_MOST_NAMED])}{more}"


async def _complete(collector: Collector, control: PollControl) -> None:
    """Return once everything was seen and its rates are known, or cannot be."""
    while True:
        await _next_poll(collector)
        if collector.problem is not None:
            return
        if collector.is_complete:
            break
        control.poll_now()
    look_at_lags(control, collector.state)
    await _next_poll(collector)


async def _next_poll(collector: Collector) -> None:
    """Wait for a poll or its failure; raise ServerGone when the connection is lost meanwhile."""
    polls_count = collector.polls_count
    while collector.polls_count == polls_count and collector.problem is None:
        await collector.changed.wait()
        collector.changed.clear()
        link = collector.state.link
        if link is not None and link.state != "connected":
            raise ServerGone(link.reason or "the connection was lost")


async def watch_on(
    connection: Connection,
    interval_s: float,
    requests_per_s: float | None,
    write: Write,
    only_new: bool,
    collector: Collector,
) -> None:
    """Write what each poll saw until cancelled: all of it, or `only_new` values.

    What grows stale is written as well, whether polls come or not. `collector` is a new one, and
    knows at any time what was seen.
    """
    control = PollControl(interval_s)
    client = await connect(connection, on_link=collector.add)
    try:
        polls = polling(client, control, collector, requests_per_s)
        writing = _write_changes(collector, control, write, only_new)
        await beside(polls, *beside_polling(client, collector, requests_per_s), writing)
    finally:
        await client.close()


async def _write_changes(
    collector: Collector, control: PollControl, write: Write, only_new: bool
) -> None:
    written, polls_count = WrittenRows(), 0
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await collector.changed.wait()
        happened, state = collector.take(), collector.now
        polled, polls_count = collector.polls_count > polls_count, collector.polls_count
        if polled:
            look_at_lags(control, state)
        rows = _rows(state, written, polled, only_new)
        # In a thread: neither many rows nor a reader that has stopped may block the connection.
        await asyncio.to_thread(write, chain(happened, rows))


def _rows(state: State, written: WrittenRows, polled: bool, only_new: bool) -> Iterator[Row]:
    """Yield what is to be written after a poll, or after some time without one."""
    streams, consumers = written.changed(state)
    if only_new:
        if polled:
            yield from server_rows(state)
        yield from stream_rows(state, streams)
        yield from consumer_rows(state, consumers)
    elif polled or streams or consumers:
        yield from all_rows(state)


def look_at_lags(control: PollControl, state: State) -> None:
    """Have the poller ask for the next message of a few consumers with a backlog.

    What has a finding is polled in every poll.
    """
    control.prefer(frozenset(preferred(state.findings)))
    columns = state.consumers.columns
    behind = sorted(
        (row for row, pending in enumerate(columns.pending_msgs) if pending),
        key=columns.sampled_mono_us.__getitem__,
    )
    names = ((columns.stream[row], columns.name[row]) for row in behind[:_LAGS_COUNT])
    control.look_at((), tuple(names))


async def beside(*works: Coroutine[None, None, None]) -> None:
    """Run works until one ends or fails, and end the others with it."""
    tasks = {asyncio.create_task(work) for work in works}
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
