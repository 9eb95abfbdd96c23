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
    # None: the viewer may still have those that the engine before reported.
    last_silences: tuple[Silence, ...] | None = None
    read_for: object = None
    last_problem = ""
    while True:
        # A silence that ended by a wrong clock goes on by the right one.
        clock_offset_s = round((wall_us() - steady_us()) / 1e6)
        now = (writer.journal.stamp, writer.place, clock_offset_s)
        if now != read_for:
            read_for = now
            try:
                content = await asyncio.to_thread(writer.journal.read)
            except SessionError as error:
                problem = str(error)
            else:
                problem = content.warning
                silences = writer.silences_in(content.entries)
                if silences != last_silences:
                    last_silences = silences
                    sink.add(Silenced(wall_us(), silences))
            if problem != last_problem:
                record = Unavailable(wall_us(), _WHAT, problem) if problem else None
                sink.add(record or Restored(wall_us(), _WHAT))
                last_problem = problem
        await asyncio.sleep(_LOOK_S)
