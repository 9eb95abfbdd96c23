"""The newest messages before a sequence, though gets only go forwards."""

from __future__ import annotations

import asyncio

from natstui.jetstream.browse_bounds import Bounds
from natstui.jetstream.getters import Getter
from natstui.model.stored import StoredMessage

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
    """The same without counting: look into ever wider windows, from the end backwards."""
    found: list[StoredMessage] = []
    width = count
    while low < end and len(found) < count:
        start = max(low, end - width)
        part = await _window(getter, start, end, count - len(found), subject)
        # As wide as the matches so far let expect, but not sixteen times wider at once.
        wanted = width * (count - len(found)) // len(part) if part else width * _WIDER
        found = part + found
        width = min(width * _WIDER, max(width, wanted * 5 // 4))
        end = start
    return found[-count:]


async def _window(
    getter: Getter, low: int, end: int, count: int, subject: str | None
) -> list[StoredMessage]:
    """Return the newest matches of a window, at least `count` if it holds so many."""
    if end - low <= (4 * count if subject is None else count):
        return _below(end, await getter.run(low, end - low, subject, end))
    step = max(1, -(-(end - low) // _SLICES))
    slices = [(at, min(at + step, end)) for at in range(low, end, step)]
    runs = await asyncio.gather(*(getter.run(at, count + 1, subject, stop) for at, stop in slices))
    found: list[StoredMessage] = []
    for (at, stop), run in zip(reversed(slices), reversed(runs), strict=True):
        part = _below(stop, run)
        if len(part) > count:  # more than were read: the newest of them lie further on
            part = await _newest(getter, at, stop, count, subject)
        found = part + found
        if len(found) >= count:
            break
    return found


def _below(end: int, messages: list[StoredMessage]) -> list[StoredMessage]:
    return [message for message in messages if (message.stream_seq or 0) < end]
