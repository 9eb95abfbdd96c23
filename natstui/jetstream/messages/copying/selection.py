"""Selects the messages of a stream to copy, and reads them without side effects."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from natstui.clock import steady_s
from natstui.errors import (
    Conflict,
    ConnectionLost,
    JetStreamUnavailable,
    NotFound,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamState
from natstui.jetstream.connection.replies import NO_MESSAGE_CODE
from natstui.jetstream.connection.storing import (
    count_missing,
    has_lost_newest,
    lost_newest_text,
    newest_message,
)
from natstui.jetstream.messages.copying.account import CopyState, SkippedSequences
from natstui.jetstream.messages.copying.dropped import filters_of, find_dropped
from natstui.jetstream.messages.decode import decode_api_reply
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import Reader, StreamMessage
from natstui.model.assets.subjects import overlap
from natstui.model.records.copies import MaxDeliverDrop
from natstui.model.records.messages import StoredMessage
from natstui.units import counted
from natstui.values import replace

ConsumerMessages = Literal["unacknowledged", "given_up"]

_MAX_OPEN_REQUESTS = 50
_PAGE_MSGS = 500
_OUTAGE_RETRY_S = 1.0
_CHECK_INTERVAL_S = 1.0
_OUTAGE_ERRORS = (ConnectionLost, RequestTimedOut, JetStreamUnavailable)

T = TypeVar("T")


class SelectionRequest(Struct, frozen=True):
    """Conditions for the messages of a stream to copy; without any, all messages."""

    stream: str
    subjects: tuple[str, ...] = ()
    from_seq: int | None = None
    to_seq: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    consumer: str | None = None
    consumer_messages: ConsumerMessages | None = None
    """Which messages of the consumer; None if there is no consumer."""
    recorded_drops: tuple[MaxDeliverDrop, ...] = ()
    """Messages that the consumer dropped after max deliver, according to recordings."""

    @property
    def is_range(self) -> bool:
        """Return whether all messages between two sequences are requested, unconditionally."""
        conditions = (self.consumer, self.since_us, self.until_us)
        return not self.subjects and all(condition is None for condition in conditions)


class Selection(Struct, frozen=True):
    """The messages on the server that a request selects: those of a range, or known sequences."""

    request: SelectionRequest
    created_at_us: int
    first_seq: int
    end_seq: int
    """The last sequence to copy; messages stored later are not copied."""
    subjects: tuple[str, ...]
    """The filters to read with: those of the request, or else those of the consumer."""
    seqs: Iterable[int] | None
    """The sequences, ascending; None for all of the range."""
    has_limits_retention: bool
    """Whether the stream has limits retention, so that a consumer can read it without deleting
    messages."""
    remark: str = ""
    """A sentence for the user about what is unknown, or about the source of the sequences."""
    state: StreamState = field(default_factory=StreamState)
    """State of the stream, from its INFO."""
    begin_seq: int = 1
    """The first sequence when the copy began; it may have been removed since."""
    lacking_count: int = 0
    """Number of sequences of a range that had no message when the copy began."""
    consumer_filters: tuple[str, ...] = ()
    """The filters of the consumer; none if there is no consumer, or if it has no filters."""

    @property
    def may_be_consumed(self) -> bool:
        """Return whether consumers may remove messages before they are read, which is no loss."""
        return not self.has_limits_retention and self.state.consumer_count > 0

    @property
    def is_complete_range(self) -> bool:
        """Return whether all messages of a range are selected, and no consumer can remove any."""
        return self.request.is_range and self.seqs is None and not self.may_be_consumed

    @property
    def has_ascending_times(self) -> bool:
        """Return whether the messages are probably in the order of their times.

        They are not if the first is newer than the last, as in the mirror of a stream that was
        restored; messages between these two are not examined.
        """
        first, last = self.state.first_at_us, self.state.last_at_us
        return first is None or last is None or first <= last

    def removed_range_after(self, done_seq: int) -> tuple[int, int] | None:
        """Return the first and last sequence of this selection after `done_seq` that the stream
        has deleted; None if there are none, or that is unknown.
        """
        after_seq = max(done_seq, self.begin_seq - 1)
        last_seq = min(self.first_seq - 1, self.end_seq)
        # The first sequence of a consumer's messages rises with its acks, and that of messages
        # since a time is unknown before they are read.
        is_begin_seq_known = done_seq > 0 or self.request.since_us is None
        if self.request.consumer is not None or not is_begin_seq_known or last_seq <= after_seq:
            return None
        return after_seq + 1, last_seq


async def select(client: Client, request: SelectionRequest) -> Selection:
    """Return the messages that a request selects now; raises RequestFailed."""
    info = await client.stream_info(request.stream)
    has_seq_limit = request.from_seq is not None or request.to_seq is not None
    if request.is_range and has_seq_limit and info.state.num_deleted:
        # This list is long for some streams.
        info = await client.stream_info(request.stream, {"deleted_details": True})
    state, config = info.state, info.read_config()
    has_limits_retention = config.get("retention", "limits") == "limits"
    first = max(request.from_seq or 1, state.first_seq)
    end = min(request.to_seq or state.last_seq, state.last_seq)
    lacking_count = state.num_deleted
    if has_seq_limit:
        lacking_count = count_missing([(first, end)] if first <= end else [], state)
    selection = Selection(
        request, info.created_at_us, first, end, request.subjects, None,
        has_limits_retention, state=state, begin_seq=first, lacking_count=lacking_count,
    )  # fmt: skip
    if request.consumer is None:
        return selection
    consumer = await client.consumer_info(request.stream, request.consumer)
    filters = filters_of(consumer)
    if request.consumer_messages == "given_up":
        seqs, remark = await find_dropped(client, info, consumer, request.recorded_drops)
        return _limit_to_consumer(
            selection, filters, tuple(seq for seq in seqs if first <= seq <= end), first, remark
        )
    remark = _describe_surplus_messages(consumer, config)
    first = max(first, consumer.ack_floor.stream_seq + 1)
    return _limit_to_consumer(selection, filters, None, first, remark)


def _limit_to_consumer(
    selection: Selection,
    filters: tuple[str, ...],
    seqs: tuple[int, ...] | None,
    first_seq: int,
    remark: str,
) -> Selection:
    # The server accepts one list of filters. `_matches` checks those of the request and of the
    # consumer.
    return replace(
        selection, first_seq=first_seq, subjects=selection.subjects or filters, seqs=seqs,
        remark=remark, consumer_filters=filters,
    )  # fmt: skip


def _describe_surplus_messages(consumer: ConsumerRow, config: dict[str, Any]) -> str:
    """Return a remark about messages that are copied without need: the consumer may not wait for
    them. Return "" if there are none.
    """
    remarks = []
    if consumer.read_config().get("deliver_policy") == "last_per_subject":
        remarks.append(
            "the consumer delivers the last message of a subject only: those before it are copied "
            "as well"
        )
    unacked_seqs_count = consumer.delivered.stream_seq - consumer.ack_floor.stream_seq
    pending = consumer.num_ack_pending
    if unacked_seqs_count > pending and config.get("retention") != "workqueue":
        sequences_text = counted(f"{unacked_seqs_count:,}", "sequence")
        remarks.append(
            f"of {sequences_text} above the acknowledgement floor {pending:,} wait for an "
            "acknowledgement, "
            f"and the server does not report which: all {sequences_text} are copied"
        )
    return "; ".join(remarks)


async def read_messages(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool = False
) -> AsyncGenerator[StreamMessage | int, None]:
    """Yield the selected messages after a sequence, in order; of a deleted one, its sequence.

    With `headers_only`, payloads are left out if the messages are read with a consumer.
    Reading continues after an outage of the server. Raises RequestFailed, and Conflict if the
    stream was recreated.
    """
    if selection.seqs is not None:
        seqs = (seq for seq in selection.seqs if after_seq < seq <= selection.end_seq)
        source = _read_seqs(client, selection, seqs)
    elif selection.has_limits_retention:
        source = _read_by_consumer(client, selection, after_seq, headers_only=headers_only)
    else:
        source = _read_without_consumer(client, selection, after_seq)
    stream_checked_s = steady_s()
    async with aclosing(source) as source_messages:
        async for message_or_seq in source_messages:
            if steady_s() - stream_checked_s > _CHECK_INTERVAL_S:
                await read_source_state(client, selection)
                stream_checked_s = steady_s()
            if isinstance(message_or_seq, int) or _matches(selection, message_or_seq):
                yield message_or_seq
    await read_source_state(client, selection)


async def retry_after_outages(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `read`, which is called again after each outage of the server."""
    while True:
        try:
            return await read()
        except _OUTAGE_ERRORS:
            await asyncio.sleep(_OUTAGE_RETRY_S)


