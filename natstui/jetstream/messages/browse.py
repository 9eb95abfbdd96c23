"""Reads pages of stored messages: the newest, those at a sequence or time, those of a subject,
or those at the position of a consumer.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from natstui.errors import RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.subject_counts import read_all_subject_counts
from natstui.jetstream.messages.decode import decode_api_reply, parse_utc_us
from natstui.jetstream.messages.gets import (
    MAX_BATCH_MSGS,
    ApiGetter,
    MessageGetter,
    call_with_getter,
)
from natstui.model.records.messages import BrowseMessages, MessagePage, ReadMessage, StoredMessage
from natstui.units import count_text, parse_moment


class StreamBounds(Struct, frozen=True):
    """The first and the last stored sequence of a stream, and other fields of its INFO that are
    needed to read a page of messages.
    """

    first_seq: int
    last_seq: int
    subjects_count: int
    message_bytes: int
    """Mean size of a message."""
    allows_direct_get: bool
    created_at_us: int


async def read_bounds(client: Client, stream: str) -> StreamBounds:
    """Return the bounds of a stream; raises NotFound."""
    info = await client.stream_info(stream)
    state = info.state
    return StreamBounds(
        state.first_seq,
        state.last_seq,
        state.num_subjects,
        state.bytes // max(1, state.messages),
        info.read_config().get("allow_direct") is True,
        info.created_at_us,
    )


async def seek(
    client: Client, getter: MessageGetter, bounds: StreamBounds, command: BrowseMessages
) -> int | None:
    """Return the sequence at the time, or at the consumer's position, that a command requests.

    None if it requests neither.
    """
    if command.from_time is not None:
        return await find_at_time(getter, bounds, command.from_time)
    if command.jump is None or command.consumer is None:
        return None
    info = await client.consumer_info(command.stream, command.consumer)
    floor_seq = info.ack_floor.stream_seq
    if command.jump == "ack_floor":
        return max(1, floor_seq)
    config = info.read_config()
    filters = config.get("filter_subjects") or [config.get("filter_subject") or None]
    start_seq = floor_seq if command.jump == "first_unacked" else info.delivered.stream_seq
    first_pages = [await getter.read(start_seq + 1, 1, subject) for subject in filters]
    seqs = [message.stream_seq for page in first_pages for message in page if message.stream_seq]
    return min(seqs, default=bounds.last_seq + 1)


_PREDECESSOR_SEARCH_SEQS = 8
"""Number of sequences before a message in which its predecessor is searched."""


def parse_time_text(text: str) -> str:
    """Return in RFC 3339 a time that a user wrote; raises UsageError if it is not a time."""
    try:
        time_text = parse_moment(text).isoformat()
        parse_utc_us(time_text)
    except ValueError as error:
        hint = "write it as 2026-01-31T12:00:00Z or 10m ago"
        raise UsageError(f"{text!r} is not a time: {hint}") from error
    return time_text


async def find_at_time(getter: MessageGetter, bounds: StreamBounds, text: str) -> int:
    """Return the first sequence stored at or after a time; raises UsageError if `text` is no time.

    If there is none, that is the sequence after the last one.
    """
    time_text = parse_time_text(text)
    wanted_us = parse_utc_us(time_text)
    low_seq, high_seq = bounds.first_seq, bounds.last_seq + 1
    messages_since = await getter.read_from_time(time_text)
    if messages_since and await _is_first_since(getter, low_seq, messages_since[0], wanted_us):
        return messages_since[0].stream_seq or low_seq
    first_seq = high_seq
    while low_seq < high_seq:
        middle_seq = (low_seq + high_seq) // 2
        messages = await getter.read(middle_seq, 1, None)
        if messages and messages[0].stored_at_us < wanted_us:
            low_seq = (messages[0].stream_seq or middle_seq) + 1
        else:
            high_seq = middle_seq
            first_seq = messages[0].stream_seq or middle_seq if messages else first_seq
    return first_seq


async def _is_first_since(
    getter: MessageGetter, first_seq: int, message: StoredMessage, wanted_us: int
) -> bool:
    """Return whether a message is the first one stored at or after a time; False if unknown.

    The check is needed because some servers skip messages next to deleted ones.
    """
    seq = message.stream_seq or first_seq
    if message.stored_at_us < wanted_us:
        return False
    if seq <= first_seq:
        return True
    messages = await getter.read(
        max(first_seq, seq - _PREDECESSOR_SEARCH_SEQS), _PREDECESSOR_SEARCH_SEQS + 1, None
    )
    earlier_times_us = [
        stored_message.stored_at_us
        for stored_message in messages
        if (stored_message.stream_seq or 0) < seq
    ]
    # If the messages are big, the reply may end before this one.
    is_complete = any(stored_message.stream_seq == seq for stored_message in messages)
    return is_complete and bool(earlier_times_us) and earlier_times_us[-1] < wanted_us


async def find_sequence_since(client: Client, stream: str, text: str) -> int:
    """Return the first sequence stored at or after a time.

    Raises NotFound without the stream, and UsageError if `text` is no time.
    """
    bounds = await read_bounds(client, stream)
    # Not by direct gets: a mirror may reply to them, and the caller would miss messages.
    return await find_at_time(ApiGetter(client, stream, 0), bounds, text)


_MAX_WIDENING_FACTOR = 16
_SLICES_COUNT = 16


async def read_newest_before(
    getter: MessageGetter, bounds: StreamBounds, end_seq: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest `count` messages before the sequence `end_seq`, for any or one subject."""
    end_seq = min(end_seq, bounds.last_seq + 1)
    after_msgs = await getter.count_from(end_seq, subject)
    if after_msgs is None:
        return await _read_newest(getter, max(1, bounds.first_seq), end_seq, count, subject)
    # Find the widest window before the end with at most `count` messages, by halving.
    low_seq, high_seq = bounds.first_seq, max(bounds.first_seq, end_seq - count)
    if await _count_from(getter, low_seq, subject) - after_msgs <= count:
        high_seq = low_seq
    while low_seq < high_seq:
        middle_seq = (low_seq + high_seq) // 2
        if await _count_from(getter, middle_seq, subject) - after_msgs > count:
            low_seq = middle_seq + 1
        else:
            high_seq = middle_seq
    newest: list[StoredMessage] = []
    while messages := await getter.read(
        high_seq, count, subject
    ):  # several replies if they are big
        newest += [message for message in messages if (message.stream_seq or 0) < end_seq]
        high_seq = (messages[-1].stream_seq or end_seq) + 1
        if high_seq >= end_seq:
            break
    return newest


