"""What is silenced on this server, as the journal says now: another natstui may write it, too."""

from __future__ import annotations

import asyncio
import time

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
    """Report what is silenced here, and again when the journal changed, until cancelled."""
    writer = Writer(client, Journal())
    known: tuple[Silence, ...] = ()
    read_for: object = None
    failed = False
    while True:
        now = (writer.journal.stamp, writer.place)
        if now != read_for:
            read_for = now
            try:
                silences = await asyncio.to_thread(lambda: writer.silences)
            except SessionError as error:
                failed = True
                sink.add(Unavailable(_now_us(), _WHAT, str(error)))
            else:
                if failed:
                    failed = False
                    sink.add(Restored(_now_us(), _WHAT))
                if silences != known:
                    known = silences
                    sink.add(Silenced(_now_us(), silences))
        await asyncio.sleep(_LOOK_S)


def _now_us() -> int:
    return time.time_ns() // 1000
