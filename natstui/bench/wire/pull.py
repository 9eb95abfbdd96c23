"""Pull consumers of the wire client: with pull requests that overlap, or batch by batch."""

from __future__ import annotations

import asyncio
import re
import time

from natstui.bench.job.job import Job
from natstui.bench.wire.consume import SILENCE_TIMEOUT_NS, DeliveryReceiver, pull_request
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.errors import JetStreamUnavailable, NatstuiError, NotFound, RequestFailed

NO_LEADER_TIMEOUT_NS = 30_000_000_000
"""Limit of waiting for a new leader, which a cluster elects within seconds."""
_RECONNECT_GRACE_NS = 3_000_000_000
"""Time after a reconnect in which the server may not know its consumers yet."""
_CONSUMER_CHECK_TIMEOUT_S = 2.0
_PENDING_HEADER_PATTERN = re.compile(rb"Nats-Pending-Messages: *(\d+)", re.IGNORECASE)
_FATAL_STATUS_PATTERN = re.compile(
    rb"consumer deleted|consumer is push|bad request|exceeded maxrequest", re.I
)


class Puller(DeliveryReceiver):
    """Pulls with several open requests, so that the server always has one to fill.

    With a processing delay it requests more when half of a batch is left.
    """

    refill_at_open_batches = 3.0
    """Number of open batches at or below which the next batch is requested."""
    processing_refill_at_open_batches = 0.5
    """The same with a processing delay, where unprocessed messages count as open."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._inbox = link.nc.new_inbox().encode()
        self._requested_msgs = 0
        """Number of messages that are requested and not delivered yet."""
        self._batch_msgs = self.role.batch_msgs
        self._last_message_ns = 0
        self._no_responder_since_ns: int | None = None
        self._consumer_check_task: asyncio.Task[None] | None = None
        self._handled_disconnects_count = link.disconnects_count
        verb = f"{job.client.prefix}.CONSUMER.MSG.NEXT.{job.orders.stream}.{job.orders.consumer}"
        self._head = b"PUB %s %s " % (verb.encode(), self._inbox)

    async def begin(self) -> None:
        """Subscribe to the deliveries."""
        await super().begin()
        await self.link.subscribe(self._inbox.decode(), self._on_run)

    async def run(self) -> None:
        """Pull until stopped."""
        while not self.job.stopping.is_set() and not self.link.failure.done():
            if self.link.disconnects_count != self._handled_disconnects_count:
                self._handled_disconnects_count, self._requested_msgs = (
                    self.link.disconnects_count,
                    0,
                )
            if time.monotonic_ns() - self._last_message_ns > SILENCE_TIMEOUT_NS:
                self._requested_msgs = 0
            self._refill()
            await self.job.sleep(0.05)
        if self.link.failure.done():
            raise self.link.failure.result()
        await self.end()

    def _refill(self) -> None:
        """Send a pull request if few requested messages are still to be delivered."""
        if not self.job.running.is_set() or self.job.stopping.is_set():
            return
        # A slow consumer requests no more than it can process.
        outstanding_msgs = self._requested_msgs + self.backlog_msgs
        max_open_batches = (
            self.processing_refill_at_open_batches
            if self.role.think_s
            else self.refill_at_open_batches
        )
        if outstanding_msgs <= self._batch_msgs * max_open_batches and self.link.nc.is_connected:
            self.link.write(pull_request(self._head, self._batch_msgs))
            self._requested_msgs += self._batch_msgs
            self._last_message_ns = time.monotonic_ns()

    def on_processed(self) -> None:
        """Send a pull request if enough of the last batch is processed."""
        self._refill()

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        self._last_message_ns = now_ns
        if run.status == 503:
            self._on_no_responder(now_ns)
            return
        self._no_responder_since_ns = None
        if run.status is not None:
            self._on_status(run, run.status)
        else:
            self._requested_msgs -= len(run)
            if not self.role.think_s:
                # The server delivers more while we count and acknowledge these.
                self._refill()
            self.count_deliveries(run, now_ns)
        self._refill()

    def _on_no_responder(self, now_ns: int) -> None:
        """Count the open pull requests as ended: one had no responder, as without a leader.

        Checks after 3 s whether the consumer was deleted, and fails the link after 30 s.
        """
        self._requested_msgs = 0
        self._no_responder_since_ns = self._no_responder_since_ns or now_ns
        silent_ns = now_ns - self._no_responder_since_ns
        if silent_ns > NO_LEADER_TIMEOUT_NS:
            orders = self.job.orders
            self.link.fail(
                JetStreamUnavailable(
                    f"consumer {orders.stream} > {orders.consumer} has no leader: no server has"
                    f" replied to pulls for {silent_ns / 1e9:.0f} s; pending messages stay unread",
                    code=503,
                )
            )
        elif silent_ns > _RECONNECT_GRACE_NS and (
            self._consumer_check_task is None or self._consumer_check_task.done()
        ):
            self._consumer_check_task = self.link.start_task(self._check_consumer())

    async def _check_consumer(self) -> None:
        """Raise NotFound if the server reports that the consumer does not exist.

        Without a reply, return after 2 s.
        """
        orders = self.job.orders
        verb = f"CONSUMER.INFO.{orders.stream}.{orders.consumer}"
        try:
            await self.job.client.request(verb, timeout_s=_CONSUMER_CHECK_TIMEOUT_S)
        except NotFound as error:
            raise NotFound(
                f"consumer {orders.stream} > {orders.consumer} was deleted: {error}", code=404
            ) from error
        except NatstuiError:
            # Unknown: the leader of the consumer may be missing, too.
            return
        await asyncio.sleep(_CONSUMER_CHECK_TIMEOUT_S)

    def _on_status(self, run: FrameRun, status: int) -> None:
        """Fail the link for a fatal status; a heartbeat, status 100, changes nothing.

        Any other status ends a pull request: its undelivered messages are not requested any more.
        """
        headers = run.text(0, run.layout.headers)
        error = _pull_error(status, headers, self.job)
        if error is not None:
            self.link.fail(error)
        elif status != 100:
            pending_match = _PENDING_HEADER_PATTERN.search(headers)
            open_msgs = self._requested_msgs - int(pending_match[1]) if pending_match else 0
            self._requested_msgs = max(open_msgs, 0)


class Fetcher(Puller):
    """Requests a batch, receives all of it, then requests the next one."""

    refill_at_open_batches = processing_refill_at_open_batches = 0.0


def _pull_error(status: int, headers: bytes, job: Job) -> NatstuiError | None:
    """Return the error of a status after which pulling cannot continue; None for any other."""
    name = f"{job.orders.stream} > {job.orders.consumer}"
    if status in (400, 409) and _FATAL_STATUS_PATTERN.search(headers):
        line = headers.split(b"\r\n", 1)[0].decode("utf-8", "replace")
        return RequestFailed(f"consumer {name} refused a pull: {line[9:]}", code=status)
    return None
