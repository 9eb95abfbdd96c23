"""Which messages of a stream are copied, and how they are read without harm to it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from natstui.errors import (
    JetStreamUnavailable,
    NotFound,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.copying.given_up import filters_of, given_up
from natstui.jetstream.messages.decode import from_api
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import Read, Reader
from natstui.model.assets.subjects import overlap
from natstui.model.records.messages import StoredMessage
from natstui.units import counted

Of = Literal["unacknowledged", "given_up"]

_AT_ONCE = 50
_PAGE_MSGS = 500
_AGAIN_S = 1.0
_AWAY = (ServerGone, RequestTimedOut, JetStreamUnavailable)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be copied of a stream; all of it, where nothing is said."""

    stream: str
    subjects: tuple[str, ...] = ()
    from_seq: int | None = None
    to_seq: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    consumer: str | None = None
    of: Of | None = None
    """What of the consumer; only with it."""
    recorded: tuple[tuple[int, int], ...] = ()
    """When a recording heard that the consumer gave up which sequence."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The same, as it is on the server: a range, or sequences that are known."""

    wanted: Wanted
    created_at_us: int
    first_seq: int
    end_seq: int
    """The last one; what is stored meanwhile is not copied."""
    subjects: tuple[str, ...]
    seqs: Iterable[int] | None
    """Ascending; None: all of the range."""
    is_limits: bool
    """Whether a consumer may read it: of other streams it could remove messages."""
    remark: str = ""
    """What cannot be told, or where the sequences were found."""

    def removed_after(self, done_seq: int) -> tuple[int, int] | None:
        """Return the first and last sequence behind `done_seq` that the stream has no more."""
        last_seq = min(self.first_seq - 1, self.end_seq)
        # What a consumer still wants begins later by itself, as it acknowledges.
        if self.wanted.consumer is not None or not done_seq or last_seq <= done_seq:
            return None
        return done_seq + 1, last_seq


async def select(client: Client, wanted: Wanted) -> Selection:
    """Return what there is now of what is wanted; raises RequestFailed."""
    info = json.loads(await client.request(f"STREAM.INFO.{wanted.stream}"))
    state, config = info["state"], info["config"]
    is_limits = config.get("retention", "limits") == "limits"
    first = max(wanted.from_seq or 1, state["first_seq"])
    end = min(wanted.to_seq or state["last_seq"], state["last_seq"])
    found = Selection(
        wanted, time_us(info["created"]), first, end, wanted.subjects, None, is_limits
    )
    if wanted.consumer is None:
        return found
    consumer = json.loads(await client.request(f"CONSUMER.INFO.{wanted.stream}.{wanted.consumer}"))
    filters = filters_of(consumer)
    if wanted.of == "given_up":
        seqs, remark = await given_up(client, info, consumer, wanted.recorded)
        return _of(
            found, filters, tuple(seq for seq in seqs if first <= seq <= end), first, remark
        )
    floor = consumer["ack_floor"]["stream_seq"]
    remark = _doubt(consumer, config)
    return _of(found, filters, None, max(first, floor + 1), remark)


def _of(
    found: Selection,
    filters: tuple[str, ...],
    seqs: tuple[int, ...] | None,
    first_seq: int,
    remark: str,
) -> Selection:
    # What the user wants and what the consumer gets: the server takes one list of filters.
    subjects = found.subjects or filters
    return Selection(
        found.wanted, found.created_at_us, first_seq, found.end_seq, subjects, seqs,
        found.is_limits, remark,
    )  # fmt: skip


def _doubt(consumer: dict[str, Any], config: dict[str, Any]) -> str:
    """Return what cannot be told of what a consumer has not acknowledged."""
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    pending = consumer["num_ack_pending"]
    if last - floor <= pending or config.get("retention") == "workqueue":
        return ""
    between = counted(f"{last - floor:,}", "sequence")
    return (
        f"of {between} above the acknowledgement floor {pending:,} wait for an acknowledgement, "
        f"and the server does not report which: all {between} are copied"
    )


