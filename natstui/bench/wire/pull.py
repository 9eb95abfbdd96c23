"""Pulling with the wire client: continuously, refilled before it runs dry, or fetch by fetch."""

from __future__ import annotations

import asyncio
import re
import time

from natstui.bench.job.job import Job
from natstui.bench.wire.consume import SILENT_NS, Consumer, pull_request
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.errors import JetStreamUnavailable, NatstuiError, NotFound, RequestFailed

NO_LEADER_NS = 30_000_000_000
"""A cluster elects a new leader within seconds; nobody waits longer for one."""
_RECOVERY_NS = 3_000_000_000
"""A server that comes back recovers its consumers meanwhile, and may not know them yet."""
_CHECK_S = 2.0
_PENDING = re.compile(rb"Nats-Pending-Messages: *(\d+)", re.IGNORECASE)
_FATAL = re.compile(rb"consumer deleted|consumer is push|bad request|exceeded maxrequest", re.I)


class Puller(Consumer):
    """Keeps pull requests open, so that the server always has one to fill.

    Who thinks about every message asks for more when half of a batch is left, and never before.
    """

    refill_ratio = 3.0
    """So many batches are asked for and have not come when the next one is asked for."""
    thinking_ratio = 0.5

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._inbox = link.nc.new_inbox().encode()
        self._asked = 0
        """Messages asked for and not delivered yet."""
        self._batch = self.role.batch_msgs
        self._heard_ns = 0
        self._nobody_since_ns: int | None = None
        self._consumer_check: asyncio.Task[None] | None = None
        self._lost_count = link.lost_count
        verb = f"{job.client.prefix}.CONSUMER.MSG.NEXT.{job.orders.stream}.{job.orders.consumer}"
        self._head = b"PUB %s %s " % (verb.encode(), self._inbox)

    async def begin(self) -> None:
        """Subscribe to where deliveries come."""
        await super().begin()
        await self.link.subscribe(self._inbox.decode(), self._on_run)

    async def run(self) -> None:
        """Pull until told to stop."""
        while not self.job.stopping.is_set() and not self.link.failure.done():
            if self.link.lost_count != self._lost_count:
                self._lost_count, self._asked = self.link.lost_count, 0
            if time.monotonic_ns() - self._heard_ns > SILENT_NS:
                self._asked = 0
            self._refill()
            await self.job.sleep(0.05)
        if self.link.failure.done():
            raise self.link.failure.result()
        await self.end()

    def _refill(self) -> None:
        """Ask for more when little is left to come."""
        if not self.job.running.is_set() or self.job.stopping.is_set():
            return
        # A slow consumer asks for no more than it can take.
        open_msgs = self._asked + self.backlog_msgs
        ratio = self.thinking_ratio if self.role.think_s else self.refill_ratio
        if open_msgs <= self._batch * ratio and self.link.nc.is_connected:
            self.link.write(pull_request(self._head, self._batch))
            self._asked += self._batch
            self._heard_ns = time.monotonic_ns()

    def thought(self) -> None:
        """Ask for more once there is room for it."""
        self._refill()

    def _on_run(self, run: Run, now_ns: int) -> None:
        self._heard_ns = now_ns
        if run.status == 503:
            self._nobody(now_ns)
            return
        self._nobody_since_ns = None
        if run.status is not None:
            self._on_status(run, run.status)
        else:
            self._asked -= len(run)
            if not self.role.think_s:
                # The server delivers more while we count and acknowledge these.
                self._refill()
            self.take(run, now_ns)
        self._refill()

    def _nobody(self, now_ns: int) -> None:
        """Wait for a new leader or a restarted server; fail when the consumer was deleted."""
        self._asked = 0
        self._nobody_since_ns = self._nobody_since_ns or now_ns
        silent_ns = now_ns - self._nobody_since_ns
        if silent_ns > NO_LEADER_NS:
            orders = self.job.orders
            self.link.fail(
                JetStreamUnavailable(
                    f"consumer {orders.stream} > {orders.consumer} has no leader: no server has"
                    f" replied to pulls for {silent_ns / 1e9:.0f} s; pending messages stay unread",
                    code=503,
                )
            )
        elif silent_ns > _RECOVERY_NS and (
            self._consumer_check is None or self._consumer_check.done()
        ):
            self._consumer_check = self.link.run(self._check_consumer())

    async def _check_consumer(self) -> None:
        """Fail when the server says that there is no such consumer; wait when it says nothing."""
        orders = self.job.orders
        verb = f"CONSUMER.INFO.{orders.stream}.{orders.consumer}"
        try:
            await self.job.client.request(verb, timeout_s=_CHECK_S)
        except NotFound as error:
            raise NotFound(
                f"consumer {orders.stream} > {orders.consumer} was deleted: {error}", code=404
            ) from error
        except NatstuiError:
            # Nobody can say: its leader may be away, too.
            return
        await asyncio.sleep(_CHECK_S)

    def _on_status(self, run: Run, status: int) -> None:
        """Follow the server: heartbeats, ended pulls, and what makes pulling pointless."""
        headers = run.text(0, run.layout.headers)
        error = _pull_error(status, headers, self.job)
        if error is not None:
            self.link.fail(error)
        elif status != 100:
            unused = _PENDING.search(headers)
            left = self._asked - int(unused[1]) if unused else 0
            self._asked = max(left, 0)


class Fetcher(Puller):
    """Asks for a batch, takes all of it, then asks for the next."""

    refill_ratio = thinking_ratio = 0.0


def _pull_error(status: int, headers: bytes, job: Job) -> NatstuiError | None:
    """Return the error behind a status that ends pulling; None when it goes on."""
    name = f"{job.orders.stream} > {job.orders.consumer}"
    if status in (400, 409) and _FATAL.search(headers):
        line = headers.split(b"\r\n", 1)[0].decode("utf-8", "replace")
        return RequestFailed(f"consumer {name} refused a pull: {line[9:]}", code=status)
    return None
