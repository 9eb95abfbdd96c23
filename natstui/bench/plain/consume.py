"""JetStream receivers with the plain nats-py client: pull, push and ordered."""

from __future__ import annotations

import re
import time

import nats.js.errors
import numpy as np
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy

from natstui.bench.job.content import stamp_place
from natstui.bench.job.job import Job, RetryPolicy, made_for
from natstui.bench.job.stamps import NO_STAMP
from natstui.bench.plain.client import PlainInbox, js_context, plain_errors
from natstui.bench.wire.deliveries import Deliveries, Refusals, refusals
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.stopping import until_stopped
from natstui.errors import ServerGone


class PlainConsumer:
    """Counts deliveries and acknowledges them as the role says, one call per message."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.role = job.orders.role
        self._stamped = job.orders.stamped and stamp_place(job.orders).length > 0
        self._inbox = PlainInbox(job, link, stamp_place(job.orders) if self._stamped else NO_STAMP)

    async def begin(self) -> None:
        """Nothing to subscribe to yet."""

    def close(self) -> None:
        """Count the rest."""
        self._inbox.close()

    def count(self, message: Msg) -> Refusals:
        """Count one delivery, and choose how to answer it."""
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
        return refusals(self.role, Deliveries(np.empty((1, 0), np.uint8), *columns))

    async def acknowledge(self, message: Msg, refused: Refusals) -> None:
        """Acknowledge one delivery, or refuse it on purpose."""
        tally = self.job.tally
        if self.role.think_s:
            await self.job.sleep(self.role.think_s)
        if self.role.acks == "none":
            return
        if refused.never[0]:
            tally.add("never_acked_msgs")
        elif refused.term[0]:
            await message.term()
            tally.add("terms_sent_msgs")
        elif refused.nak[0]:
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


_FETCH_S = 0.5


_LEAVING = re.compile("leadership change|server shutdown", re.IGNORECASE)


class Puller(PlainConsumer):
    """Fetches batch after batch."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._retry = RetryPolicy(job)

    async def run(self) -> None:
        """Fetch until told to stop."""
        orders, js = self.job.orders, js_context(self.job)
        with plain_errors(f"fetches from consumer {orders.stream} > {orders.consumer}"):
            pulling = await js.pull_subscribe_bind(consumer=orders.consumer, stream=orders.stream)
            while not self.job.stopping.is_set() and not self.link.failure.done():
                if not self.job.running.is_set():
                    await self.job.sleep(0.02)
                    continue
                await self._fetch(pulling)
        self.close()

    async def _fetch(self, pulling: JetStreamContext.PullSubscription) -> None:
        """Fetch once; a server that is coming back is asked again a little later."""
        try:
            messages = await pulling.fetch(self.role.batch_msgs, timeout=_FETCH_S)
        except TimeoutError:
            return
        except nats.js.errors.APIError as error:
            if not self.should_retry(error):
                raise
            await self.job.sleep(RetryPolicy.AGAIN_S)
            return
        self._retry.succeeded()
        await self._take(messages)

    def should_retry(self, error: nats.js.errors.APIError) -> bool:
        """Tell a server that comes back, or a leader that changes, from a refusal for good."""
        is_leaving = error.code == 409 and _LEAVING.search(error.description or "") is not None
        is_nobody = isinstance(error, nats.js.errors.ServiceUnavailableError)
        code = 503 if is_leaving or is_nobody else error.code
        was_lost = bool(self.link.nc.stats["reconnects"])
        return self._retry.should_retry(code, error.err_code, was_lost=was_lost, count=0)

    async def _take(self, messages: list[Msg]) -> None:
        for message in messages:
            refused = self.count(message)
            if self.role.acks != "all" or message is messages[-1]:
                await self.acknowledge(message, refused)


class PushReceiver(PlainConsumer):
    """Takes what the server pushes."""

    async def run(self) -> None:
        """Bind to the consumer, which begins as soon as somebody listens; let messages come."""
        orders = self.job.orders
        config = ConsumerConfig(
            deliver_subject=orders.deliver_subject,
            deliver_group=orders.deliver_group,
        )
        with plain_errors("a push subscription"):
            await js_context(self.job).subscribe_bind(
                orders.stream, config, orders.consumer, cb=self.on_message, manual_ack=True
            )
        await until_stopped(self.job, self.link)
        self.close()


class OrderedReceiver(PlainConsumer):
    """Lets nats-py keep the order: a push consumer without acks, made again after a gap."""

    async def run(self) -> None:
        """Subscribe to the whole stream, which comes at once; let messages come."""
        orders = self.job.orders
        with plain_errors("an ordered subscription"):
            subscription = await js_context(self.job).subscribe(
                ">",
                stream=orders.stream,
                config=ConsumerConfig(description=made_for(orders.run_id)),
                cb=self.on_message,
                ordered_consumer=True,
                deliver_policy=DeliverPolicy.ALL,
            )
            info = await subscription.consumer_info()
        self.job.cleanup = [f"CONSUMER.DELETE.{orders.stream}.{info.name}"]
        await until_stopped(self.job, self.link)
        self.close()

    async def acknowledge(self, message: Msg, refused: Refusals) -> None:
        """Ordered consumers have no acknowledgements."""
