"""Pulling with the plain nats-py client, fetch by fetch."""

from __future__ import annotations

from nats.aio.msg import Msg

from natstui.bench.plain import js_context, plain_errors
from natstui.bench.plain_consume import PlainConsumer

_FETCH_S = 0.5


class Puller(PlainConsumer):
    """Fetches batch after batch."""

    async def run(self) -> None:
        """Fetch until told to stop."""
        orders, js = self.job.orders, js_context(self.job)
        with plain_errors(f"fetches from consumer {orders.stream} > {orders.consumer}"):
            pulling = await js.pull_subscribe_bind(consumer=orders.consumer, stream=orders.stream)
            while not self.job.stopping.is_set() and not self.link.failure.done():
                if not self.job.running.is_set():
                    await self.job.sleep(0.02)
                    continue
                try:
                    messages = await pulling.fetch(self.role.batch_msgs, timeout=_FETCH_S)
                except TimeoutError:
                    continue
                await self._take(messages)
        self.close()

    async def _take(self, messages: list[Msg]) -> None:
        for message in messages:
            fate = self.count(message)
            if self.role.acks != "all" or message is messages[-1]:
                await self.acknowledge(message, fate)
