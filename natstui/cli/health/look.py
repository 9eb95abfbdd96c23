"""Watches a server for a while, as the viewer does, and returns the state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from natstui.cli.terminal_line import TerminalLine
from natstui.cli.watch.run import Collector, request_lags, run_until_first_ends
from natstui.config import Connection
from natstui.engine.live import beside_polling, polling
from natstui.engine.stopping import StopEvent, cancelled_by_signal, stopped_by_signal
from natstui.errors import ServerGone
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.events.api_audit import read_api_audit
from natstui.jetstream.polling.control import PollControl
from natstui.model.clients.api_audit import ApiAudit
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.model.records.tap import StartTap, TapResults

FEWEST_POLLS = 3
"""Minimum number of polls: a rate needs two, and a trend one more."""
LONGEST_WATCH_S = 15.0
"""How long to wait for the minimum of polls without --for: part of a cluster may reply late."""
_LISTING_GRACE_S = 30.0
"""How much longer than --for the first complete poll may take."""


@dataclass(frozen=True, slots=True)
class ServerReading:
    """The state of a server after watching it, with the results of a tap and an audit."""

    state: State
    watched_s: float
    problem: str | None
    """Why not everything was read, if so."""
    tap_result: TapResults | None = None
    """Result of an ack tap, if requested."""
    audit: ApiAudit | None = None
    """Result of an API audit, if requested."""
    stop: StopEvent | None = None
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

    None: after three polls of everything reachable, and once what began earlier, or is reported
    within a few seconds, was seen for long enough; at most 15 s. It polls each `interval_s`, with
    at most `requests_per_s` (None: no limit). `tap_command` also reads the acks of one consumer
    meanwhile, and `audit_s` the requests of the JetStream API afterwards. Raises ConnectionFailed
    without a connection, and ServerGone if it is lost.
    """
    collector = Collector()
    client = await connect(connection, on_link=collector.add)
    tap_results: list[TapResults] = []
    start_mono_s = time.monotonic()
    stop = None if tap_command is None else stopped_by_signal()
    try:
        control = PollControl(interval_s)
        await run_until_first_ends(
            polling(client, control, collector, requests_per_s),
            *beside_polling(client, collector, requests_per_s),
            _wait_for_polls_and_tap(
                client,
                tap_command,
                stop,
                tap_results.append,
                _wait_for_samples(collector, control, for_s, connection),
            ),
        )
        # Before our own end of the connection is news.
        state = collector.now
        watched_s = time.monotonic() - start_mono_s
        # Nothing of ours polls any more: its requests would be most of those that it reads.
        audit = None
        if audit_s is not None and not (stop is not None and stop.is_set()):
            with cancelled_by_signal("the audit"):
                audit = await read_api_audit(client, audit_s)
    finally:
        await client.close()
    tap_result = tap_results[-1] if tap_results else None
    return ServerReading(
        state, watched_s, _incomplete_reason(collector, watched_s), tap_result, audit, stop
    )


def _incomplete_reason(collector: Collector, watched_s: float) -> str | None:
    """Return why not everything was read, if so."""
    if collector.problem is not None:
        return f"{collector.problem.what}: {collector.problem.reason}"
    if not collector.is_complete:
        return f"not everything could be read within {round(watched_s)} s: use a longer `--for`"
    return None


