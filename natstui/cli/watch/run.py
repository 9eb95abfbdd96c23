"""Runs `natstui watch`: the engine's parts without a viewer, or a process per system.

One system is watched in this process: it connects, polls, subscribes, and writes rows. Several
systems have a process each, whose lines are passed on, so that a hanging or failing process does
not affect the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Literal

import msgspec
from msgspec import Struct

from natstui.children import module_command
from natstui.clean import clean_line
from natstui.cli.watch.assets import (
    FreshnessByKey,
    consumer_freshness,
    consumer_rows,
    stream_freshness,
    stream_rows,
)
from natstui.cli.watch.events import SystemRow, create_event_rows
from natstui.cli.watch.lines import Row, json_line
from natstui.cli.watch.server import server_rows
from natstui.clock import steady_us
from natstui.config import Connection
from natstui.decoding import decoder_of
from natstui.engine.live import make_background_readers, make_poller
from natstui.engine.stopping import make_stop_event
from natstui.errors import ConnectionLost, RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.polling.control import PollControl
from natstui.model.findings.attention import find_preferred_consumers
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.age import state_at_poll_age
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Unavailable


class WatchCollector:
    """A sink of records that applies them to a state, and queues rows of events."""

    def __init__(self) -> None:
        self.state = State()
        self.polls_count = 0
        self.change_event = asyncio.Event()
        self._event_rows: list[Row] = []
        self._streams_with_listed_consumers: set[str] = set()
        self._are_streams_listed = False

    def add(self, record: Record) -> None:
        """Apply a record to `state`, and queue the rows of its events.

        A poll, a failed poll, and a change of the connection set `change_event`.
        """
        state_before, self.state = self.state, apply_and_evaluate(self.state, record)
        if isinstance(record, Snapshot):
            self.polls_count += 1
            self._are_streams_listed = self._are_streams_listed or record.streams_complete
            self._streams_with_listed_consumers.update(record.swept_streams)
            if record.consumers_complete:
                self._streams_with_listed_consumers.update(self.state.streams.columns.name)
        self._event_rows += create_event_rows(state_before, record, self.state)
        if isinstance(record, Snapshot | LinkChanged | Unavailable):
            self.change_event.set()

    def pop_events(self) -> list[Row]:
        """Return the rows of events since the last call, and clear `change_event`."""
        self.change_event.clear()
        event_rows, self._event_rows = self._event_rows, []
        return event_rows

    @property
    def current_state(self) -> State:
        """Return the state with the age of each row as of now: a row becomes stale without a poll,
        too.
        """
        if not self.polls_count:
            return self.state
        return state_at_poll_age(self.state, steady_us() - self.state.now_mono_us)

    @property
    def is_complete(self) -> bool:
        """Return whether all streams are listed, and the consumers of each reachable stream."""
        columns = self.state.streams.columns
        counts = zip(columns.name, columns.consumers_count, strict=True)
        unreachable_streams = self.state.unreachable_streams
        return self._are_streams_listed and all(
            not consumers_count
            or name in self._streams_with_listed_consumers
            or name in unreachable_streams
            for name, consumers_count in counts
        )

    @property
    def problem(self) -> Unavailable | None:
        """Return why streams or consumers cannot be listed or read; None if they can be."""
        for source, failure in self.state.unavailable.items():
            is_list_request = source.startswith(("STREAM.LIST", "CONSUMER.LIST", "answers"))
            if is_list_request or (source == "INFO" and failure.denied_subject is None):
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
        self._stream_freshness: FreshnessByKey = {}
        self._consumer_freshness: FreshnessByKey = {}

    def update(self, state: State) -> tuple[list[int], list[int]]:
        """Return the indexes of streams, and of consumers, whose sample or staleness differs from
        the one written last.

        Remembers the current samples and staleness as written.
        """
        streams, consumers = stream_freshness(state), consumer_freshness(state)
        changed_rows = (
            [
                row
                for row, (key, freshness) in enumerate(streams.items())
                if self._stream_freshness.get(key) != freshness
            ],
            [
                row
                for row, (key, freshness) in enumerate(consumers.items())
                if self._consumer_freshness.get(key) != freshness
            ],
        )
        self._stream_freshness, self._consumer_freshness = streams, consumers
        return changed_rows


WriteRows = Callable[[Iterable[Row]], None]

_ONCE_REQUESTS_PER_S = 300
_ONCE_INTERVAL_S = 1.0
_LAG_SAMPLED_CONSUMERS_COUNT = 12
_STALENESS_CHECK_S = 1.0
"""Interval of staleness checks without new records."""


async def watch_once(connection: Connection, interval_s: float, write: WriteRows) -> None:
    """Write one complete set of rows with rates, and return.

    Polls twice, because a rate needs two polls: `interval_s` apart, but 1 s at most. Sends up
    to 300 requests per second, regardless of the settings. Raises ConnectionFailed, ConnectionLost
    if the connection is lost, and RequestFailed after writing if not everything could be read.
    """
    collector, control = WatchCollector(), PollControl(min(interval_s, _ONCE_INTERVAL_S))
    client = await connect(connection, on_link=collector.add)
    try:
        poll_work = make_poller(client, control, collector, _ONCE_REQUESTS_PER_S)
        await run_until_first_ends(poll_work, _wait_until_complete(collector, control))
        write([*collector.pop_events(), *all_rows(collector.state)])
    finally:
        await client.close()
    if collector.problem is not None:
        raise RequestFailed(f"{collector.problem.what}: {collector.problem.reason}")
    if (text := unreachable_text(collector.state)) is not None:
        raise RequestFailed(text)


_MAX_NAMES = 10


def unreachable_text(state: State) -> str | None:
    """Return a sentence with the unreachable streams and consumers; None if there are none."""
    consumers = sorted(state.unreachable_consumers)
    names = [
        *sorted(state.unreachable_streams),
        *(f"{name} on {stream}" for stream, name in consumers),
    ]
    if not names:
        return None
    more_count = len(names) - _MAX_NAMES
    more_text = f" and {more_count:,} more" if more_count > 0 else ""
    return (
        f"not everything could be read: not reachable: {', '.join(names[:_MAX_NAMES])}{more_text}"
    )


async def _wait_until_complete(collector: WatchCollector, control: PollControl) -> None:
    """Wait until everything was read twice, for rates, or until something cannot be read."""
    while True:
        await _wait_for_poll(collector)
        if collector.problem is not None:
            return
        if collector.is_complete:
            break
        control.poll_now()
    request_lag_samples(control, collector.state)
    await _wait_for_poll(collector)


async def _wait_for_poll(collector: WatchCollector) -> None:
    """Wait for a poll or its failure; raises ConnectionLost if the connection is lost."""
    polls_count = collector.polls_count
    while collector.polls_count == polls_count and collector.problem is None:
        await collector.change_event.wait()
        collector.change_event.clear()
        link = collector.state.link
        if link is not None and link.state != "connected":
            raise ConnectionLost(link.reason or "the connection was lost")


async def watch_until_cancelled(
    connection: Connection,
    interval_s: float,
    requests_per_s: float | None,
    write: WriteRows,
    only_changed_rows: bool,
    collector: WatchCollector,
) -> None:
    """Poll each `interval_s`, and write the rows of each poll until cancelled.

    `requests_per_s` is the limit of requests, None: no limit. With `only_changed_rows`,
    writes only rows that have a new sample or became stale. `collector` must be new; its state can
    be read at any time. Raises ConnectionFailed, and what `write` raises.
    """
    control = PollControl(interval_s)
    client = await connect(connection, on_link=collector.add)
    try:
        poll_work = make_poller(client, control, collector, requests_per_s)
        write_work = _write_changes(collector, control, write, only_changed_rows)
        await run_until_first_ends(
            poll_work, *make_background_readers(client, collector, requests_per_s), write_work
        )
    finally:
        await client.close()


async def _write_changes(
    collector: WatchCollector, control: PollControl, write: WriteRows, only_changed_rows: bool
) -> None:
    written_rows, polls_count = WrittenRows(), 0
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STALENESS_CHECK_S):
                await collector.change_event.wait()
        event_rows, state = collector.pop_events(), collector.current_state
        has_polled, polls_count = collector.polls_count > polls_count, collector.polls_count
        if has_polled:
            request_lag_samples(control, state)
        rows = _rows_to_write(state, written_rows, has_polled, only_changed_rows)
        # In a thread: neither many rows nor a reader that has stopped may block the connection.
        await asyncio.to_thread(write, chain(event_rows, rows))


def _rows_to_write(
    state: State, written_rows: WrittenRows, has_polled: bool, only_changed_rows: bool
) -> Iterator[Row]:
    """Yield the rows to write after a poll, or after an interval without a poll.

    With `only_changed_rows` these are the rows that changed; otherwise all rows, if
    there was a poll or a row became stale.
    """
    streams, consumers = written_rows.update(state)
    if only_changed_rows:
        if has_polled:
            yield from server_rows(state)
        yield from stream_rows(state, streams)
        yield from consumer_rows(state, consumers)
    elif has_polled or streams or consumers:
        yield from all_rows(state)


def request_lag_samples(control: PollControl, state: State) -> None:
    """Make the poller measure the lag of 12 consumers with pending messages.

    These are the consumers with the oldest samples. Also makes the poller read rows with a finding
    first.
    """
    control.set_preferred(frozenset(find_preferred_consumers(state.findings)))
    columns = state.consumers.columns
    lagging_rows = sorted(
        (row for row, pending in enumerate(columns.pending_msgs) if pending),
        key=columns.sampled_mono_us.__getitem__,
    )
    names = (
        (columns.stream[row], columns.name[row])
        for row in lagging_rows[:_LAG_SAMPLED_CONSUMERS_COUNT]
    )
    control.set_visible((), tuple(names))


async def run_until_first_ends(*coroutines: Coroutine[None, None, None]) -> None:
    """Run coroutines until the first one ends, cancel the others, and raise its error, if any."""
    tasks = {asyncio.create_task(coroutine) for coroutine in coroutines}
    try:
        finished_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in finished_tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


_RESTART_DELAY_S = 2.0
_PROCESS_END_TIMEOUT_S = 3.0
_READ_CHUNK_BYTES = 1 << 16


class WatchedSystem(Struct, frozen=True):
    """One of several systems: its name, and the flag that selects it."""

    name: str
    flag: Literal["context", "profile", "account"]


_WriteText = Callable[[str], None]


async def watch_several_systems(
    systems: Sequence[WatchedSystem],
    arguments: Sequence[str],
    write: _WriteText,
    print_failure: _WriteText,
    *,
    is_once: bool,
) -> int:
    """Write the JSON lines of several systems, each with its name, until a signal; return the exit
    code.

    `arguments` are for the `natstui watch` of each system, which is restarted when it ends. With
    `is_once`, returns when all processes have ended: `print_failure` gets a sentence for each
    failure, and the exit code is that of the first failure. Raises what `write` raises.
    """
    stop_event = make_stop_event()
    stop_task = asyncio.ensure_future(stop_event.wait())
    follow_tasks = [
        asyncio.ensure_future(_follow_system(watched_system, arguments, write, is_once=is_once))
        for watched_system in systems
    ]
    try:
        pending = {stop_task, *follow_tasks}
        while pending != {stop_task}:
            finished_tasks, pending = await asyncio.wait(
                pending, return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished_tasks:
                # A reader that has closed the pipe ends it all.
                task.result()
            if stop_task in finished_tasks:
                return 128 + stop_event.signal_number if is_once else 0
        results = [follow_task.result() for follow_task in follow_tasks]
    finally:
        tasks = {stop_task, *follow_tasks}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for system, (code, message) in zip(systems, results, strict=True):
        if code:
            print_failure(f"{system.name}: {message or f'ended with exit code {code}'}")
    return next((code for code, _ in results if code), 0)


async def _follow_system(
    system: WatchedSystem, arguments: Sequence[str], write: _WriteText, *, is_once: bool
) -> tuple[int, str | None]:
    """Write the lines of a system's process, and restart the process when it ends.

    With `is_once`, returns its exit code and its last message instead.
    """
    while True:
        process = await asyncio.create_subprocess_exec(
            *module_command("natstui", "watch", "--json", "--until-stdin-ends", *arguments),
            f"--{system.flag}",
            system.name,
            # Open for as long as we are: also one that writes nothing ends with us.
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for us: we end it.
            start_new_session=True,
        )
        if not is_once:
            write(_system_event_line(system, "started"))
        code, message = await _copy_lines(system, process, write)
        if is_once:
            return code, message
        write(_system_event_line(system, "ended", message, code))
        await asyncio.sleep(_RESTART_DELAY_S)


async def _copy_lines(
    system: WatchedSystem, process: asyncio.subprocess.Process, write: _WriteText
) -> tuple[int, str | None]:
    """Write every line of a process until it ends; return its exit code and last message."""
    assert process.stdout is not None and process.stderr is not None
    message_task = asyncio.ensure_future(_read_last_message(process.stderr))
    name_json = msgspec.json.encode(system.name).decode()
    try:
        async for line in _read_lines(process.stdout):
            # Every line is an object with at least its schema and kind.
            write(f'{{"system":{name_json},{line[1:].decode()}\n')
        return await process.wait(), await message_task
    finally:
        message_task.cancel()
        if process.returncode is None:
            await _terminate(process)


async def _terminate(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_PROCESS_END_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            # A stopped process does not receive SIGTERM.
            process.kill()
            await process.wait()


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the complete lines, of any length; leaves out an incomplete line of a killed
    process.
    """
    parts: list[bytes] = []
    while chunk := await reader.read(_READ_CHUNK_BYTES):
        *complete_lines, incomplete_line = chunk.split(b"\n")
        for line in complete_lines:
            yield b"".join((*parts, line))
            parts.clear()
        parts.append(incomplete_line)


async def _read_last_message(reader: asyncio.StreamReader) -> str | None:
    last_line: deque[bytes] = deque(maxlen=1)
    async for line in _read_lines(reader):
        last_line.append(line)
    if not last_line:
        return None
    try:
        # With --json, a command prints its error as JSON.
        message = decoder_of(_JsonError).decode(last_line[0]).error
    except (msgspec.DecodeError, RecursionError):
        message = last_line[0].decode(errors="replace").removeprefix("natstui: ")
    return clean_line(message) or None


class _JsonError(msgspec.Struct, frozen=True):
    error: str


def _system_event_line(
    system: WatchedSystem,
    state: Literal["started", "ended"],
    reason: str | None = None,
    exit_code: int | None = None,
) -> str:
    row = SystemRow(
        system=system.name,
        at_us=time.time_ns() // 1000,
        state=state,
        reason=reason,
        exit_code=exit_code,
    )
    return json_line(row) + "\n"