async def read_source_state(client: Client, selection: Selection) -> StreamState:
    """Return the state of the stream, after waiting for the end of an outage.

    Raises Conflict if the stream was recreated, or lost its newest messages.
    """
    return await retry_after_outages(partial(_read_source_state, client, selection))


async def _read_source_state(client: Client, selection: Selection) -> StreamState:
    stream = selection.request.stream
    info = await client.stream_info(stream)
    if info.created_at_us != selection.created_at_us:
        raise Conflict(
            f"{stream} was deleted and recreated while it was copied: messages of the deleted "
            "stream are missing, and some of the new one may have been copied"
        )
    if await has_lost_newest(client, stream, info.state, *newest_message(selection.state)):
        raise Conflict(
            f"{lost_newest_text(stream)}: some of its messages are missing, and some of the "
            "others may have been copied"
        )
    return info.state


class SequenceGaps:
    """The sequences without a message in a range, as found by this copy and by the stopped copy
    that it continues.
    """

    def __init__(self, selection: Selection, state: CopyState | None = None) -> None:
        """Create the gaps of a selection; `state` is that of the stopped copy, if any."""
        self._selection = selection
        self._last_seq = max(state.done_seq if state else 0, selection.begin_seq - 1)
        self._skipped_seqs = state.skipped if state else SkippedSequences()
        self._ranges: deque[tuple[int, int]] = deque()
        """The gaps that are not in `_skipped_seqs` yet."""

    def add(self, stream_seq: int) -> None:
        """Add the sequences between the previously read message and that at `stream_seq`."""
        if stream_seq > self._last_seq + 1:
            self._ranges.append((self._last_seq + 1, stream_seq - 1))
        self._last_seq = stream_seq

    def until(self, done_seq: int) -> SkippedSequences:
        """Return the sequences up to `done_seq` without a message.

        `done_seq` must not be smaller than in the previous call.
        """
        while self._ranges and self._ranges[0][1] <= done_seq:
            self._skipped_seqs = self._skipped_seqs.with_range(*self._ranges.popleft())
        return self._skipped_seqs

    @property
    def removed_seqs(self) -> tuple[int, int] | None:
        """Return the first and last sequence between which messages were removed before they were
        read; None if none were. To be called when everything is read.

        Messages were removed if more sequences are without one than when the copy began.
        """
        skipped, end_seq = self._skipped_seqs, self._selection.end_seq
        for first, last in self._ranges:
            skipped = skipped.with_range(first, last)
        if self._last_seq < end_seq:
            skipped = skipped.with_range(self._last_seq + 1, end_seq)
        return skipped.seqs if skipped.count > self._selection.lacking_count else None


