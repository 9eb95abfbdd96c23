"""Finds the first message that a planned consumer would deliver, without creating it."""

from __future__ import annotations

import json
from typing import Any

from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.browse import (
    MAX_SUBJECTS,
    StreamBounds,
    count_subjects,
    find_at_time,
    parse_time_text,
    read_bounds,
    read_newest_before,
)
from natstui.jetstream.messages.gets import MessageGetter, call_with_getter
from natstui.model.records.messages import DeliveryPreview, PreviewDelivery, StoredMessage
from natstui.values import replace

_PREVIEW_BYTES = 256


async def preview_delivery(client: Client, command: PreviewDelivery) -> DeliveryPreview:
    """Return the first message and how many would be delivered; raises NotFound, UsageError."""
    bounds = await read_bounds(client, command.stream)
    return await call_with_getter(
        client,
        command.stream,
        lambda getter: _find_preview(client, getter, bounds, command),
        uses_direct_get=bounds.allows_direct_get,
        preview_bytes=_PREVIEW_BYTES,
    )


async def _find_preview(
    client: Client, getter: MessageGetter, bounds: StreamBounds, command: PreviewDelivery
) -> DeliveryPreview:
    config: dict[str, Any] = json.loads(command.config_json)
    single_filter = config.get("filter_subject")
    filters = config.get("filter_subjects") or [single_filter or None]
    deliver_policy = config.get("deliver_policy") or "all"
    if deliver_policy == "new":
        return DeliveryPreview(None, 0)
    if deliver_policy in ("last", "last_per_subject"):
        if deliver_policy == "last_per_subject":
            return await _preview_last_per_subject(client, getter, command.stream, filters)
        return await _preview_last(getter, bounds, filters)
    start_seq = bounds.first_seq
    if deliver_policy == "by_start_sequence":
        start_seq = max(start_seq, int(config.get("opt_start_seq") or 0))
    elif deliver_policy == "by_start_time":
        start_seq = await _find_start_seq(getter, bounds, str(config.get("opt_start_time") or ""))
    preview = await _preview_from(getter, start_seq, filters)
    if preview.pending_msgs is not None:
        return preview
    counts = [
        await _count_in_stream(client, command.stream, start_seq, subject) for subject in filters
    ]
    available_counts = [count for count in counts if count is not None]
    return replace(
        preview,
        pending_msgs=sum(available_counts) if len(available_counts) == len(counts) else None,
    )


async def _find_start_seq(getter: MessageGetter, bounds: StreamBounds, text: str) -> int:
    """Return the sequence at which the server would start a consumer with this start time.

    Some servers skip messages before it: see `MessageGetter.read_from_time`.
    """
    start_messages = await getter.read_from_time(parse_time_text(text))
    if start_messages is None:
        return await find_at_time(getter, bounds, text)
    return start_messages[0].stream_seq or 1 if start_messages else bounds.last_seq + 1


async def _count_in_stream(
    client: Client, stream: str, start_seq: int, subject: str | None
) -> int | None:
    """Return the number of messages of `subject`, None for all, from `start_seq` on.

    It is from the stream's state; None if the state has no such count.
    """
    state = (await client.stream_info(stream)).state
    if start_seq <= state.first_seq:
        if subject is None:
            return state.messages
        if state.num_subjects > MAX_SUBJECTS:
            return None
        info = await client.stream_info(stream, {"subjects_filter": subject})
        return sum((info.state.subjects or {}).values())
    if subject is None and not state.num_deleted:
        return max(0, state.last_seq - start_seq + 1)
    return None


async def _preview_from(
    getter: MessageGetter, start_seq: int, filters: list[str | None]
) -> DeliveryPreview:
    first_messages = [await getter.read(start_seq, 1, subject) for subject in filters]
    counts = [await getter.count_from(start_seq, subject) for subject in filters]
    available_counts = [count for count in counts if count is not None]
    messages = [
        messages_of_filter[0] for messages_of_filter in first_messages if messages_of_filter
    ]
    pending = sum(available_counts) if len(available_counts) == len(counts) else None
    return DeliveryPreview(min(messages, key=_stream_seq, default=None), pending)


async def _preview_last(
    getter: MessageGetter, bounds: StreamBounds, filters: list[str | None]
) -> DeliveryPreview:
    end = bounds.last_seq + 1
    newest_by_filter = [
        await read_newest_before(getter, bounds, end, 1, subject) for subject in filters
    ]
    messages = sorted(
        (message for newest in newest_by_filter for message in newest), key=_stream_seq
    )
    return DeliveryPreview(messages[-1] if messages else None, 1 if messages else 0)


async def _preview_last_per_subject(
    client: Client, getter: MessageGetter, stream: str, filters: list[str | None]
) -> DeliveryPreview:
    messages: list[StoredMessage] = []
    for subject_filter in (subject or ">" for subject in filters):
        subjects = await count_subjects(client, stream, subject_filter)
        messages += await getter.read_last_of_each(subjects, subject_filter)
    return DeliveryPreview(min(messages, key=_stream_seq, default=None), len(messages))


def _stream_seq(message: StoredMessage) -> int:
    return message.stream_seq or 0
