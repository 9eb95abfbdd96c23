"""JetStream receivers with the plain nats-py client."""

from __future__ import annotations

import time

import numpy as np
from nats.aio.msg import Msg

from natstui.bench.content import stamp_place
from natstui.bench.deliveries import Deliveries, Fates, fates
from natstui.bench.job import Job
from natstui.bench.link import WireLink
from natstui.bench.plain import PlainInbox, plain_errors
from natstui.bench.wire_receive import NO_STAMP
from natstui.errors import ServerGone


class PlainConsumer:
    """Counts deliveries and acknowledges them as the role says, one call per message."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.role = job.orders.role
        self._stamped = job.orders.stamped and stamp_place(self.role.payload).length > 0
        self._inbox = PlainInbox(
            job, stamp_place(self.role.payload) if self._stamped else NO_STAMP
        )

    async def begin(self) -> None:
        """Nothing to subscribe to yet."""

    def close(self) -> None:
        """Count the rest."""
        self._inbox.close()

    def count(self, message: Msg) -> Fates:
        """Count one delivery and draw its lot."""
        now_ns, tally = self._inbox.add(message.data), self.job.tally
        tokens = message.reply.split(".")
        numbers = tokens[4:8] if len(tokens) == 9 else tokens[6:10]
        delivered, stream_seq, consumer_seq, stored_ns = map(int, numbers)
        if not self._stamped:
            tally.seen_stored(np.array([stream_seq]))
        if delivered > 1:
            tally.add("redelivered_msgs")
        if now_ns >= tally.steady_ns:
            tally.store_latency(np.array([time.time_ns() - stored_ns]))
        columns = (np.array([n]) for n in (delivered, stream_seq, consumer_seq, stored_ns))
        return fates(self.role, Deliveries(np.empty((1, 0), np.uint8), *columns))

    async def acknowledge(self, message: Msg, fate: Fates) -> None:
        """Acknowledge one delivery, or refuse it on purpose."""
        tally = self.job.tally
        if self.role.think_s:
            await self.job.sleep(self.role.think_s)
        if self.role.acks == "none":
            return
        if fate.never[0]:
            tally.add("never_acked_msgs")
        elif fate.term[0]:
            await message.term()
            tally.add("terms_sent_msgs")
        elif fate.nak[0]:
            await message.nak()
            tally.add("naks_sent_msgs")
        elif self.role.acks == "double":
            await message.ack_sync(timeout=self.role.timeout_s)
            tally.add("acks_sent_msgs")
            tally.add("acks_confirmed_msgs")
        else:
            await message.ack()
            tally.add("acks_sent_msgs")

    async def on_message(self, message: Msg) -> None:
        """Take one pushed message."""
        try:
            with plain_errors("acknowledgements"):
                await self.acknowledge(message, self.count(message))
        except ServerGone as error:
            self.link.fail(error)