async def find_removed_range(
    client: Client, selection: Selection, last_read_message: StreamMessage | None
) -> tuple[int, int] | None:
    """Return the first and last sequence that were removed before they were read.

    `last_read_message` is the last message that was read. Returns None if no messages followed it,
    or if consumers remove the messages that they acknowledge.
    """
    request = selection.request
    is_range = selection.seqs is None and request.consumer is None and request.until_us is None
    if not is_range or not selection.has_limits_retention:
        return None
    if selection.subjects if last_read_message is None else not last_read_message.later_msgs:
        return None
    state = await read_source_state(client, selection)
    first_seq = (
        selection.first_seq if last_read_message is None else last_read_message.stream_seq + 1
    )
    last_seq = min(state.first_seq - 1, selection.end_seq)
    return (first_seq, last_seq) if first_seq <= last_seq else None


def _matches(selection: Selection, message: StreamMessage) -> bool:
    request = selection.request
    if request.since_us is not None and message.stored_at_us < request.since_us:
        return False
    if request.until_us is not None and message.stored_at_us > request.until_us:
        return False
    filter_groups = (request.subjects, selection.consumer_filters)
    return all(
        not filters or any(overlap(subject_filter, message.subject) for subject_filter in filters)
        for filters in filter_groups
    )


async def _read_by_consumer(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool
) -> AsyncGenerator[StreamMessage | int, None]:
    request, from_seq = selection.request, max(selection.first_seq, after_seq + 1)
    if selection.end_seq < from_seq:
        return
    starts_by_time = (
        request.since_us is not None
        and not after_seq
        and request.from_seq is None
        and selection.has_ascending_times
    )
    reader = Reader(
        client, selection.request.stream, selection.subjects,
        from_seq=None if starts_by_time else from_seq,
        from_time=(
            _format_rfc3339(request.since_us) if starts_by_time and request.since_us else None
        ),
        headers_only=headers_only, exact_headers=True, ends_at_last_message=True,
        created_at_us=selection.created_at_us,
    )  # fmt: skip
    async with reader:
        if not reader.waiting_msgs:
            return
        async for message in reader:
            is_after_end = request.until_us is not None and message.stored_at_us > request.until_us
            if message.stream_seq > selection.end_seq or (
                is_after_end and selection.has_ascending_times
            ):
                return
            if message.stream_seq >= from_seq:
                yield message
            if not message.later_msgs or message.stream_seq >= selection.end_seq:
                return


