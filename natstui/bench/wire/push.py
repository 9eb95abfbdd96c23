"""Push consumers with the wire client: deliveries come unasked, flow control is answered."""

from __future__ import annotations

import re

from natstui.bench.wire.consume import Consumer
from natstui.bench.wire.frames import Run
from natstui.bench.wire.stopping import until_stopped
from natstui.model.assets.subjects import is_flow_control

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
        reply, stalled = run.layout.reply, _STALLED.search(run.text(0, run.layout.headers))
        if reply is not None:
            # Everything before it has been taken.
            self._let_go_on(run.text(0, reply))
        elif stalled:
            self._let_go_on(stalled[1])

    def _let_go_on(self, subject: bytes) -> None:
        """Answer flow control of this consumer; to any other subject that would be a message."""
        orders = self.job.orders
        text = subject.decode(errors="replace")
        if is_flow_control(text, orders.stream or "", orders.consumer or ""):
            self.link.write(b"PUB %s 0\r\n\r\n" % subject)
