"""Ordered consumers of the wire client: each worker receives all messages of the stream."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.job.job import Job, RetryPolicy, consumer_description
from natstui.bench.wire.consume import SILENCE_TIMEOUT_NS, DeliveryReceiver, pull_request
from natstui.bench.wire.deliveries import read_deliveries
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.errors import ConnectionLost, NatstuiError, RequestFailed, RequestTimedOut
from natstui.model.assets.defaults import consumer_request

_BATCH_MSGS = 10_000
_INACTIVE_THRESHOLD_S = 30
_NO_STREAM_ERR_CODE = 10059


class OrderedReceiver(DeliveryReceiver):
    """Pulls from an ephemeral consumer without acks; after a gap it creates another one.

    The new consumer starts at the first missing message.
    """

    def __init__(self, job: Job, link: WireLink, filter_subject: str | None = None) -> None:
        """Create without a consumer; with `filter_subject` it receives only that subject."""
        super().__init__(job, link)
        self._filter = {} if filter_subject is None else {"filter_subject": filter_subject}
        self._generation_number = 0
        self._next_consumer_seq = 1
        self._next_stream_seq = 1
        self._requested_msgs = 0
        self._head = b""
        self._last_received_ns = 0
        self._must_recreate = asyncio.Event()
        self._handled_disconnects_count = link.disconnects_count
        self._retry = RetryPolicy(job)

    async def begin(self) -> None:
        """Create the first consumer, from the start of the stream."""
        await super().begin()
        self._next_stream_seq = self.job.orders.first_seq
        await self._create_consumer()

    async def run(self) -> None:
        """Pull until stopped."""
        while not self.job.stopping.is_set() and not self.link.failure.done():
            if self._is_consumer_lost():
                await self._recreate_consumer()
            # After a pause no delivery may be left that would request more.
            self._refill()
            await self.job.sleep(0.05)
        if self.link.failure.done():
            raise self.link.failure.result()
        await self.end()

    def _is_consumer_lost(self) -> bool:
        """Return whether the consumer or the open pull request was lost."""
        is_silent = (
            self._requested_msgs > 0
            and time.monotonic_ns() - self._last_received_ns > SILENCE_TIMEOUT_NS
        )
        return (
            is_silent
            or self._must_recreate.is_set()
            or self.link.disconnects_count != self._handled_disconnects_count
        )

    async def _recreate_consumer(self) -> None:
        """Create the next consumer; retries while its server is restarting.

        Raises the error of a refusal that is final.
        """
        while not self.job.stopping.is_set():
            self._handled_disconnects_count = self.link.disconnects_count
            await self.link.wait_connected()
            try:
                await self._create_consumer()
            except (RequestTimedOut, ConnectionLost):
                if not self._should_retry(503, None):
                    raise
            except RequestFailed as error:
                if not self._should_retry(error.code, error.err_code):
                    raise
            else:
                return
            await self.job.sleep(RetryPolicy.RETRY_DELAY_S)

    def _should_retry(self, status: int | None, err_code: int | None) -> bool:
        """Return whether the stream is being restored, or its server is restarting."""
        if err_code == _NO_STREAM_ERR_CODE:
            status, err_code = 503, None
        was_connection_lost = self.link.disconnects_count > 0
        return self._retry.should_retry(
            status, err_code, was_connection_lost=was_connection_lost, count=0
        )

    async def _create_consumer(self) -> None:
        """Create a consumer that starts at the next message, and subscribe to its deliveries."""
        self._must_recreate.clear()
        self._generation_number += 1
        self._next_consumer_seq, self._requested_msgs, self._head = 1, 0, b""
        orders = self.job.orders
        worker_name = f"natstui-{orders.run_id}-{orders.role.name}-{orders.worker_id}"
        name = f"{worker_name}-{self._generation_number}"
        config = {
            "name": name,
            "description": consumer_description(orders.run_id),
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next_stream_seq,
            "inactive_threshold": _INACTIVE_THRESHOLD_S * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
            **self._filter,
        }
        verb, body = consumer_request(orders.stream or "", name, config, "create")
        reply = json.loads(await self.job.client.request(verb, body))
        self.job.delete_verbs = [f"CONSUMER.DELETE.{orders.stream}.{reply['name']}"]
        inbox = self.link.nc.new_inbox()
        generation_number = self._generation_number

        def on_run(run: FrameRun, now_ns: int) -> None:
            if generation_number == self._generation_number:
                self._on_run(run, now_ns)

        await self.link.subscribe(inbox, on_run)
        next_verb = f"{self.job.client.prefix}.CONSUMER.MSG.NEXT.{orders.stream}.{reply['name']}"
        self._head = f"PUB {next_verb} {inbox} ".encode()

    def on_processed(self) -> None:
        """Send a pull request if half of the last batch is processed."""
        self._refill()

    def _refill(self) -> None:
        """Send a pull request if at most half of a batch is still to be delivered or processed.

        Not while the next consumer is being created.
        """
        # A slow consumer requests no more than it can process.
        is_slow = self.role.think_s > 0
        batch = self.role.batch_msgs if is_slow else max(self.role.batch_msgs, _BATCH_MSGS)
        outstanding_msgs = self._requested_msgs + self.backlog_msgs
        if self._head and outstanding_msgs <= batch // 2 and self.job.running.is_set():
            self.link.write(pull_request(self._head, batch))
            self._requested_msgs += batch
            self._last_received_ns = time.monotonic_ns()

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        self._last_received_ns = now_ns
        if run.status is not None:
            if run.status == 503:
                self._on_no_responder()
            elif run.status != 100:
                self._requested_msgs = 0
                self._refill()
            return
        self._retry.note_success()
        numbers = read_deliveries(run).consumer_seq
        expected_seqs = np.arange(self._next_consumer_seq, self._next_consumer_seq + len(run))
        in_order_count = (
            len(run)
            if (numbers == expected_seqs).all()
            else int((numbers == expected_seqs).argmin())
        )
        if in_order_count < len(run):
            # What follows a gap comes again, in order, from the next consumer.
            self._generation_number += 1
            self._must_recreate.set()
        if not in_order_count:
            return
        deliveries = self.count_deliveries(FrameRun(run.layout, run.rows[:in_order_count]), now_ns)
        self._requested_msgs -= in_order_count
        self._next_consumer_seq += in_order_count
        self._next_stream_seq = int(deliveries.stream_seq[-1]) + 1
        self._refill()

    def _on_no_responder(self) -> None:
        """Let `run` create another consumer after a missing responder.

        Fails the link after the timeout of the role.
        """
        if self._should_retry(503, None):
            self._must_recreate.set()
        else:
            self.link.fail(
                NatstuiError(
                    "no server replies for the stream of the ordered consumer: it was deleted, "
                    "or has no leader"
                )
            )
