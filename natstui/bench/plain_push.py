"""Push and ordered consumers with the plain nats-py client."""

from __future__ import annotations

from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from natstui.bench.deliveries import Fates
from natstui.bench.patterns import until_stopped
from natstui.bench.plain import js_context, plain_errors
from natstui.bench.plain_consume import PlainConsumer
from natstui.bench.stage import made_for


class PushReceiver(PlainConsumer):
    """Takes what the server pushes."""

    async def begin(self) -> None:
        """Bind to the consumer; it begins as soon as somebody listens."""
        orders = self.job.orders
        config = ConsumerConfig(
            deliver_subject=orders.deliver_subject,
            deliver_group=orders.consumer if orders.of > 1 else None,
        )
        with plain_errors("a push subscription"):
            await js_context(self.job).subscribe_bind(
                orders.stream, config, orders.consumer, cb=self.on_message, manual_ack=True
            )

    async def run(self) -> None:
        """Let messages come."""
        await until_stopped(self.job, self.link)
        self.close()


class OrderedReceiver(PlainConsumer):
    """Lets nats-py keep the order: a push consumer without acks, made anew after a gap."""

    async def begin(self) -> None:
        """Subscribe to the whole stream."""
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

    async def acknowledge(self, message: Msg, fate: Fates) -> None:
        """Ordered consumers have no acknowledgements."""

    async def run(self) -> None:
        """Let messages come."""
        await until_stopped(self.job, self.link)
        self.close()
