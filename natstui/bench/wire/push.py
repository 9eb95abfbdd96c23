"""The receiver of push consumers of the wire client, which replies to flow control."""

from __future__ import annotations

import re

from natstui.bench.wire.consume import DeliveryReceiver
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import wait_until_stopped
from natstui.model.assets.subjects import is_flow_control

_STALLED_HEADER_PATTERN = re.compile(rb"Nats-Consumer-Stalled: *(\S+)", re.IGNORECASE)


class PushReceiver(DeliveryReceiver):
    """Receives the deliveries of a push consumer; workers share them by a deliver group."""

    async def run(self) -> None:
        """Subscribe to the deliver subject, which starts delivery, and receive until stopped."""
        orders = self.job.orders
        await self.link.subscribe(
            orders.deliver_subject or "", self._on_run, queue=orders.deliver_group or ""
        )
        await wait_until_stopped(self.job, self.link)
        await self.end()

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        if run.status is None:
            self.count_deliveries(run, now_ns)
            return
        reply, stalled_match = (
            run.layout.reply,
            _STALLED_HEADER_PATTERN.search(run.text(0, run.layout.headers)),
        )
        if reply is not None:
            # All messages before it were handled.
            self._reply_flow_control(run.text(0, reply))
        elif stalled_match:
            self._reply_flow_control(stalled_match[1])

    def _reply_flow_control(self, subject: bytes) -> None:
        """Reply to flow control if the subject is of this consumer."""
        orders = self.job.orders
        text = subject.decode(errors="replace")
        if is_flow_control(text, orders.stream or "", orders.consumer or ""):
            self.link.write(b"PUB %s 0\r\n\r\n" % subject)
