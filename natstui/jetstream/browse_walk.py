"""The newest messages before a sequence, though gets only go forwards."""

from __future__ import annotations

from natstui.jetstream.browse_bounds import Bounds
from natstui.jetstream.getters import Getter
from natstui.model.stored import StoredMessage


async def newest_before(
    getter: Getter, bounds: Bounds, end_seq: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest `count` messages before a sequence."""
    end_seq = min(end_seq, bounds.last_seq + 1)
    after = await getter.count_from(end_seq, subject)
    if after is None:
        return await _newest(getter, max(1, bounds.first_seq), end_seq, count, subject)
    # The widest window before the end that holds no more than `count`: found by halving.
    low, high = bounds.first_seq, max(bounds.first_seq, end_seq - count)
    if await _counted(getter, low, subject) - after <= count:
        high = low
    while low < high:
        middle = (low + high) // 2
        if await _counted(getter, middle, subject) - after > count:
            low = middle + 1
        else:
            high = middle
    found: list[StoredMessage] = []
    while run := await getter.run(high, count, subject):  # big messages come in several runs
        found += [message for message in run if (message.stream_seq or 0) < end_seq]
        high = (run[-1].stream_seq or end_seq) + 1
        if high >= end_seq:
            break
    return found


async def _counted(getter: Getter, from_seq: int, subject: str | None) -> int:
    return await getter.count_from(from_seq, subject) or 0


async def _newest(
    getter: Getter, low: int, end: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """The same without counting: look into the newer half first, and leave empty halves out."""
    if low >= end:
        return []
    if end - low <= count:
        found = await getter.run(low, end - low, subject)
        return [message for message in found if (message.stream_seq or 0) < end]
    first = await getter.run(low, 1, subject)
    if not first or (first[0].stream_seq or 0) >= end:
        return []
    low = first[0].stream_seq or low
    middle = max(low, end - count, (low + end) // 2)
    newer = await _newest(getter, middle, end, count, subject)
    if len(newer) >= count:
        return newer[-count:]
    older = await _newest(getter, low, middle, count - len(newer), subject)
    return older + newer
