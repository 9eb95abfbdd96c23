"""The sequence that a time, or a place in a consumer's work, means."""

from __future__ import annotations

import json
from typing import Any

from natstui.errors import UsageError
from natstui.jetstream.browse_bounds import Bounds
from natstui.jetstream.client import Client
from natstui.jetstream.getters import Getter
from natstui.jetstream.stored_decode import microseconds
from natstui.model.stored import BrowseMessages


async def seek(
    client: Client, getter: Getter, bounds: Bounds, asked: BrowseMessages
) -> int | None:
    """Return the sequence that a time or a jump means; None when neither is asked for."""
    if asked.from_time is not None:
        return await at_time(getter, bounds, asked.from_time)
    if asked.jump is None or asked.consumer is None:
        return None
    verb = f"CONSUMER.INFO.{asked.stream}.{asked.consumer}"
    info: dict[str, Any] = json.loads(await client.request(verb))
    floor, delivered = info["ack_floor"]["stream_seq"], info["delivered"]["stream_seq"]
    if asked.jump == "ack_floor":
        return max(1, int(floor))
    config = info["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject") or None]
    start = floor if asked.jump == "first_unacked" else delivered
    firsts = [await getter.run(start + 1, 1, subject) for subject in filters]
    found = [message.stream_seq for first in firsts for message in first if message.stream_seq]
    return min(found, default=bounds.last_seq + 1)


async def at_time(getter: Getter, bounds: Bounds, text: str) -> int:
    """Return the first sequence stored at a time or after it."""
    try:
        wanted_us = microseconds(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time: write it as 2026-01-31T12:00:00Z") from error
    asked_at_once = await getter.from_time(text)
    if asked_at_once is not None:
        return asked_at_once[0].stream_seq or 1 if asked_at_once else bounds.last_seq + 1
    low, high = bounds.first_seq, bounds.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        found = await getter.run(middle, 1, None)
        if found and found[0].stored_at_us < wanted_us:
            low = (found[0].stream_seq or middle) + 1
        else:
            high = middle
    return low
