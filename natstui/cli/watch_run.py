"""The engine's parts without a viewer: connect, poll, listen, fold, and hand out rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import chain

from natstui.cli.watch_collect import Collector, present_rows
from natstui.cli.watch_rows import Row
from natstui.config import Connection
from natstui.errors import RequestFailed, ServerGone
from natstui.jetstream.client import connect
from natstui.jetstream.events import listen
from natstui.jetstream.poll_control import PollControl
from natstui.jetstream.poller import poll
from natstui.model.state import State

Write = Callable[[Iterable[Row]], None]

_ONCE_REQUESTS_PER_S = 300
_ONCE_RATES_S = 1.0
_LAGS_COUNT = 12


async def watch_once(connection: Connection, interval_s: float, write: Write) -> None:
    """Write one complete set, rates included; raise why that is not possible.

    Polls twice, because a rate needs two looks. Asks faster than a monitor may, but briefly.
    """
    collector, control = Collector(), PollControl(min(interval_s, _ONCE_RATES_S))
    client = await connect(connection, on_link=collector.add)
    try:
        polling = poll(client, control, collector, _ONCE_REQUESTS_PER_S)
        await _beside(polling, _complete(collector, control))
        write([*collector.take(), *present_rows(collector.state)])
    finally:
        await client.close()
    if collector.trouble is not None:
        raise RequestFailed(collector.trouble.reason)


async def _complete(collector: Collector, control: PollControl) -> None:
    """Return once everything was seen and its rates are known, or cannot be."""
    while True:
        await _next_poll(collector)
        if collector.trouble is not None:
            return
        if collector.is_complete:
            break
        control.poll_now()
    _look_at_lags(control, collector.state)
    await _next_poll(collector)


async def _next_poll(collector: Collector) -> None:
    """Wait for a poll or its failure; raise ServerGone when the connection is lost meanwhile."""
    polls_count = collector.polls_count
    while collector.polls_count == polls_count and collector.trouble is None:
        await collector.changed.wait()
        collector.changed.clear()
        link = collector.state.link
        if link is not None and link.state != "connected":
            raise ServerGone(link.reason or "the connection was lost")


async def watch_on(
    connection: Connection,
    interval_s: float,
    requests_per_s: int,
    write: Write,
    only_new: bool,
) -> None:
    """Write what each poll saw until cancelled: all of it, or `only_new` values."""
    collector, control = Collector(), PollControl(interval_s)
    client = await connect(connection, on_link=collector.add)
    try:
        polling = poll(client, control, collector, requests_per_s)
        writing = _write_changes(collector, control, write, only_new)
        await _beside(polling, listen(client, collector), writing)
    finally:
        await client.close()


async def _write_changes(
    collector: Collector, control: PollControl, write: Write, only_new: bool
) -> None:
    written_mono_us, polls_count = 0, 0
    while True:
        await collector.changed.wait()
        happened, state = collector.take(), collector.state
        polled: Iterable[Row] = ()
        if collector.polls_count > polls_count:
            polled = present_rows(state, written_mono_us if only_new else 0)
            written_mono_us, polls_count = state.now_mono_us, collector.polls_count
            _look_at_lags(control, state)
        # In a thread: neither many rows nor a reader that has stopped may stop the connection.
        await asyncio.to_thread(write, chain(happened, polled))


def _look_at_lags(control: PollControl, state: State) -> None:
    """Have the next message of a few consumers looked up that are behind."""
    columns = state.consumers.columns
    behind = sorted(
        (row for row, pending in enumerate(columns.pending_msgs) if pending),
        key=columns.sampled_mono_us.__getitem__,
    )
    names = ((columns.stream[row], columns.name[row]) for row in behind[:_LAGS_COUNT])
    control.look_at((), tuple(names))


async def _beside(*works: Coroutine[None, None, None]) -> None:
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
