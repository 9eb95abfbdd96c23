"""Reports new messages five times a second, and counts those that it leaves out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import PermissionDenied
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.jetstream.messages.publish import make_message
from natstui.model.records.messages import StartTail, Tailed

_REPORT_INTERVAL_S = 0.2
_MAX_REPORT_MSGS = 100


class MessageTail:
    """Reports the messages on some subjects: at most the newest 100 of each fifth of a second."""

    def __init__(self, command: StartTail, on_tailed: Callable[[Tailed], None]) -> None:
        self._command = command
        self._on_tailed = on_tailed
        self._unreported_messages: deque[Msg] = deque(maxlen=_MAX_REPORT_MSGS)
        self._arrived_msgs = self._reported_msgs = 0
        self._subscriptions: list[Subscription] = []
        self._reconnects_count: Callable[[], int] = int

    async def begin(self, client: Client, on_denied: Callable[[PermissionDenied], None]) -> None:
        """Subscribe; `on_denied` is called if the user may not subscribe to a subject.

        Raises ConnectionLost if there is no connection, and RequestFailed for an invalid subject.
        """
        stats = client.nc.stats
        reconnects_before_count = stats["reconnects"]
        self._reconnects_count = lambda: int(stats["reconnects"] - reconnects_before_count)
        try:
            for subject in self._command.subjects:
                self._subscriptions.append(
                    await client.subscribe(subject, self._on_message, on_denied)
                )
        except BaseException:
            await self._unsubscribe()
            raise

    async def run(self) -> None:
        """Report new messages until cancelled."""
        try:
            while True:
                self._report()
                await asyncio.sleep(_REPORT_INTERVAL_S)
        finally:
            await self._unsubscribe()

    async def _on_message(self, msg: Msg) -> None:
        self._arrived_msgs += 1
        self._unreported_messages.append(msg)

    def _report(self) -> None:
        messages = tuple(
            make_message(msg, self._command.preview_bytes) for msg in self._unreported_messages
        )
        self._unreported_messages.clear()
        self._reported_msgs += len(messages)
        dropped_msgs = self._arrived_msgs - self._reported_msgs
        now_us, number = time.time_ns() // 1000, self._command.command_id
        lost_connections_count = self._reconnects_count()
        self._on_tailed(
            Tailed(
                now_us, number, messages, self._arrived_msgs, dropped_msgs, lost_connections_count
            )
        )

    async def _unsubscribe(self) -> None:
        await unsubscribe(*self._subscriptions)
