"""Pages of stored messages: newest first, by sequence, time, subject, or position of a
consumer.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from natstui.errors import RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.subject_counts import every_subject_count
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.decode import from_api, microseconds
from natstui.jetstream.messages.gets import MOST_MSGS, ApiGetter, Getter, read_with
from natstui.model.records.messages import BrowseMessages, MessagePage, ReadMessage, StoredMessage
from natstui.units import count_text, parse_moment


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first and last stored sequence of a stream, as in its state."""

    first_seq: int
    last_seq: int
    subjects_count: int
    message_bytes: int
    """Mean size of a message."""
    direct: bool
    created_at_us: int


async def bounds_of(client: Client, stream: str) -> Bounds:
    """Request the bounds of a stream; raises NotFound."""
    info: dict[str, Any] = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    state, config = info["state"], info["config"]
    return Bounds(
        state["first_seq"],
        state["last_seq"],
        state.get("num_subjects", 0),
        state["bytes"] // max(1, state["messages"]),
        config.get("allow_direct") is True,
        time_us(info["created"]),
    )


async def seek(
    client: Client, getter: Getter, bounds: Bounds, command: BrowseMessages
) -> int | None:
    """Return the sequence of a requested time or jump; None without one."""
    if command.from_time is not None:
        return await at_time(getter, bounds, command.from_time)
    if command.jump is None or command.consumer is None:
        return None
    verb = f"CONSUMER.INFO.{command.stream}.{command.consumer}"
    info: dict[str, Any] = json.loads(await client.request(verb))
    floor, delivered_seq = info["ack_floor"]["stream_seq"], info["delivered"]["stream_seq"]
    if command.jump == "ack_floor":
        return max(1, int(floor))
    config = info["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject") or None]
    start = floor if command.jump == "first_unacked" else delivered_seq
    firsts = [await getter.run(start + 1, 1, subject) for subject in filters]
    seqs = [message.stream_seq for first in firsts for message in first if message.stream_seq]
    return min(seqs, default=bounds.last_seq + 1)


_NEIGHBOURS_MSGS = 8
"""How far before a message its predecessor is searched."""


def moment_text(text: str) -> str:
    """Return a time as RFC 3339; raises UsageError."""
    try:
        moment = parse_moment(text).isoformat()
        microseconds(moment)
    except ValueError as error:
        hint = "write it as 2026-01-31T12:00:00Z or 10m ago"
        raise UsageError(f"{text!r} is not a time: {hint}") from error
    return moment


async def at_time(getter: Getter, bounds: Bounds, text: str) -> int:
    """Return the first sequence stored at a time or after it; raises UsageError."""
    moment = moment_text(text)
    wanted_us = microseconds(moment)
    low_seq, high_seq = bounds.first_seq, bounds.last_seq + 1
    starts = await getter.from_time(moment)
    if starts and await _is_first_since(getter, low_seq, starts[0], wanted_us):
        return starts[0].stream_seq or low_seq
    first = high_seq
    while low_seq < high_seq:
        middle = (low_seq + high_seq) // 2
        run = await getter.run(middle, 1, None)
        if run and run[0].stored_at_us < wanted_us:
            low_seq = (run[0].stream_seq or middle) + 1
        else:
            high_seq = middle
            first = run[0].stream_seq or middle if run else first
    return first


async def _is_first_since(
    getter: Getter, first_seq: int, message: StoredMessage, wanted_us: int
) -> bool:
    """Return whether a message is the first one since a time; False also if unknown.

    Some servers skip messages where others are deleted, so that their reply needs a check.
    """
    seq = message.stream_seq or first_seq
    if message.stored_at_us < wanted_us:
        return False
    if seq <= first_seq:
        return True
    run = await getter.run(max(first_seq, seq - _NEIGHBOURS_MSGS), _NEIGHBOURS_MSGS + 1, None)
    before = [
        stored_message.stored_at_us
        for stored_message in run
        if (stored_message.stream_seq or 0) < seq
    ]
    # Big messages may end a run before it has come so far.
    is_complete = any(stored_message.stream_seq == seq for stored_message in run)
    return is_complete and bool(before) and before[-1] < wanted_us


async def sequence_since(client: Client, stream: str, text: str) -> int:
    """Return the first sequence stored at a time or after it; raises NotFound, UsageError."""
    bounds = await bounds_of(client, stream)
    # Not by direct gets: a mirror may reply to them, and what reads from here would miss messages.
    return await at_time(ApiGetter(client, stream, 0), bounds, text)


_WIDER = 16
_SLICES = 16


