"""What a planned consumer would deliver first, found out without making it."""

from __future__ import annotations

import json
from typing import Any

from natstui.jetstream.browse_bounds import Bounds, bounds_of
from natstui.jetstream.browse_seek import at_time
from natstui.jetstream.browse_walk import newest_before
from natstui.jetstream.client import Client
from natstui.jetstream.getters import Getter, getter_of
from natstui.model.stored import DeliveryPreview, PreviewDelivery, StoredMessage

_PREVIEW_BYTES = 256


async def preview_delivery(client: Client, asked: PreviewDelivery) -> DeliveryPreview:
    """Return the first message and how many follow; raises NotFound, UsageError."""
    config: dict[str, Any] = json.loads(asked.config_json)
    bounds = await bounds_of(client, asked.stream)
    getter = getter_of(client, asked.stream, direct=bounds.direct, preview_bytes=_PREVIEW_BYTES)
    single = config.get("filter_subject")
    filters = config.get("filter_subjects") or [single or None]
    policy = config.get("deliver_policy") or "all"
    if policy == "new":
        return DeliveryPreview(None, 0)
    if policy in ("last", "last_per_subject"):
        return await _last(getter, bounds, filters, each=policy == "last_per_subject")
    start = bounds.first_seq
    if policy == "by_start_sequence":
        start = max(start, int(config.get("opt_start_seq") or 0))
    elif policy == "by_start_time":
        start = await at_time(getter, bounds, str(config.get("opt_start_time") or ""))
    return await _from(getter, start, filters)


async def _from(getter: Getter, start: int, filters: list[str | None]) -> DeliveryPreview:
    firsts = [await getter.run(start, 1, subject) for subject in filters]
    counts = [await getter.count_from(start, subject) for subject in filters]
    known = [count for count in counts if count is not None]
    found = [first[0] for first in firsts if first]
    pending = sum(known) if len(known) == len(counts) else None
    return DeliveryPreview(min(found, key=_sequence, default=None), pending)


async def _last(
    getter: Getter, bounds: Bounds, filters: list[str | None], *, each: bool
) -> DeliveryPreview:
    if each:
        ends = [await getter.last_of_each((), subject or ">") for subject in filters]
    else:
        end = bounds.last_seq + 1
        ends = [await newest_before(getter, bounds, end, 1, subject) for subject in filters]
    found = sorted((message for run in ends for message in run), key=_sequence)
    if each:
        return DeliveryPreview(found[0] if found else None, len(found))
    return DeliveryPreview(found[-1] if found else None, 1 if found else 0)


def _sequence(message: StoredMessage) -> int:
    return message.stream_seq or 0
