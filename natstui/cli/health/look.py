"""Watch a server for a while, as the viewer does, and return what is known then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from natstui.cli.terminal_line import TerminalLine
from natstui.cli.watch.run import Collector, beside, look_at_lags
from natstui.config import Connection
from natstui.engine.live import beside_polling, polling
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import ServerGone
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.events.api_audit import read_api_audit
from natstui.jetstream.polling.control import PollControl
from natstui.model.clients.api_audit import ApiAudit
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.model.records.tap import StartTap, Tapped

FEWEST_POLLS = 3
"""A rate needs two polls, and a trend one more."""
LONGEST_S = 15.0
"""How long to wait for them where no time is named: part of a cluster may answer late."""
_PATIENCE_S = 30.0
"""How much longer than a named time a first complete view may take."""


@dataclass(frozen=True, slots=True)
class ServerReading:
    """What was seen of a server in a while."""

    state: State
    watched_s: float
    problem: str | None
    """Why not everything was seen, if it was not."""
    tapped: Tapped | None = None
    """What a tap read, if one was asked for."""
    audit: ApiAudit | None = None
    """What an audit of the API read, if one was asked for."""


async def look_at(
    connection: Connection,
    interval_s: float,
    for_s: float | None,
    requests_per_s: float | None,
    tapping: StartTap | None = None,
    audit_s: float | None = None,
) -> ServerReading:
    """Return the state after `for_s`; None: after three polls of everything that answers.

    Beside it the answers of one consumer's clients are read, if that is asked for, and after it
    the API audit for `audit_s`. Raises
    ConnectionFailed without a connection, and ServerGone when it is lost meanwhile.
    """
    collector = Collector()
    client = await connect(connection, on_link=collector.add)
    read: list[Tapped] = []
    begun_s = time.monotonic()
    try:
        control = PollControl(interval_s)
        await beside(
            polling(client, control, collector, requests_per_s),
            *beside_polling(client, collector, requests_per_s),
            _until_read(client, tapping, read.append, _until_seen(collector, control, for_s)),
        )
        # Before our own end of the connection is news.
        state = collector.now
        watched_s = time.monotonic() - begun_s
        # Nothing of ours polls any more: its requests would be most of those that it reads.
        audit = None if audit_s is None else await read_api_audit(client, audit_s)
    finally:
        await client.close()
    tapped = read[-1] if read else None
    return ServerReading(state, watched_s, _problem(collector, watched_s), tapped, audit)


def _problem(collector: Collector, watched_s: float) -> str | None:
    """Return why not everything was seen, if it was not."""
    if collector.problem is not None:
        return f"{collector.problem.what}: {collector.problem.reason}"
    if not collector.is_complete:
        return f"not everything could be read within {round(watched_s)} s: use a longer `--for`"
    return None


async def _until_read(
    client: Client,
    tapping: StartTap | None,
    on_tapped: Callable[[Tapped], None],
    seen: Coroutine[None, None, None],
) -> None:
    """Wait until everything was `seen`, and beside it until a tap is over, if one is asked for.

    Ctrl-C ends a tap early, and what it read until then is told.
    """
    if tapping is None:
        await seen
        return
    reading = AckTap(tapping, on_tapped)
    try:
        await reading.begin(client)
    except BaseException:
        seen.close()
        raise
    task = asyncio.create_task(reading.run())
    stopped = asyncio.create_task(stopped_by_signal().wait())
    try:
        await seen
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        stopped.cancel()
        await asyncio.wait({task, stopped})


class Samples:
    """Counts how often each row was sampled: not every poll has every row."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[int, int]] = {}
        """Row → when it was sampled last, and how many samples there were."""

    def add(self, state: State) -> None:
        """Count the rows that were sampled since the last time."""
        seen: dict[Key, tuple[int, int]] = {}
        for table in (state.streams, state.consumers):
            keys, sampled = table.roster.keys, table.columns.sampled_mono_us
            for key, mono_us in zip(keys, sampled, strict=True):
                known = self._seen.get(key, (0, 0))
                seen[key] = known if known[0] == mono_us else (mono_us, known[1] + 1)
        self._seen = seen

    def fewest_count(self, state: State) -> int:
        """Return how often the row was sampled that was sampled least, of those that answer."""
        away, gone = state.unreachable_streams, state.unreachable_consumers
        counts = (
            count
            for key, (_, count) in self._seen.items()
            if key[0] not in away and not (len(key) == 3 and key[:2] in gone)
        )
        return min(counts, default=FEWEST_POLLS)


def is_enough(
    waited_s: float, for_s: float | None, polls_count: int, fewest_count: int, *, is_refused: bool
) -> bool:
    """Return whether a server was watched for long enough.

    That is until three polls of every row that answers, for 15 s at most; or for `for_s`, and then
    until all was listed once. `fewest_count` is how often the row was sampled that was sampled
    least, 0 while not everything is listed; where lists are refused nobody waits for them.
    """
    is_polled = polls_count >= FEWEST_POLLS
    if for_s is None:
        return fewest_count >= FEWEST_POLLS or waited_s >= LONGEST_S or (is_refused and is_polled)
    is_listed = fewest_count > 0 and is_polled
    return waited_s >= for_s and (is_listed or is_refused or waited_s >= for_s + _PATIENCE_S)


async def _until_seen(collector: Collector, control: PollControl, for_s: float | None) -> None:
    """Wait for the time, and until everything was seen often enough."""
    begun_s, polls_count, samples = time.monotonic(), 0, Samples()
    show = show_progress(for_s)
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await collector.changed.wait()
        collector.take()
        state = collector.state
        if collector.polls_count > polls_count:
            polls_count = collector.polls_count
            samples.add(state)
            look_at_lags(control, state)
        link = state.link
        if link is not None and link.state not in ("connected", "connecting"):
            raise ServerGone(link.reason or "the connection was lost")
        waited_s = time.monotonic() - begun_s
        fewest_count = min(polls_count, samples.fewest_count(state))
        is_over = is_enough(
            waited_s,
            for_s,
            polls_count,
            fewest_count if collector.is_complete else 0,
            is_refused=collector.problem is not None,
        )
        show(waited_s, min(fewest_count, FEWEST_POLLS), is_over)
        if is_over:
            return


def show_progress(for_s: float | None) -> Callable[[float, int, bool], None]:
    """Return a callback that shows on stderr how far it is; nothing where that is no terminal."""
    line = TerminalLine()
    end = f"{LONGEST_S:.0f} s at most" if for_s is None else f"of {for_s:.0f} s"

    def show(waited_s: float, fewest_count: int, is_over: bool) -> None:
        if is_over:
            line.clear()
            return
        polls = f"{fewest_count} of {FEWEST_POLLS} polls"
        line.show(f"watching for {waited_s:.0f} s, {end}; {polls}")

    return show
