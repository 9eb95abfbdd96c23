"""The ack tap: reads the acks of one consumer's messages, for a limited time and rate.

A client sends an ack to the reply subject of a message, which identifies the delivery. The tap
subscribes to these subjects, and therefore counts as a responder: if the consumer is deleted, a
client that waits for the confirmation of its ack gets no error. So a tap is short, and starts only
on an existing consumer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import PermissionDenied
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.model.bench.latency import bucket_of, from_counts
from natstui.model.records.tap import (
    MAX_TAPPED_MSGS,
    MAX_TAPPED_MSGS_PER_S,
    AckCounts,
    StartTap,
    TapResults,
    UnsettledMessage,
)
from natstui.units import duration_text

_REPORT_INTERVAL_S = 0.25
_MAX_SUBSCRIPTION_MSGS = 2 * MAX_TAPPED_MSGS
"""Number of messages after which the server ends the subscription."""
_MAX_UNACKED_MSGS = 10_000
_MAX_REPORTED_UNACKED_MSGS = 100
_ACK_TOKENS_COUNT, _ACK_WITH_DOMAIN_TOKENS_COUNT = 9, 11

AckKind = Literal["ack", "nak", "term", "in progress", "other"]
_KINDS_BY_PAYLOAD: dict[bytes, AckKind] = {
    b"": "ack", b"+ACK": "ack", b"+OK": "ack", b"+NXT": "ack", b"-NAK": "nak", b"+TERM": "term",
    b"+WPI": "in progress",
}  # fmt: skip


class Delivery(NamedTuple):
    """The delivery that an ack is about, from the subject of the ack."""

    deliveries_count: int
    stream_seq: int
    consumer_seq: int
    stored_at_ns: int


def parse_delivery(subject: str) -> Delivery | None:
    """Return the delivery in the subject of an ack; None if it is another subject.

    The subject starts with `$JS.ACK.<stream>.<consumer>.` or with
    `$JS.ACK.<domain>.<account>.<stream>.<consumer>.`. Then follow the number of deliveries, the
    sequences in the stream and of the consumer, the time at which the message was stored, and the
    number of pending messages.
    """
    tokens = subject.split(".")
    deliveries_count_index = (
        4
        if len(tokens) == _ACK_TOKENS_COUNT
        else 6
        if len(tokens) >= _ACK_WITH_DOMAIN_TOKENS_COUNT
        else None
    )
    if deliveries_count_index is None:
        return None
    try:
        return Delivery(*map(int, tokens[deliveries_count_index : deliveries_count_index + 4]))
    except ValueError:
        return None


def ack_kind(payload: bytes) -> AckKind:
    """Return the kind of an ack with this payload."""
    return _KINDS_BY_PAYLOAD.get(payload.split(b" ", 1)[0].split(b"{", 1)[0].strip(), "other")


class AckTap:
    """The ack tap: reads the acks that one consumer's clients send, and reports their counts."""

    def __init__(self, command: StartTap, on_results: Callable[[TapResults], None]) -> None:
        self._command = command
        self._on_results = on_results
        self._subscriptions: list[Subscription] = []
        self._denial: PermissionDenied | None = None
        self._count_reconnects: Callable[[], int] = int
        self._end_event = asyncio.Event()
        self._end_text: str | None = None
        self._ack_counts = dict.fromkeys(AckCounts.__struct_fields__, 0)
        self._read_msgs = self._read_bytes = 0
        self._current_second, self._current_second_msgs = 0, 0
        self._acks_by_time_bucket: dict[int, int] = {}
        self._acked_consumer_seqs: set[int] = set()
        self._unacked_by_stream_seq: dict[int, UnsettledMessage] = {}
        self._start_s = self._elapsed_s = 0.0
        self._clock_ahead_ns = 0
        """Time by which the server's clock is ahead of the local one; negative if it is behind."""
        self._are_earlier_acks_included = False

    async def begin(self, client: Client) -> None:
        """Subscribe; every ack that the server receives after this returns is counted.

        Raises NotFound if there is no such consumer, PermissionDenied, and what `request` raises.
        """
        stream, consumer = self._command.stream, self._command.consumer
        sent_ns = time.time_ns()
        info = await client.consumer_info(stream, consumer)
        if info.written_at_us is not None:
            self._clock_ahead_ns = info.written_at_us * 1000 - (sent_ns + time.time_ns()) // 2
        self._are_earlier_acks_included = info.read_config().get("ack_policy") == "all"
        stats = client.nc.stats
        reconnects_before_count = stats["reconnects"]
        self._count_reconnects = lambda: int(stats["reconnects"] - reconnects_before_count)
        # Acks count from here: those that arrive before the last reply are delivered to us, too.
        self._start_s = time.monotonic()
        try:
            for prefix in ("$JS.ACK", "$JS.ACK.*.*"):
                subject = f"{prefix}.{stream}.{consumer}.>"
                subscription = await client.subscribe(subject, self._on_message, self._deny)
                await subscription.unsubscribe(limit=_MAX_SUBSCRIPTION_MSGS)
                self._subscriptions.append(subscription)
            # The reply arrives after any denial of the subscriptions.
            await client.consumer_info(stream, consumer)
            if self._denial is not None:
                raise self._denial
        except BaseException:
            await self._unsubscribe()
            raise

    async def run(self) -> None:
        """Report the acks until the time is over, too many arrive, or this is cancelled."""
        until_s = self._start_s + self._command.for_s
        try:
            while self._end_text is None:
                self._report()
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    self._stop(f"natstui read for {duration_text(self._command.for_s)}")
                elif any(
                    subscription.delivered >= _MAX_SUBSCRIPTION_MSGS
                    for subscription in self._subscriptions
                ):
                    self._stop("more acks arrived than could be read")
                elif self._count_reconnects():
                    self._stop("the connection was lost: acks of that time are missing")
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(_REPORT_INTERVAL_S, left_s)):
                            await self._end_event.wait()
        except asyncio.CancelledError:
            self._stop("reading was stopped")
            raise
        finally:
            self._report()
            await self._unsubscribe()

    def _stop(self, reason: str) -> None:
        if self._end_text is None:
            self._end_text = f"ended: {reason}"
            self._elapsed_s = time.monotonic() - self._start_s
            self._end_event.set()

    def _deny(self, error: PermissionDenied) -> None:
        self._denial = error

    async def _on_message(self, message: Msg) -> None:
        if self._end_text is not None:
            return
        now_s = time.monotonic()
        self._read_msgs += 1
        self._read_bytes += len(message.subject) + len(message.reply) + len(message.data)
        delivery = parse_delivery(message.subject)
        if delivery is None:
            self._ack_counts["others_count"] += 1
        else:
            self._count_ack(delivery, ack_kind(message.data))
        second = int(now_s)
        self._current_second_msgs = (
            self._current_second_msgs + 1 if second == self._current_second else 1
        )
        self._current_second = second
        if self._current_second_msgs >= MAX_TAPPED_MSGS_PER_S:
            self._stop(f"more than {MAX_TAPPED_MSGS_PER_S:,} acks per second arrived")
        elif self._read_msgs >= MAX_TAPPED_MSGS:
            self._stop(f"natstui read {MAX_TAPPED_MSGS:,} acks")

    def _count_ack(self, delivery: Delivery, kind: AckKind) -> None:
        match kind:
            case "ack":
                self._count_positive_ack(delivery)
            case "term":
                self._ack_counts["terms_count"] += 1
                self._unacked_by_stream_seq.pop(delivery.stream_seq, None)
            case "nak" | "in progress":
                self._ack_counts["naks_count" if kind == "nak" else "in_progress_count"] += 1
                is_listed = delivery.stream_seq in self._unacked_by_stream_seq
                was_acked = delivery.consumer_seq in self._acked_consumer_seqs
                if not was_acked and (
                    is_listed or len(self._unacked_by_stream_seq) < _MAX_UNACKED_MSGS
                ):
                    self._unacked_by_stream_seq[delivery.stream_seq] = UnsettledMessage(
                        delivery.stream_seq,
                        delivery.deliveries_count,
                        delivery.stored_at_ns // 1000,
                        kind,
                        (time.time_ns() + self._clock_ahead_ns) // 1000,
                    )
            case _:
                self._ack_counts["others_count"] += 1

    def _count_positive_ack(self, delivery: Delivery) -> None:
        self._ack_counts["acks_count"] += 1
        self._ack_counts["repeated_acks_count"] += delivery.deliveries_count > 1
        if delivery.consumer_seq in self._acked_consumer_seqs:
            self._ack_counts["again_acks_count"] += 1
            return
        self._acked_consumer_seqs.add(delivery.consumer_seq)
        bucket = bucket_of(time.time_ns() + self._clock_ahead_ns - delivery.stored_at_ns)
        self._acks_by_time_bucket[bucket] = self._acks_by_time_bucket.get(bucket, 0) + 1
        self._unacked_by_stream_seq.pop(delivery.stream_seq, None)
        if self._are_earlier_acks_included:
            for seq in [seq for seq in self._unacked_by_stream_seq if seq < delivery.stream_seq]:
                del self._unacked_by_stream_seq[seq]

    def _report(self) -> None:
        elapsed_s = self._elapsed_s if self._end_text else time.monotonic() - self._start_s
        sorted_unacked = sorted(
            self._unacked_by_stream_seq.values(), key=lambda message: message.stream_seq
        )
        self._on_results(
            TapResults(
                at_us=(time.time_ns() + self._clock_ahead_ns) // 1000,
                command_id=self._command.command_id,
                stream=self._command.stream,
                consumer=self._command.consumer,
                elapsed_s=elapsed_s,
                for_s=self._command.for_s,
                ended=self._end_text,
                counts=AckCounts(**self._ack_counts),
                read_msgs=self._read_msgs,
                read_bytes=self._read_bytes,
                stored_to_acked=from_counts(self._acks_by_time_bucket),
                unsettled=tuple(sorted_unacked[:_MAX_REPORTED_UNACKED_MSGS]),
                unsettled_msgs=len(sorted_unacked),
            )
        )

    async def _unsubscribe(self) -> None:
        await unsubscribe(*self._subscriptions)
        self._subscriptions = []