async def _wait_for_polls_and_tap(
    client: Client,
    tap_command: StartTap | None,
    stop: StopEvent | None,
    on_tap_result: Callable[[TapResults], None],
    polls_done: Coroutine[None, None, None],
) -> None:
    """Wait until `polls_done`, and in parallel until a tap ends, if requested.

    `stop` ends a tap early, with its results so far.
    """
    if tap_command is None or stop is None:
        await polls_done
        return
    ack_tap = AckTap(tap_command, on_tap_result)
    try:
        await ack_tap.begin(client)
    except BaseException:
        polls_done.close()
        raise
    tap_task = asyncio.create_task(ack_tap.run())
    stop_task = asyncio.create_task(stop.wait())
    try:
        # The tap begins: cancelled before, it would not close what it listens to.
        await asyncio.sleep(0)
        await polls_done
        await asyncio.wait({tap_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        if tap_task.done():
            tap_task.result()
    finally:
        tap_task.cancel()
        stop_task.cancel()
        await asyncio.wait({tap_task, stop_task})


class SampleCounts:
    """Counts in how many polls each row was sampled: not every poll has every row."""

    def __init__(self) -> None:
        self._samples: dict[Key, tuple[int, int]] = {}
        """Row → time of its last sample, and number of samples."""

    def add(self, state: State) -> None:
        """Count the rows of a state that were sampled since the last call; forget deleted rows."""
        counted_rows: dict[Key, tuple[int, int]] = {}
        for table in (state.streams, state.consumers):
            keys, sampled_us = table.roster.keys, table.columns.sampled_mono_us
            for key, mono_us in zip(keys, sampled_us, strict=True):
                last_and_count = self._samples.get(key, (0, 0))
                counted_rows[key] = (
                    last_and_count
                    if last_and_count[0] == mono_us
                    else (mono_us, last_and_count[1] + 1)
                )
        self._samples = counted_rows

    def fewest_count(self, state: State) -> int:
        """Return the smallest number of samples of a reachable row, `FEWEST_POLLS` without any."""
        unreachable_streams, unreachable_consumers = (
            state.unreachable_streams,
            state.unreachable_consumers,
        )
        counts = (
            count
            for key, (_, count) in self._samples.items()
            if key[0] not in unreachable_streams
            and not (len(key) == 3 and key[:2] in unreachable_consumers)
        )
        return min(counts, default=FEWEST_POLLS)


def is_enough(
    waited_s: float,
    for_s: float | None,
    polls_count: int,
    fewest_count: int,
    *,
    is_refused: bool,
    is_undecided: bool = False,
) -> bool:
    """Return whether a server was watched for long enough.

    That is after three polls of every reachable row, or 15 s; with `for_s`, after that time and
    once everything was listed, for which 30 s more are allowed. `fewest_count` is the smallest
    number of samples of a row, 0 while the lists are incomplete. `is_refused`: the lists cannot be
    read, so they are not waited for. `is_undecided`: a condition was not seen for long enough, so
    without `for_s` the watch goes on, at most 15 s.
    """
    is_polled = polls_count >= FEWEST_POLLS
    if for_s is None:
        return (
            (fewest_count >= FEWEST_POLLS and not is_undecided)
            or waited_s >= LONGEST_WATCH_S
            or (is_refused and is_polled)
        )
    is_listed = fewest_count > 0 and is_polled
    return waited_s >= for_s and (is_listed or is_refused or waited_s >= for_s + _LISTING_GRACE_S)


_SOON_REPORTED_S = 3.0
"""Time until a condition is reported for which a watch goes on, though it may have just begun."""


def is_undecided(state: State, start_us: int) -> bool:
    """Return whether a condition that began before `start_us`, UTC, or that is reported within a
    few seconds, is not reported yet.
    """
    return any(
        not (condition.raised or condition.hidden)
        and condition.missed_mono_us is None
        and (
            condition.finding.since_us < start_us
            or condition.finding.kind.needs_s <= _SOON_REPORTED_S
        )
        for conditions in state.findings.watched.values()
        for condition in conditions
    )


async def _wait_for_samples(
    collector: Collector, control: PollControl, for_s: float | None, connection: Connection
) -> None:
    """Wait for the time, for the minimum of samples, and for the servers where they are set."""
    start_mono_s, polls_count, samples = time.monotonic(), 0, SampleCounts()
    start_us = time.time_ns() // 1000
    show = show_progress(for_s)
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await collector.changed.wait()
        collector.take_events()
        state = collector.state
        if collector.polls_count > polls_count:
            polls_count = collector.polls_count
            samples.add(state)
            request_lags(control, state)
        link = state.link
        if link is not None and link.state not in ("connected", "connecting"):
            raise ServerGone(link.reason or "the connection was lost")
        waited_s = time.monotonic() - start_mono_s
        fewest_count = min(polls_count, samples.fewest_count(state))
        are_servers_read = state.servers.newest is not None or not connection.names_servers_source
        is_done = is_enough(
            waited_s,
            for_s,
            polls_count,
            fewest_count if collector.is_complete and are_servers_read else 0,
            is_refused=collector.problem is not None,
            is_undecided=is_undecided(state, start_us),
        )
        show(waited_s, min(fewest_count, FEWEST_POLLS), is_done)
        if is_done:
            return


def show_progress(for_s: float | None) -> Callable[[float, int, bool], None]:
    """Return a callback that shows on a terminal at stderr how long a server has been watched.

    It gets the seconds so far, the smallest number of samples of a row, and whether to clear the
    line. `for_s` is the requested time; None: until everything was read.
    """
    line = TerminalLine()
    limit_text = f"{LONGEST_WATCH_S:.0f} s at most" if for_s is None else f"of {for_s:.0f} s"

    def show(waited_s: float, fewest_count: int, is_done: bool) -> None:
        if is_done:
            line.clear()
            return
        polls_text = f"{fewest_count} of {FEWEST_POLLS} polls"
        line.show(f"watching for {waited_s:.0f} s, {limit_text}; {polls_text}")

    return show
