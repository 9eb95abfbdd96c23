"""Selects the messages of a stream to copy, and reads them without side effects."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from natstui.clock import steady_s
from natstui.errors import (
    Conflict,
    JetStreamUnavailable,
    NotFound,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import NO_MESSAGE
from natstui.jetstream.connection.storing import (
    gone_back_text,
    has_gone_back,
    missing_count,
    newest_of,
)
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.messages.copying.account import SkippedSequences, State
from natstui.jetstream.messages.copying.given_up import filters_of, given_up
from natstui.jetstream.messages.decode import from_api
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import Read, Reader
from natstui.model.assets.subjects import overlap
from natstui.model.records.copies import Drop
from natstui.model.records.messages import StoredMessage
from natstui.units import counted

Of = Literal["unacknowledged", "given_up"]

_AT_ONCE = 50
_PAGE_MSGS = 500
_AGAIN_S = 1.0
_CHECKED_EVERY_S = 1.0
_AWAY = (ServerGone, RequestTimedOut, JetStreamUnavailable)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested messages of a stream; all of them without conditions."""

    stream: str
    subjects: tuple[str, ...] = ()
    from_seq: int | None = None
    to_seq: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    consumer: str | None = None
    of: Of | None = None
    """Which messages of the consumer; only with a consumer."""
    recorded: tuple[Drop, ...] = ()
    """Drops after max deliver, from recordings."""

    @property
    def is_range(self) -> bool:
        """Whether all messages between two sequences are wanted, whatever they are."""
        conditions = (self.consumer, self.since_us, self.until_us)
        return not self.subjects and all(condition is None for condition in conditions)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected messages on the server: a range, or known sequences."""

    wanted: Wanted
    created_at_us: int
    first_seq: int
    end_seq: int
    """The last sequence; messages stored meanwhile are not copied."""
    subjects: tuple[str, ...]
    seqs: Iterable[int] | None
    """Ascending sequences; None: the entire range."""
    is_limits: bool
    """Whether a consumer may read it: of other streams it could delete messages."""
    remark: str = ""
    """What is unknown, or the source of the sequences."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """State of the stream, from its INFO."""
    begin_seq: int = 1
    """The first sequence when the copy began: others may have been removed since."""
    lacking_count: int = 0
    """How many sequences of a range had no message when the copy began."""

    @property
    def may_be_consumed(self) -> bool:
        """Whether consumers may remove messages before they are read: that is no loss."""
        return not self.is_limits and bool(self.state.get("consumer_count"))

    @property
    def is_whole(self) -> bool:
        """Whether all messages of a range are wanted, and no consumer may remove any of them."""
        return self.wanted.is_range and self.seqs is None and not self.may_be_consumed

    @property
    def times_rise(self) -> bool:
        """Whether its messages may be in the order of their times: not if the first is the newer
        one, as in the mirror of a stream that was restored. Times may fall in between unnoticed.
        """
        first, last = (time_or_never_us(self.state.get(name)) for name in ("first_ts", "last_ts"))
        return first is None or last is None or first <= last

    def removed_after(self, done_seq: int) -> tuple[int, int] | None:
        """Return the first and last sequence after `done_seq` that the stream has deleted."""
        after_seq = max(done_seq, self.begin_seq - 1)
        last_seq = min(self.first_seq - 1, self.end_seq)
        # What a consumer still wants begins later by itself, as it acknowledges; where what is
        # wanted by time begins is not known before it is read.
        is_begin_known = done_seq > 0 or self.wanted.since_us is None
        if self.wanted.consumer is not None or not is_begin_known or last_seq <= after_seq:
            return None
        return after_seq + 1, last_seq


async def select(client: Client, request: Wanted) -> Selection:
    """Return the current selection of a request; raises RequestFailed."""
    verb = f"STREAM.INFO.{request.stream}"
    info = json.loads(await client.request(verb))
    is_part = request.from_seq is not None or request.to_seq is not None
    if request.is_range and is_part and info["state"].get("num_deleted"):
        # Of some streams the list is long.
        info = json.loads(await client.request(verb, {"deleted_details": True}))
    state, config = info["state"], info["config"]
    is_limits = config.get("retention", "limits") == "limits"
    first = max(request.from_seq or 1, state["first_seq"])
    end = min(request.to_seq or state["last_seq"], state["last_seq"])
    lacking_count = state.get("num_deleted") or 0
    if is_part:
        lacking_count = missing_count([(first, end)] if first <= end else [], state)
    selection = Selection(
        request, time_us(info["created"]), first, end, request.subjects, None, is_limits,
        state=state, begin_seq=first, lacking_count=lacking_count,
    )  # fmt: skip
    if request.consumer is None:
        return selection
    consumer = json.loads(
        await client.request(f"CONSUMER.INFO.{request.stream}.{request.consumer}")
    )
    filters = filters_of(consumer)
    if request.of == "given_up":
        seqs, remark = await given_up(client, info, consumer, request.recorded)
        return _of(
            selection, filters, tuple(seq for seq in seqs if first <= seq <= end), first, remark
        )
    floor = consumer["ack_floor"]["stream_seq"]
    remark = _doubt(consumer, config)
    return _of(selection, filters, None, max(first, floor + 1), remark)


def _of(
    selection: Selection,
    filters: tuple[str, ...],
    seqs: tuple[int, ...] | None,
    first_seq: int,
    remark: str,
) -> Selection:
    # What the user wants and what the consumer gets: the server takes one list of filters.
    subjects = selection.subjects or filters
    return replace(selection, first_seq=first_seq, subjects=subjects, seqs=seqs, remark=remark)


def _doubt(consumer: dict[str, Any], config: dict[str, Any]) -> str:
    """Return what is copied though the consumer may not wait for it, and why."""
    remarks = []
    if consumer["config"].get("deliver_policy") == "last_per_subject":
        remarks.append(
            "the consumer delivers the last message of a subject only: those before it are copied "
            "as well"
        )
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    pending = consumer["num_ack_pending"]
    if last - floor > pending and config.get("retention") != "workqueue":
        range_text = counted(f"{last - floor:,}", "sequence")
        remarks.append(
            f"of {range_text} above the acknowledgement floor {pending:,} wait for an "
            "acknowledgement, "
            f"and the server does not report which: all {range_text} are copied"
        )
    return "; ".join(remarks)


async def messages(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool = False
) -> AsyncGenerator[Read | int, None]:
    """Yield the messages after a sequence, in order; of a deleted one, its sequence.

    Reading continues after an outage of the server. Raises RequestFailed, Conflict when the stream
    was recreated.
    """
    if selection.seqs is not None:
        source = _each(client, selection, (seq for seq in selection.seqs if seq > after_seq))
    elif selection.is_limits:
        source = _read(client, selection, after_seq, headers_only=headers_only)
    else:
        source = _got(client, selection, after_seq)
    checked_s = steady_s()
    async with aclosing(source) as source_messages:
        async for item in source_messages:
            if steady_s() - checked_s > _CHECKED_EVERY_S:
                await read_source_state(client, selection)
                checked_s = steady_s()
            if isinstance(item, int) or _matches(selection, item):
                yield item
    await read_source_state(client, selection)


async def after_outages(read: Callable[[], Awaitable[T]]) -> T:
    """Return what is read of a server, and read it again after each outage."""
    while True:
        try:
            return await read()
        except _AWAY:
            await asyncio.sleep(_AGAIN_S)


async def read_source_state(client: Client, selection: Selection) -> dict[str, Any]:
    """Return the state of the stream, after an outage too; raises Conflict when another one has
    its name now.
    """
    return await after_outages(partial(_read_source_state, client, selection))


async def _read_source_state(client: Client, selection: Selection) -> dict[str, Any]:
    stream = selection.wanted.stream
    info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    if time_us(info["created"]) != selection.created_at_us:
        raise Conflict(
            f"{stream} was deleted and recreated while it was copied: messages of the deleted "
            "stream are missing, and some of the new one may have been copied"
        )
    state: dict[str, Any] = info["state"]
    if await has_gone_back(client, stream, state, *newest_of(selection.state)):
        raise Conflict(
            f"{gone_back_text(stream)}: some of its messages are missing, and some of the "
            "others may have been copied"
        )
    return state


class Gaps:
    """The sequences of a range between the messages that are read, by this copy and by the stopped
    one that it continues.
    """

    def __init__(self, selection: Selection, state: State | None = None) -> None:
        """Create; `state` is that of the stopped copy."""
        self._selection = selection
        self._last_seq = max(state.done_seq if state else 0, selection.begin_seq - 1)
        self._skipped = state.skipped if state else SkippedSequences()
        self._ranges: deque[tuple[int, int]] = deque()
        """The gaps that are not in `_skipped` yet."""

    def add(self, stream_seq: int) -> None:
        """Add what is between the message read before and this one."""
        if stream_seq > self._last_seq + 1:
            self._ranges.append((self._last_seq + 1, stream_seq - 1))
        self._last_seq = stream_seq

    def until(self, done_seq: int) -> SkippedSequences:
        """Return the sequences up to `done_seq` without a message; it never falls."""
        while self._ranges and self._ranges[0][1] <= done_seq:
            self._skipped = self._skipped.with_range(*self._ranges.popleft())
        return self._skipped

    @property
    def removed_seqs(self) -> tuple[int, int] | None:
        """Return between which sequences messages were removed before they were read, when all was
        read: where more are skipped than the range lacked when the copy began.
        """
        skipped, end_seq = self._skipped, self._selection.end_seq
        for first, last in self._ranges:
            skipped = skipped.with_range(first, last)
        if self._last_seq < end_seq:
            skipped = skipped.with_range(self._last_seq + 1, end_seq)
        return skipped.seqs if skipped.count > self._selection.lacking_count else None


async def find_removed(
    client: Client, selection: Selection, last_read: Read | None
) -> tuple[int, int] | None:
    """Return the first and last sequence that were removed before they were read.

    `last_read` is the last message that was read. None when the server had no more messages then,
    or when consumers remove what they acknowledge.
    """
    wanted = selection.wanted
    is_range = selection.seqs is None and wanted.consumer is None and wanted.until_us is None
    if not is_range or not selection.is_limits:
        return None
    if selection.subjects if last_read is None else not last_read.left_msgs:
        return None
    state = await read_source_state(client, selection)
    first_seq = selection.first_seq if last_read is None else last_read.stream_seq + 1
    last_seq = min(state["first_seq"] - 1, selection.end_seq)
    return (first_seq, last_seq) if first_seq <= last_seq else None


def _matches(selection: Selection, message: Read) -> bool:
    request = selection.wanted
    if request.since_us is not None and message.stored_at_us < request.since_us:
        return False
    if request.until_us is not None and message.stored_at_us > request.until_us:
        return False
    filter_groups = (selection.subjects, request.subjects)
    return all(
        not filters or any(overlap(subject_filter, message.subject) for subject_filter in filters)
        for filters in filter_groups
    )


async def _read(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool
) -> AsyncGenerator[Read | int, None]:
    request, from_seq = selection.wanted, max(selection.first_seq, after_seq + 1)
    if selection.end_seq < from_seq:
        return
    by_time = (
        request.since_us is not None
        and not after_seq
        and request.from_seq is None
        and selection.times_rise
    )
    reader = Reader(
        client, selection.wanted.stream, selection.subjects,
        from_seq=None if by_time else from_seq,
        from_time=_rfc3339(request.since_us) if by_time and request.since_us else None,
        headers_only=headers_only, exact_headers=True, ends=True,
        created_at_us=selection.created_at_us,
    )  # fmt: skip
    async with reader:
        if not reader.waiting_msgs:
            return
        async for message in reader:
            late = request.until_us is not None and message.stored_at_us > request.until_us
            if message.stream_seq > selection.end_seq or (late and selection.times_rise):
                return
            if message.stream_seq >= from_seq:
                yield message
            if not message.left_msgs or message.stream_seq >= selection.end_seq:
                return


def _rfc3339(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()


async def _got(
    client: Client, selection: Selection, after_seq: int
) -> AsyncGenerator[Read | int, None]:
    """Read without a consumer: delivery could delete messages of a work queue or by interest."""
    getter = ApiGetter(client, selection.wanted.stream, None, exact_headers=True)
    next_seq = max(selection.first_seq, after_seq + 1)
    subject = selection.subjects[0] if len(selection.subjects) == 1 else None
    while next_seq <= selection.end_seq:
        page = await after_outages(
            partial(getter.run, next_seq, _PAGE_MSGS, subject, selection.end_seq + 1)
        )
        for message in page:
            if message.stream_seq is not None and message.stream_seq <= selection.end_seq:
                yield read_of(message)
        if not page or page[-1].stream_seq is None:
            return
        next_seq = page[-1].stream_seq + 1


async def _each(
    client: Client, selection: Selection, seqs: Iterator[int]
) -> AsyncGenerator[Read | int, None]:
    while batch_seqs := tuple(islice(seqs, _AT_ONCE)):
        for seq, message in zip(
            batch_seqs,
            await asyncio.gather(
                *(_get(client, selection.wanted.stream, seq) for seq in batch_seqs)
            ),
            strict=True,
        ):
            yield seq if message is None else message


async def _get(client: Client, stream: str, seq: int) -> Read | None:
    read = partial(client.request, f"STREAM.MSG.GET.{stream}", {"seq": seq})
    try:
        reply = await after_outages(read)
    except NotFound as error:
        if error.err_code != NO_MESSAGE:
            raise
        return None
    return read_of(from_api(reply, None, exact_headers=True))


def read_of(message: StoredMessage) -> Read:
    """Return a stored message as a read one; raises RequestFailed for a partial one."""
    payload = base64.b64decode(message.payload_base64)
    if len(payload) != message.payload_bytes:
        raise RequestFailed(f"message {message.stream_seq} is not complete")
    return Read(
        message.subject, message.stream_seq or 0, message.stored_at_us, message.headers, payload, 0
    )
