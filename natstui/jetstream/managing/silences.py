"""The current silences on this server, from the journal, which other processes may write, too."""

from __future__ import annotations

import asyncio

from natstui.clock import steady_us, wall_us
from natstui.errors import SessionError
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.model.records.record import Restored, Unavailable
from natstui.model.records.silences import Silence, Silenced

_LOOK_S = 2.0
_WHAT = "silences"


async def follow_silences(client: Client, sink: Sink) -> None:
    """Report the silences, and again when the journal changed or the clock was set, until
    cancelled.
    """
    writer = Writer(client, Journal())
    last_silences: tuple[Silence, ...] = ()
    read_for: object = None
    has_failed = False
    while True:
        # A silence that ended by a wrong clock goes on by the right one.
        clock_offset_s = round((wall_us() - steady_us()) / 1e6)
        now = (writer.journal.stamp, writer.place, clock_offset_s)
        if now != read_for:
            read_for = now
            try:
                silences = await asyncio.to_thread(lambda: writer.silences)
            except SessionError as error:
                has_failed = True
                sink.add(Unavailable(wall_us(), _WHAT, str(error)))
            else:
                if has_failed:
                    has_failed = False
                    sink.add(Restored(wall_us(), _WHAT))
                if silences != last_silences:
                    last_silences = silences
                    sink.add(Silenced(wall_us(), silences))
        await asyncio.sleep(_LOOK_S)
