"""Push consumers with the wire client: unrequested deliveries, and replies to flow control."""

from __future__ import annotations

import re

from natstui.bench.wire.consume import Consumer
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import until_stopped
from natstui.model.assets.subjects import is_flow_control

_STALLED = re.compile(rb"Nats-Consumer-Stalled: *(\S+)", re.IGNORECASE)


class PushReceiver(Consumer):
    """Receives the deliveries of a push consumer, which workers share by a deliver group."""

    async def run(self) -> None:
        """Subscribe to the deliver subject, which starts delivery, and receive until stopped."""
        orders = self.job.orders
        await self.link.subscribe(
            orders.deliver_subject or "", self._on_run, queue=orders.deliver_group or ""
        )
        await until_stopped(self.job, self.link)
        await self.end()

    def _on_run(self, run: Run, now_ns: int) -> None:
        if run.status is None:
            self.handle_run(run, now_ns)
            return
        reply, stalled = run.layout.reply, _STALLED.search(run.text(0, run.layout.headers))
        if reply is not None:
            # Everything before it has been taken.
            self._reply_flow_control(run.text(0, reply))
        elif stalled:
            self._reply_flow_control(stalled[1])

    def _reply_flow_control(self, subject: bytes) -> None:
        """Reply to a flow control message of this consumer; others are ignored."""
        orders = self.job.orders
        text = subject.decode(errors="replace")
        if is_flow_control(text, orders.stream or "", orders.consumer or ""):
            self.link.write(b"PUB %s 0\r\n\r\n" % subject)
