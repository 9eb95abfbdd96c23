"""Watch a server for a while, as the viewer does, and return what is known then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

from natstui.cli.watch.run import Collector, beside, look_at_lags
from natstui.config import Connection
from natstui.engine.live import beside_polling, polling
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import ServerGone
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.ack_tap import AckTap
from natstui.jetstream.polling.control import PollControl
from natstui.model.live.state import State
from natstui.model.records.tap import StartTap, Tapped

FEWEST_POLLS = 3
"""A rate needs two looks, and a trend one more."""
_PATIENCE_S = 30.0
"""How much longer than asked for a first complete view may take."""


async def look_at(
    connection: Connection,
    interval_s: float,
    for_s: float,
    requests_per_s: float | None,
    tapping: StartTap | None = None,
) -> tuple[State, str | None, Tapped | None]:
    """Return the state after `for_s`, and why it is not complete, if it is not.

    Beside it the answers of one consumer's clients are read, if that is asked for. Raises
    ConnectionFailed without a connection, and ServerGone when it is lost meanwhile.
    """
    collector = Collector()
    client = await connect(connection, on_link=collector.add)
    read: list[Tapped] = []

    try:
        control = PollControl(interval_s)
        await beside(
            polling(client, control, collector, requests_per_s),
            *beside_polling(client, collector),
            _until_read(client, tapping, read.append, _until_seen(collector, control, for_s)),
        )
        # Before our own end of the connection is news.
        state = collector.now
    finally:
        await client.close()
    tapped = read[-1] if read else None
    return state, _problem(collector, for_s), tapped


def _problem(collector: Collector, for_s: float) -> str | None:
    """Return why not everything was seen, if it was not."""
    if collector.problem is not None:
        return f"{collector.problem.what}: {collector.problem.reason}"
    if not collector.is_complete:
        return f"not everything could be seen within {round(for_s + _PATIENCE_S)} s"
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


async def _until_seen(collector: Collector, control: PollControl, for_s: float) -> None:
    """Wait for the time, and until everything was seen often enough."""
    begun_s, polls_count = time.monotonic(), 0
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await collector.changed.wait()
        collector.take()
        if collector.polls_count > polls_count:
            polls_count = collector.polls_count
            look_at_lags(control, collector.state)
        link = collector.state.link
        if link is not None and link.state not in ("connected", "connecting"):
            raise ServerGone(link.reason or "the connection was lost")
        waited_s = time.monotonic() - begun_s
        seen = collector.is_complete and collector.polls_count >= FEWEST_POLLS
        if waited_s >= for_s and (seen or collector.problem or waited_s >= for_s + _PATIENCE_S):
            return
