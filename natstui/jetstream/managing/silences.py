"""Reports which findings of this server are silenced, from the journal of all processes."""

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

_CHECK_INTERVAL_S = 2.0
_REQUEST_NAME = "silences"


async def follow_silences(client: Client, sink: Sink) -> None:
    """Report which findings the user has silenced, after each change of the journal or clock.

    Runs until cancelled.
    """
    writer = Writer(client, Journal())
    # None: the viewer may still have silences that the previous engine reported.
    last_silences: tuple[Silence, ...] | None = None
    last_reported_state: object = None
    last_problem = ""
    while True:
        # A silence that ended by a wrong clock continues by the right one.
        clock_offset_s = round((wall_us() - steady_us()) / 1e6)
        current_state = (writer.journal.change_stamp, writer.server_identity, clock_offset_s)
        if current_state != last_reported_state:
            last_reported_state = current_state
            try:
                content = await asyncio.to_thread(writer.journal.read)
            except SessionError as error:
                problem = str(error)
            else:
                problem = content.warning
                silences = writer.find_silences(content.entries)
                if silences != last_silences:
                    last_silences = silences
                    sink.add(Silenced(wall_us(), silences))
            if problem != last_problem:
                record = Unavailable(wall_us(), _REQUEST_NAME, problem) if problem else None
                sink.add(record or Restored(wall_us(), _REQUEST_NAME))
                last_problem = problem
        await asyncio.sleep(_CHECK_INTERVAL_S)