def _format_rfc3339(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()


async def _read_without_consumer(
    client: Client, selection: Selection, after_seq: int
) -> AsyncGenerator[StreamMessage | int, None]:
    """Yield the messages of a range, read without a consumer.

    A consumer on a stream with work queue or interest retention could delete messages.
    """
    getter = ApiGetter(client, selection.request.stream, None, exact_headers=True)
    next_seq = max(selection.first_seq, after_seq + 1)
    subject = selection.subjects[0] if len(selection.subjects) == 1 else None
    while next_seq <= selection.end_seq:
        page = await retry_after_outages(
            partial(getter.read, next_seq, _PAGE_MSGS, subject, selection.end_seq + 1)
        )
        for message in page:
            if message.stream_seq is not None and message.stream_seq <= selection.end_seq:
                yield make_stream_message(message)
        if not page or page[-1].stream_seq is None:
            return
        next_seq = page[-1].stream_seq + 1


async def _read_seqs(
    client: Client, selection: Selection, seqs: Iterator[int]
) -> AsyncGenerator[StreamMessage | int, None]:
    while batch_seqs := tuple(islice(seqs, _MAX_OPEN_REQUESTS)):
        for seq, message in zip(
            batch_seqs,
            await asyncio.gather(
                *(_read_seq(client, selection.request.stream, seq) for seq in batch_seqs)
            ),
            strict=True,
        ):
            yield seq if message is None else message


async def _read_seq(client: Client, stream: str, seq: int) -> StreamMessage | None:
    read = partial(client.request, f"STREAM.MSG.GET.{stream}", {"seq": seq})
    try:
        reply = await retry_after_outages(read)
    except NotFound as error:
        if error.err_code != NO_MESSAGE_CODE:
            raise
        return None
    return make_stream_message(decode_api_reply(reply, None, exact_headers=True))


def make_stream_message(message: StoredMessage) -> StreamMessage:
    """Return a record of a stored message as a `StreamMessage`.

    Raises RequestFailed if the record has only a part of the payload.
    """
    payload = base64.b64decode(message.payload_base64)
    if len(payload) != message.payload_bytes:
        raise RequestFailed(f"message {message.stream_seq} is not complete")
    return StreamMessage(
        message.subject, message.stream_seq or 0, message.stored_at_us, message.headers, payload, 0
    )
