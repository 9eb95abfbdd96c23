"""How often each message was refused or given up, of the most frequent ones, in bounded memory.

The structure is "space saving": of more messages than there is room for, one that comes takes the
place of the least frequent, and with it its count. So a count is never too low, and too high by no
more than its error; every message that came more often than `total / room` is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

ROOM = 32
"""Messages counted one by one for each consumer and kind of trouble."""


@dataclass(frozen=True, slots=True)
class MessageCount:
    """How often something was said of one message."""

    stream_seq: int
    said_count: int
    error_count: int = 0
    """The count is too high by no more than this."""
    deliveries_count: int = 0
    """Deliveries of it when it was said last."""


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """Counts of one kind of trouble of one consumer."""

    total_count: int = 0
    """Exact: all messages together."""
    first_at_us: int = 0
    last_at_us: int = 0
    messages: tuple[MessageCount, ...] = ()
    """The most frequent ones."""
    recent: tuple[tuple[int, int], ...] = ()
    """(second, count) of the newest seconds in which there were any, oldest first."""

    def after(
        self, at_us: int, told: Iterable[MessageCount], count: int | None = None
    ) -> MessageCounts:
        """Return the counts after more was said; `count` where not every message is named."""
        told = tuple(told)
        named_count = sum(one.said_count for one in told)
        count = named_count if count is None else count
        return MessageCounts(
            total_count=self.total_count + count,
            first_at_us=self.first_at_us or at_us,
            last_at_us=max(self.last_at_us, at_us),
            messages=_merged(self.messages, told, others=count > named_count),
            recent=_recent(self.recent, at_us // 1_000_000, count),
        )

    def worst(self) -> tuple[MessageCount, ...]:
        """Return the messages by their count, the most frequent first."""
        return tuple(
            sorted(self.messages, key=lambda message: (-message.said_count, message.stream_seq))
        )

    def recent_count(self, now_at_us: int, window_s: float) -> int:
        """Return how many came within so many seconds."""
        from_s = now_at_us // 1_000_000 - window_s
        return sum(count for second, count in self.recent if second >= from_s)

    @property
    def sequences(self) -> tuple[int, ...]:
        """The sequences of the messages, the most frequent first."""
        return tuple(one.stream_seq for one in self.worst())


NOTHING_COUNTED = MessageCounts()

_SECONDS_KEPT = 30


def _recent(
    known: tuple[tuple[int, int], ...], second: int, count: int
) -> tuple[tuple[int, int], ...]:
    if known and known[-1][0] >= second:
        # What comes late counts for the newest second: the seconds stay in order.
        newest, so_far = known[-1]
        return (*known[:-1], (newest, so_far + count))
    return (*known[1 - _SECONDS_KEPT :], (second, count))


def _merged(
    known: tuple[MessageCount, ...], told: tuple[MessageCount, ...], *, others: bool
) -> tuple[MessageCount, ...]:
    counted = {one.stream_seq: one for one in known}
    if others or len(told) >= ROOM:
        # What is told left messages out: each of them came no more often than the least told.
        least = min((one.said_count for one in told), default=0)
        named = {one.stream_seq for one in told}
        for seq in counted.keys() - named:
            one = counted[seq]
            counted[seq] = replace(
                one, said_count=one.said_count + least, error_count=one.error_count + least
            )
    for one in told:
        before = counted.get(one.stream_seq)
        if before is not None:
            counted[one.stream_seq] = replace(
                before,
                said_count=before.said_count + one.said_count,
                error_count=before.error_count + one.error_count,
                deliveries_count=max(before.deliveries_count, one.deliveries_count),
            )
        elif len(counted) < ROOM:
            counted[one.stream_seq] = one
        else:
            rarest = min(counted.values(), key=lambda each: (each.said_count, -each.stream_seq))
            del counted[rarest.stream_seq]
            counted[one.stream_seq] = replace(
                one,
                said_count=rarest.said_count + one.said_count,
                error_count=rarest.said_count + one.error_count,
            )
    return tuple(counted.values())