async def newest_before(
    getter: Getter, bounds: Bounds, end_seq: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest `count` messages before a sequence."""
    end_seq = min(end_seq, bounds.last_seq + 1)
    after = await getter.count_from(end_seq, subject)
    if after is None:
        return await _newest(getter, max(1, bounds.first_seq), end_seq, count, subject)
    # The widest window before the end that holds no more than `count`: found by halving.
    low_seq, high_seq = bounds.first_seq, max(bounds.first_seq, end_seq - count)
    if await _counted(getter, low_seq, subject) - after <= count:
        high_seq = low_seq
    while low_seq < high_seq:
        middle = (low_seq + high_seq) // 2
        if await _counted(getter, middle, subject) - after > count:
            low_seq = middle + 1
        else:
            high_seq = middle
    newest: list[StoredMessage] = []
    while run := await getter.run(high_seq, count, subject):  # big messages come in several runs
        newest += [message for message in run if (message.stream_seq or 0) < end_seq]
        high_seq = (run[-1].stream_seq or end_seq) + 1
        if high_seq >= end_seq:
            break
    return newest


async def _counted(getter: Getter, from_seq: int, subject: str | None) -> int:
    return await getter.count_from(from_seq, subject) or 0


async def _newest(
    getter: Getter, low_seq: int, end: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest messages without counting: read wider and wider windows, from the end
    backwards.
    """
    newest: list[StoredMessage] = []
    width = count
    while low_seq < end and len(newest) < count:
        start = max(low_seq, end - width)
        part = await _window(getter, start, end, count - len(newest), subject)
        # As wide as the matches so far let expect, but not sixteen times wider at once.
        window_width = width * (count - len(newest)) // len(part) if part else width * _WIDER
        newest = part + newest
        width = min(width * _WIDER, max(width, window_width * 5 // 4))
        end = start
    return newest[-count:]


async def _window(
    getter: Getter, low_seq: int, end: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest matches of a window, at least `count` if it has as many."""
    if end - low_seq <= (4 * count if subject is None else count):
        return _below(end, await getter.run(low_seq, end - low_seq, subject, end))
    step = max(1, -(-(end - low_seq) // _SLICES))
    slices = [
        (slice_start, min(slice_start + step, end)) for slice_start in range(low_seq, end, step)
    ]
    runs = await asyncio.gather(
        *(getter.run(slice_start, count + 1, subject, stop) for slice_start, stop in slices)
    )
    newest: list[StoredMessage] = []
    for (slice_start, stop), run in zip(reversed(slices), reversed(runs), strict=True):
        part = _below(stop, run)
        if len(part) > count:  # more than were read: the newest of them come later
            part = await _newest(getter, slice_start, stop, count, subject)
        newest = part + newest
        if len(newest) >= count:
            break
    return newest


def _below(end: int, messages: list[StoredMessage]) -> list[StoredMessage]:
    return [message for message in messages if (message.stream_seq or 0) < end]


MOST_SUBJECTS = 50_000
_MOST_LAST = 1024
_PAGE_BYTES = 16 * 1024 * 1024


async def browse(client: Client, command: BrowseMessages) -> MessagePage:
    """Return a page. Raises NotFound, UsageError for an invalid request, RequestFailed."""
    bounds = await bounds_of(client, command.stream)
    return await read_with(
        client,
        command.stream,
        lambda getter: _browsed(client, getter, bounds, command),
        direct=bounds.direct,
        preview_bytes=command.preview_bytes,
    )


async def _browsed(
    client: Client, getter: Getter, bounds: Bounds, command: BrowseMessages
) -> MessagePage:
    if command.last_per_subject:
        return await _last_per_subject(client, getter, bounds, command)
    sought = await seek(client, getter, bounds, command)
    fitting = _PAGE_BYTES // max(1, bounds.message_bytes)
    count = max(1, min(command.page_msgs, MOST_MSGS, fitting))
    forwards = command.newer or sought is not None
    start = sought or command.from_seq or (bounds.first_seq if forwards else bounds.last_seq + 1)
    if forwards:
        messages = await getter.run(max(start, bounds.first_seq), count, command.filter_subject)
    else:
        messages = await newest_before(getter, bounds, start, count, command.filter_subject)
    return _page(command.stream, messages, bounds, sought)


def _page(
    stream: str, messages: list[StoredMessage], bounds: Bounds, sought: int | None
) -> MessagePage:
    first = messages[0].stream_seq if messages else None
    last = messages[-1].stream_seq if messages else None
    return MessagePage(
        stream,
        tuple(messages),
        bounds.first_seq,
        bounds.last_seq,
        first if first is not None and first > bounds.first_seq else None,
        last + 1 if last is not None and last < bounds.last_seq else None,
        sought,
        bounds.created_at_us,
    )


async def _last_per_subject(
    client: Client, getter: Getter, bounds: Bounds, command: BrowseMessages
) -> MessagePage:
    subject_filter = command.filter_subject or ">"
    counts = await count_subjects(client, command.stream, subject_filter)
    if len(counts) > _MOST_LAST:
        text = f"{count_text(len(counts))} subjects match: give a filter for at most 1024"
        raise RequestFailed(text)
    messages = await getter.last_of_each(counts, subject_filter)
    return MessagePage(
        command.stream,
        tuple(messages),
        bounds.first_seq,
        bounds.last_seq,
        None,
        None,
        created_at_us=bounds.created_at_us,
    )


async def count_subjects(client: Client, stream: str, filter_subject: str) -> dict[str, int]:
    """Return stored messages per subject; raises RequestFailed beyond 50,000 subjects."""
    bounds = await bounds_of(client, stream)
    _check_listable(stream, bounds.subjects_count)
    counts = dict[str, int]()
    async for msgs in every_subject_count(client, stream, filter_subject):
        counts |= msgs
        _check_listable(stream, len(counts))
    return dict(sorted(counts.items()))


def _check_listable(stream: str, subjects_count: int) -> None:
    if subjects_count > MOST_SUBJECTS:
        text = f"{stream} has {count_text(subjects_count)} subjects, too many to list"
        raise RequestFailed(text)


async def read_message(client: Client, command: ReadMessage) -> StoredMessage:
    """Return one message with its entire payload; raises NotFound."""
    verb = f"STREAM.MSG.GET.{command.stream}"
    return from_api(await client.request(verb, {"seq": command.stream_seq}), None)