async def messages(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool = False
) -> AsyncGenerator[Read | int, None]:
    """Yield the messages after a sequence, in order; of one that is gone, its sequence.

    Reading goes on when the server was away. Raises RequestFailed.
    """
    if selection.seqs is not None:
        source = _each(client, selection, (seq for seq in selection.seqs if seq > after_seq))
    elif selection.is_limits:
        source = _read(client, selection, after_seq, headers_only=headers_only)
    else:
        source = _got(client, selection, after_seq)
    async with aclosing(source) as found:
        async for one in found:
            if isinstance(one, int) or _matches(selection, one):
                yield one


def _matches(selection: Selection, one: Read) -> bool:
    wanted = selection.wanted
    if wanted.since_us is not None and one.stored_at_us < wanted.since_us:
        return False
    if wanted.until_us is not None and one.stored_at_us > wanted.until_us:
        return False
    both = (selection.subjects, wanted.subjects)
    return all(not some or any(overlap(it, one.subject) for it in some) for some in both)


async def _read(
    client: Client, selection: Selection, after_seq: int, *, headers_only: bool
) -> AsyncGenerator[Read | int, None]:
    wanted, from_seq = selection.wanted, max(selection.first_seq, after_seq + 1)
    if selection.end_seq < from_seq:
        return
    by_time = wanted.since_us is not None and not after_seq and wanted.from_seq is None
    reader = Reader(
        client, selection.wanted.stream, selection.subjects,
        from_seq=None if by_time else from_seq,
        from_time=_rfc3339(wanted.since_us) if by_time and wanted.since_us else None,
        headers_only=headers_only, exact_headers=True, ends=True,
    )  # fmt: skip
    async with reader:
        if not reader.waiting_msgs:
            return
        async for one in reader:
            late = wanted.until_us is not None and one.stored_at_us > wanted.until_us
            if one.stream_seq > selection.end_seq or late:
                return
            if one.stream_seq >= from_seq:
                yield one
            if not one.left_msgs or one.stream_seq >= selection.end_seq:
                return


def _rfc3339(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()


async def _got(
    client: Client, selection: Selection, after_seq: int
) -> AsyncGenerator[Read | int, None]:
    """Read without a consumer: delivery could remove what a work queue or interest keeps."""
    getter = ApiGetter(client, selection.wanted.stream, None, exact_headers=True)
    next_seq = max(selection.first_seq, after_seq + 1)
    subject = selection.subjects[0] if len(selection.subjects) == 1 else None
    while next_seq <= selection.end_seq:
        try:
            page = await getter.run(next_seq, _PAGE_MSGS, subject, selection.end_seq + 1)
        except _AWAY:
            await asyncio.sleep(_AGAIN_S)
            continue
        for message in page:
            if message.stream_seq is not None and message.stream_seq <= selection.end_seq:
                yield read_of(message)
        if not page or page[-1].stream_seq is None:
            return
        next_seq = page[-1].stream_seq + 1


async def _each(
    client: Client, selection: Selection, seqs: Iterator[int]
) -> AsyncGenerator[Read | int, None]:
    while some := tuple(islice(seqs, _AT_ONCE)):
        for seq, one in zip(
            some,
            await asyncio.gather(*(_get(client, selection.wanted.stream, seq) for seq in some)),
            strict=True,
        ):
            yield seq if one is None else one


async def _get(client: Client, stream: str, seq: int) -> Read | None:
    while True:
        try:
            reply = await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq})
            return read_of(from_api(reply, None, exact_headers=True))
        except _AWAY:
            await asyncio.sleep(_AGAIN_S)
        except NotFound as error:
            if error.err_code != 10037:
                raise
            return None


def read_of(message: StoredMessage) -> Read:
    """Return a stored message as one that was read; raises RequestFailed for a part of one."""
    payload = base64.b64decode(message.payload_base64)
    if len(payload) != message.payload_bytes:
        raise RequestFailed(f"message {message.stream_seq} is not complete")
    return Read(
        message.subject, message.stream_seq or 0, message.stored_at_us, message.headers, payload, 0
    )
