"""Announcements about messages that come too fast: counted by message, and told once a second."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from natstui.feed import Sink
from natstui.model.live.evidence import message_of, message_trouble
from natstui.model.live.message_counts import ROOM, MessageCount
from natstui.model.records.evidence import AdvisoriesCounted, MessageTrouble
from natstui.model.records.record import Advisory, Record

_EVERY_S = 1.0


class _Counted:
    """What was said of the messages of one consumer since it was told last."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: dict[int, MessageCount] = {}

    def add(self, advisory: Advisory) -> None:
        self.count += 1
        for one in message_of(advisory):
            known = self.messages.get(one.stream_seq)
            self.messages[one.stream_seq] = (
                one if known is None else replace(one, said_count=known.said_count + 1)
            )

    def most_frequent(self) -> tuple[MessageCount, ...]:
        ordered = sorted(self.messages.values(), key=lambda one: (-one.said_count, one.stream_seq))
        return tuple(ordered[:ROOM])


class Storm:
    """Counts announcements that are not passed on one by one, in memory for one second of them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counted: dict[tuple[MessageTrouble, str, str], _Counted] = {}
        self._telling: asyncio.TimerHandle | None = None

    def add(self, record: Record) -> None:
        """Count a record that is about a message of a consumer; others have no number to keep."""
        kind = message_trouble(record) if isinstance(record, Advisory) else None
        if not isinstance(record, Advisory) or kind is None:
            return
        if record.stream is None or record.consumer is None:
            return
        key = (kind, record.stream, record.consumer)
        self._counted.setdefault(key, _Counted()).add(record)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_EVERY_S, self._tell)

    def close(self) -> None:
        """Tell what was counted since, and stop."""
        if self._telling is not None:
            self._telling.cancel()
        self._tell()

    def _tell(self) -> None:
        counted, self._counted, self._telling = self._counted, {}, None
        now_us = time.time_ns() // 1000
        for (kind, stream, consumer), each in counted.items():
            self._sink.add(
                AdvisoriesCounted(now_us, kind, stream, consumer, each.count, each.most_frequent())
            )
