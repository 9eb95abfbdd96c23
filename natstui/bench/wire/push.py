"""Push consumers with the wire client: deliveries come unasked, flow control is answered."""

from __future__ import annotations

import re

from natstui.bench.wire.consume import Consumer
from natstui.bench.wire.frames import Run
from natstui.bench.wire.stopping import until_stopped

_STALLED = re.compile(rb"Nats-Consumer-Stalled: *(\S+)", re.IGNORECASE)


class PushReceiver(Consumer):
    """Takes what the server pushes; workers of a role share it by a deliver group."""

    async def run(self) -> None:
        """Subscribe where the consumer delivers, which begins then; let messages come."""
        orders = self.job.orders
        await self.link.subscribe(
            orders.deliver_subject or "", self._on_run, queue=orders.deliver_group or ""
        )
        await until_stopped(self.job, self.link)
        await self.end()

    def _on_run(self, run: Run, now_ns: int) -> None:
        if run.status is None:
            self.take(run, now_ns)
            return
        if run.layout.reply is not None:
            # A flow control request: everything before it has been taken.
            self.link.write(b"PUB %s 0\r\n\r\n" % run.text(0, run.layout.reply))
            return
        stalled = _STALLED.search(run.text(0, run.layout.headers))
        if stalled:
            self.link.write(b"PUB %s 0\r\n\r\n" % stalled[1])
