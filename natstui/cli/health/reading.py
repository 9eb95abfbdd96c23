"""Watches a server for a while, as the viewer does, and returns its state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from natstui.cli.terminal_line import TerminalLine
from natstui.cli.watch.run import WatchCollector, request_lag_samples, run_until_first_ends
from natstui.config import Connection
from natstui.engine.live import make_background_readers, make_poller
from natstui.engine.stopping import StopEvent, cancel_on_signal, make_stop_event
from natstui.errors import ConnectionLost
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.events.api_audit import read_api_audit
from natstui.jetstream.polling.control import PollControl
from natstui.model.clients.api_audit import ApiAudit
from natstui.model.live.known_rows import RowKey
from natstui.model.live.state import State
from natstui.model.records.tap import StartTap, TapResults

MIN_POLLS_COUNT = 3
"""Minimum number of polls: a rate needs two, and a trend one more."""
MAX_WATCH_S = 15.0
"""How long to wait for the minimum of polls without --for: part of a cluster may reply late."""
_LISTING_GRACE_S = 30.0
"""How much longer than --for the first complete poll may take."""


class ServerReading(Struct, frozen=True):
    """The state of a server after watching it, and the results of an ack tap and an API audit, if
    requested.
    """

    state: State
    watched_s: float
    problem: str | None
    """Why something was not read; None if everything was read."""
    tap_result: TapResults | None = None
    """Result of an ack tap, if requested."""
    audit: ApiAudit | None = None
    """Result of an API audit, if requested."""
    stop_event: StopEvent | None = None
    """Ends a tap early, if requested."""


async def read_server_state(
    connection: Connection,
    interval_s: float,
    for_s: float | None,
    requests_per_s: float | None,
    tap_command: StartTap | None = None,
    audit_s: float | None = None,
) -> ServerReading:
    """Watch a server, and return its state after `for_s`.

    With `for_s` None, returns after three polls of every reachable row and once no condition is
    undecided (see `has_undecided_condition`), at most after 15 s. Polls each `interval_s`, with at
    most `requests_per_s` (None: no limit). With `tap_command`, reads the acks of one consumer
    meanwhile; with `audit_s`, reads the requests of the JetStream API afterwards, for this time.
    Raises ConnectionFailed without a connection, and ConnectionLost if it is lost.
    """
    collector = WatchCollector()
    client = await connect(connection, on_link=collector.add)
    tap_results: list[TapResults] = []
    start_mono_s = time.monotonic()
    stop_event = None if tap_command is None else make_stop_event()
    try:
        control = PollControl(interval_s)
        await run_until_first_ends(
            make_poller(client, control, collector, requests_per_s),
            *make_background_readers(client, collector, requests_per_s),
            _wait_for_polls_and_tap(
                client,
                tap_command,
                stop_event,
                tap_results.append,
                _wait_for_samples(collector, control, for_s, connection),
            ),
        )
        # Before our own end of the connection is news.
        state = collector.current_state
        watched_s = time.monotonic() - start_mono_s
        # Nothing of ours polls any more: its requests would be most of those that it reads.
        audit = None
        if audit_s is not None and not (stop_event is not None and stop_event.is_set()):
            with cancel_on_signal("the audit"):
                audit = await read_api_audit(client, audit_s)
    finally:
        await client.close()
    tap_result = tap_results[-1] if tap_results else None
    return ServerReading(
        state, watched_s, _incomplete_reason(collector, watched_s), tap_result, audit, stop_event
    )


def _incomplete_reason(collector: WatchCollector, watched_s: float) -> str | None:
    """Return why something was not read; None if everything was read."""
    if collector.problem is not None:
        return f"{collector.problem.what}: {collector.problem.reason}"
    if not collector.is_complete:
        return f"not everything could be read within {round(watched_s)} s: use a longer `--for`"
    return None


async def _wait_for_polls_and_tap(
    client: Client,
    tap_command: StartTap | None,
    stop_event: StopEvent | None,
    on_tap_result: Callable[[TapResults], None],
    polls_wait: Coroutine[None, None, None],
) -> None:
    """Await `polls_wait`, and in parallel the end of an ack tap, if one is requested.

    An ack tap reads the acks of one consumer. `stop_event` ends it early, with its results so far.
    """
    if tap_command is None or stop_event is None:
        await polls_wait
        return
    ack_tap = AckTap(tap_command, on_tap_result)
    try:
        await ack_tap.begin(client)
    except BaseException:
        polls_wait.close()
        raise
    tap_task = asyncio.create_task(ack_tap.run())
    stop_task = asyncio.create_task(stop_event.wait())
    try:
        # The tap begins: cancelled before, it would not close what it listens to.
        await asyncio.sleep(0)
        await polls_wait
        await asyncio.wait({tap_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        if tap_task.done():
            tap_task.result()
    finally:
        tap_task.cancel()
        stop_task.cancel()
        await asyncio.wait({tap_task, stop_task})


class _LastSample(NamedTuple):
    """The last sample of a row, and how many samples were counted until then."""

    mono_us: int
    samples_count: int


class SamplesCounter:
    """Counts in how many polls each row was sampled: not every poll has every row."""

    def __init__(self) -> None:
        self._last_sample_by_row: dict[RowKey, _LastSample] = {}

    def add(self, state: State) -> None:
        """Count a sample for each row that was sampled since the last call; forget deleted
        rows.
        """
        last_sample_by_row: dict[RowKey, _LastSample] = {}
        for table in (state.streams, state.consumers):
            keys, sampled_us = table.roster.keys, table.columns.sampled_mono_us
            for key, mono_us in zip(keys, sampled_us, strict=True):
                last_sample = self._last_sample_by_row.get(key, _LastSample(0, 0))
                is_new_sample = mono_us != last_sample.mono_us
                samples_count = last_sample.samples_count + is_new_sample
                last_sample_by_row[key] = _LastSample(mono_us, samples_count)
        self._last_sample_by_row = last_sample_by_row

    def min_samples_count(self, state: State) -> int:
        """Return the smallest number of samples of a reachable row; `MIN_POLLS_COUNT` if no row is
        reachable.
        """
        unreachable_streams, unreachable_consumers = (
            state.unreachable_streams,
            state.unreachable_consumers,
        )
        counts = (
            last_sample.samples_count
            for key, last_sample in self._last_sample_by_row.items()
            if key[0] not in unreachable_streams
            and not (len(key) == 3 and key[:2] in unreachable_consumers)
        )
        return min(counts, default=MIN_POLLS_COUNT)


def has_watched_enough(
    waited_s: float,
    for_s: float | None,
    polls_count: int,
    min_samples_count: int,
    *,
    are_lists_refused: bool,
    is_undecided: bool = False,
) -> bool:
    """Return whether a server was watched for long enough.

    Without `for_s` that is after three polls of every reachable row, or 15 s; with `for_s`, after
    that time and once everything was listed, or 30 s later. `min_samples_count` is the smallest
    number of samples of a row, 0 while the lists are incomplete. `are_lists_refused`: the lists
    cannot be read, so that nothing waits for them. `is_undecided`: a condition needs more time,
    so that a watch without `for_s` continues.
    """
    has_enough_polls = polls_count >= MIN_POLLS_COUNT
    if for_s is None:
        return (
            (min_samples_count >= MIN_POLLS_COUNT and not is_undecided)
            or waited_s >= MAX_WATCH_S
            or (are_lists_refused and has_enough_polls)
        )
    are_lists_read = min_samples_count > 0 and has_enough_polls
    return waited_s >= for_s and (
        are_lists_read or are_lists_refused or waited_s >= for_s + _LISTING_GRACE_S
    )


_MAX_AWAITED_CONDITION_S = 3.0
"""A watch without `for_s` also waits for a condition that needs no more than this time to be
reported, even if the condition has just begun.
"""


def has_undecided_condition(state: State, start_us: int) -> bool:
    """Return whether a condition is met, but not yet for long enough to be reported.

    A condition counts only if it was met before `start_us` (UTC µs), or needs at most 3 s.
    """
    return any(
        not (condition.is_raised or condition.is_hidden)
        and condition.absent_mono_us is None
        and (
            condition.finding.since_us < start_us
            or condition.finding.kind.needs_s <= _MAX_AWAITED_CONDITION_S
        )
        for conditions in state.findings.conditions.values()
        for condition in conditions
    )


async def _wait_for_samples(
    collector: WatchCollector, control: PollControl, for_s: float | None, connection: Connection
) -> None:
    """Wait until a server was watched for long enough (see `has_watched_enough`).

    If the connection names a source of the servers, waits for their first reading, too. Raises
    ConnectionLost if the connection is lost.
    """
    start_mono_s, polls_count, samples_counter = time.monotonic(), 0, SamplesCounter()
    start_us = time.time_ns() // 1000
    show = progress_callback(for_s)
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await collector.change_event.wait()
        collector.pop_events()
        state = collector.state
        if collector.polls_count > polls_count:
            polls_count = collector.polls_count
            samples_counter.add(state)
            request_lag_samples(control, state)
        link = state.link
        if link is not None and link.state not in ("connected", "connecting"):
            raise ConnectionLost(link.reason or "the connection was lost")
        waited_s = time.monotonic() - start_mono_s
        min_samples_count = min(polls_count, samples_counter.min_samples_count(state))
        are_servers_read = state.servers.newest is not None or not connection.has_servers_source
        is_watched_enough = has_watched_enough(
            waited_s,
            for_s,
            polls_count,
            min_samples_count if collector.is_complete and are_servers_read else 0,
            are_lists_refused=collector.problem is not None,
            is_undecided=has_undecided_condition(state, start_us),
        )
        show(waited_s, min(min_samples_count, MIN_POLLS_COUNT), is_watched_enough)
        if is_watched_enough:
            return


def progress_callback(for_s: float | None) -> Callable[[float, int, bool], None]:
    """Return a callback that shows on a terminal at stderr how long a server has been watched.

    The callback gets the seconds so far, the smallest number of samples of a row, and whether to
    clear the line. `for_s` is the requested time; None: until everything was read.
    """
    line = TerminalLine()
    limit_text = f"{MAX_WATCH_S:.0f} s at most" if for_s is None else f"of {for_s:.0f} s"

    def show(waited_s: float, min_samples_count: int, is_done: bool) -> None:
        if is_done:
            line.clear()
            return
        polls_text = f"{min_samples_count} of {MIN_POLLS_COUNT} polls"
        line.show(f"watching for {waited_s:.0f} s, {limit_text}; {polls_text}")

    return show