async def _count_from(getter: MessageGetter, from_seq: int, subject: str | None) -> int:
    return await getter.count_from(from_seq, subject) or 0


async def _read_newest(
    getter: MessageGetter, low_seq: int, end_seq: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest `count` messages from `low_seq` to before `end_seq`, by reading wider and
    wider windows backwards from the end.
    """
    newest: list[StoredMessage] = []
    width_seqs = count
    while low_seq < end_seq and len(newest) < count:
        start_seq = max(low_seq, end_seq - width_seqs)
        window_messages = await _read_window(
            getter, start_seq, end_seq, count - len(newest), subject
        )
        # As wide as the rate of matches suggests, but at most 16 times as wide as before.
        window_width_seqs = (
            width_seqs * (count - len(newest)) // len(window_messages)
            if window_messages
            else width_seqs * _MAX_WIDENING_FACTOR
        )
        newest = window_messages + newest
        width_seqs = min(
            width_seqs * _MAX_WIDENING_FACTOR, max(width_seqs, window_width_seqs * 5 // 4)
        )
        end_seq = start_seq
    return newest[-count:]


async def _read_window(
    getter: MessageGetter, low_seq: int, end_seq: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest matching messages from `low_seq` to before `end_seq`: at least `count`, if
    there are so many.
    """
    if end_seq - low_seq <= (4 * count if subject is None else count):
        return _messages_before(
            end_seq, await getter.read(low_seq, end_seq - low_seq, subject, end_seq)
        )
    step = max(1, -(-(end_seq - low_seq) // _SLICES_COUNT))
    slice_bounds = [
        (slice_start, min(slice_start + step, end_seq))
        for slice_start in range(low_seq, end_seq, step)
    ]
    messages_by_slice = await asyncio.gather(
        *(
            getter.read(slice_start, count + 1, subject, slice_end)
            for slice_start, slice_end in slice_bounds
        )
    )
    newest: list[StoredMessage] = []
    for (slice_start, slice_end), messages in zip(
        reversed(slice_bounds), reversed(messages_by_slice), strict=True
    ):
        slice_messages = _messages_before(slice_end, messages)
        if len(slice_messages) > count:  # there are more, which were not read
            slice_messages = await _read_newest(getter, slice_start, slice_end, count, subject)
        newest = slice_messages + newest
        if len(newest) >= count:
            break
    return newest


def _messages_before(end_seq: int, messages: list[StoredMessage]) -> list[StoredMessage]:
    return [message for message in messages if (message.stream_seq or 0) < end_seq]


MAX_SUBJECTS = 50_000
_MAX_LAST_SUBJECTS_COUNT = 1024
_PAGE_BYTES = 16 * 1024 * 1024


async def browse(client: Client, command: BrowseMessages) -> MessagePage:
    """Return a page of messages; raises NotFound, UsageError for an invalid command, and
    RequestFailed.
    """
    bounds = await read_bounds(client, command.stream)
    return await call_with_getter(
        client,
        command.stream,
        lambda getter: _read_page(client, getter, bounds, command),
        uses_direct_get=bounds.allows_direct_get,
        preview_bytes=command.preview_bytes,
    )


async def _read_page(
    client: Client, getter: MessageGetter, bounds: StreamBounds, command: BrowseMessages
) -> MessagePage:
    if command.last_per_subject:
        return await _read_last_per_subject(client, getter, bounds, command)
    sought_seq = await seek(client, getter, bounds, command)
    max_page_msgs = _PAGE_BYTES // max(1, bounds.message_bytes)
    count = max(1, min(command.page_msgs, MAX_BATCH_MSGS, max_page_msgs))
    is_forwards = command.newer or sought_seq is not None
    start_seq = (
        sought_seq
        or command.from_seq
        or (bounds.first_seq if is_forwards else bounds.last_seq + 1)
    )
    if is_forwards:
        messages = await getter.read(
            max(start_seq, bounds.first_seq), count, command.filter_subject
        )
    else:
        messages = await read_newest_before(
            getter, bounds, start_seq, count, command.filter_subject
        )
    return _make_page(command.stream, messages, bounds, sought_seq)


def _make_page(
    stream: str, messages: list[StoredMessage], bounds: StreamBounds, sought_seq: int | None
) -> MessagePage:
    first_seq = messages[0].stream_seq if messages else None
    last_seq = messages[-1].stream_seq if messages else None
    return MessagePage(
        stream,
        tuple(messages),
        bounds.first_seq,
        bounds.last_seq,
        first_seq if first_seq is not None and first_seq > bounds.first_seq else None,
        last_seq + 1 if last_seq is not None and last_seq < bounds.last_seq else None,
        sought_seq,
        bounds.created_at_us,
    )


async def _read_last_per_subject(
    client: Client, getter: MessageGetter, bounds: StreamBounds, command: BrowseMessages
) -> MessagePage:
    subject_filter = command.filter_subject or ">"
    counts = await count_subjects(client, command.stream, subject_filter)
    if len(counts) > _MAX_LAST_SUBJECTS_COUNT:
        text = f"{count_text(len(counts))} subjects match: give a filter for at most 1024"
        raise RequestFailed(text)
    messages = await getter.read_last_of_each(counts, subject_filter)
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
    """Return the number of stored messages by subject; raises RequestFailed beyond 50,000
    subjects.
    """
    bounds = await read_bounds(client, stream)
    _check_listable(stream, bounds.subjects_count)
    counts = dict[str, int]()
    async for page_counts in read_all_subject_counts(client, stream, filter_subject):
        counts |= page_counts
        _check_listable(stream, len(counts))
    return dict(sorted(counts.items()))


def _check_listable(stream: str, subjects_count: int) -> None:
    if subjects_count > MAX_SUBJECTS:
        text = f"{stream} has {count_text(subjects_count)} subjects, too many to list"
        raise RequestFailed(text)


async def read_message(client: Client, command: ReadMessage) -> StoredMessage:
    """Return one message with its complete payload; raises NotFound."""
    verb = f"STREAM.MSG.GET.{command.stream}"
    return decode_api_reply(await client.request(verb, {"seq": command.stream_seq}), None)
