"""Pulling from a consumer, by hand: one open request, and nothing else that costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

import nats.errors
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

_GRACE_S = 3.0


class Pull:
    """Asks one consumer for messages, a batch at a time, with one open request while it waits."""

    def __init__(self, nc: Nats, stream: str, consumer: str) -> None:
        self._nc = nc
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = nc.new_inbox()

    async def __aenter__(self) -> Self:
        self._subscription = await self._nc.subscribe(self._inbox)
        return self

    async def __aexit__(self, *_: object) -> None:
        # Without a connection there is nothing to unsubscribe from.
        with suppress(nats.errors.Error):
            await self._subscription.unsubscribe()

    async def batch(self, most_msgs: int, wait_s: float = 20.0) -> list[Msg]:
        """Return what is there; when nothing is, what comes first within `wait_s`."""
        first = await self._request(1, {"batch": 1, "expires": int(wait_s * 1e9)}, wait_s)
        if not first or most_msgs == 1:
            return first
        rest = most_msgs - 1
        return first + await self._request(rest, {"batch": rest, "no_wait": True}, 0.0)

    async def _request(
        self, most_msgs: int, request: Mapping[str, object], wait_s: float
    ) -> list[Msg]:
        await self._nc.publish(self._subject, json.dumps(request).encode(), reply=self._inbox)
        messages: list[Msg] = []
        while len(messages) < most_msgs:
            try:
                message = await self._subscription.next_msg(timeout=wait_s + _GRACE_S)
            except nats.errors.TimeoutError:
                break
            if message.headers and "Status" in message.headers:
                break
            messages.append(message)
        return messages
