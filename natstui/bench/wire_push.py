"""Push consumers with the wire client: deliveries come unasked, flow control is answered."""

from __future__ import annotations

import re

from natstui.bench.frames import Run
from natstui.bench.patterns import until_stopped
from natstui.bench.wire_consume import Consumer

_STALLED = re.compile(rb"Nats-Consumer-Stalled: *(\S+)", re.IGNORECASE)


class PushReceiver(Consumer):
    """Takes what the server pushes; workers of a role share it by a deliver group."""

    async def begin(self) -> None:
        """Subscribe where the consumer delivers; it begins as soon as somebody listens."""
        await super().begin()
        group = self.job.orders.consumer if self.job.orders.of > 1 else None
        await self.link.subscribe(
            self.job.orders.deliver_subject or "", self._on_run, queue=group or ""
        )

    async def run(self) -> None:
        """Let messages come."""
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
