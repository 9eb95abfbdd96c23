"""Messages as they arrive, a few times a second, with an honest count of what was left out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import PermissionDenied
from natstui.jetstream.client import Client
from natstui.jetstream.sending import arrived
from natstui.model.tail import StartTail, Tailed

_TELL_S = 0.2
_AT_ONCE_MSGS = 100


class Tail:
    """Tells what arrives on some subjects, the newest 100 of each fifth of a second."""

    def __init__(self, asked: StartTail, tell: Callable[[Tailed], None]) -> None:
        self._asked = asked
        self._tell = tell
        self._newest: deque[Msg] = deque(maxlen=_AT_ONCE_MSGS)
        self._arrived_msgs = self._told_msgs = 0
        self._subscriptions: list[Subscription] = []

    async def begin(self, client: Client, on_denied: Callable[[PermissionDenied], None]) -> None:
        """Subscribe; `on_denied` hears of a subject the user may not follow.

        Raises ServerGone when there is no connection, RequestFailed for what is no subject.
        """
        try:
            for subject in self._asked.subjects:
                self._subscriptions.append(await client.subscribe(subject, self._take, on_denied))
        except BaseException:
            await self._end()
            raise

    async def run(self) -> None:
        """Tell what comes until cancelled."""
        try:
            while True:
                self._say()
                await asyncio.sleep(_TELL_S)
        finally:
            await self._end()

    async def _take(self, msg: Msg) -> None:
        self._arrived_msgs += 1
        self._newest.append(msg)

    def _say(self) -> None:
        messages = tuple(arrived(msg, self._asked.preview_bytes) for msg in self._newest)
        self._newest.clear()
        self._told_msgs += len(messages)
        dropped = self._arrived_msgs - self._told_msgs
        now_us, number = time.time_ns() // 1000, self._asked.command_id
        self._tell(Tailed(now_us, number, messages, self._arrived_msgs, dropped))

    async def _end(self) -> None:
        for subscription in self._subscriptions:
            # Without a connection there is nothing to unsubscribe from.
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()
