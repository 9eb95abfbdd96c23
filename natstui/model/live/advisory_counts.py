"""Counts of naks, drops and so on by message, for the most frequent messages, in bounded memory.

The algorithm is "space saving": a new message replaces the least frequent one and continues its
count. So a count is never too low, and at most its error too high. Every message with more than
`total / MAX_MESSAGES` advisories is included.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from natstui.values import replace

MAX_MESSAGES = 32
"""Limit of counted messages for each consumer and type of advisory."""


class MessageCount(Struct, frozen=True):
    """The number of advisories about one message."""

    stream_seq: int
    said_count: int
    error_count: int = 0
    """Maximum by which the count is too high."""
    deliveries_count: int = 0
    """Deliveries of the message in the last advisory."""


class MessageCounts(Struct, frozen=True):
    """Counts of the advisories of one type about one consumer's messages."""

    total_count: int = 0
    """Exact count of all messages together."""
    first_at_us: int = 0
    last_at_us: int = 0
    messages: tuple[MessageCount, ...] = ()
    """The most frequent messages."""
    recent: tuple[tuple[int, int], ...] = ()
    """(second since 1970, count) of the newest seconds with advisories, oldest first."""

    def after(
        self, at_us: int, additions: Iterable[MessageCount], count: int | None = None
    ) -> MessageCounts:
        """Return the counts with `additions`, which arrived at `at_us`.

        `count` is the number of arrived advisories, if some are missing in `additions`.
        """
        additions = tuple(additions)
        additions_total_count = sum(addition.said_count for addition in additions)
        count = additions_total_count if count is None else count
        return MessageCounts(
            total_count=self.total_count + count,
            first_at_us=self.first_at_us or at_us,
            last_at_us=max(self.last_at_us, at_us),
            messages=_merge_counts(
                self.messages, additions, has_omitted_messages=count > additions_total_count
            ),
            recent=_add_to_second(self.recent, at_us // 1_000_000, count),
        )

    def most_frequent(self) -> tuple[MessageCount, ...]:
        """Return the messages by their count, the most frequent first."""
        return tuple(
            sorted(self.messages, key=lambda message: (-message.said_count, message.stream_seq))
        )

    def recent_count(self, now_at_us: int, window_s: float) -> int:
        """Return the number of advisories within the last `window_s` seconds, at most 30.

        Advisories more than 30 s after `now_at_us` are from before the clock was set back.
        """
        now_s = now_at_us // 1_000_000
        return sum(
            count
            for second, count in self.recent
            if now_s - window_s <= second <= now_s + _MAX_KEPT_SECONDS
        )

    @property
    def sequences(self) -> tuple[int, ...]:
        """Return the sequences of the messages, the most frequent first."""
        return tuple(message.stream_seq for message in self.most_frequent())


NOTHING_COUNTED = MessageCounts()

_MAX_KEPT_SECONDS = 30


def _add_to_second(
    second_counts: tuple[tuple[int, int], ...], second: int, count: int
) -> tuple[tuple[int, int], ...]:
    if second_counts and second_counts[-1][0] > second + _MAX_KEPT_SECONDS:
        # The clock was set back.
        return ((second, count),)
    if second_counts and second_counts[-1][0] >= second:
        # Delayed advisories count for the newest second, so the seconds stay in order.
        newest_second, newest_count = second_counts[-1]
        return (*second_counts[:-1], (newest_second, newest_count + count))
    return (*second_counts[1 - _MAX_KEPT_SECONDS :], (second, count))


def _merge_counts(
    messages: tuple[MessageCount, ...],
    additions: tuple[MessageCount, ...],
    *,
    has_omitted_messages: bool,
) -> tuple[MessageCount, ...]:
    count_by_seq = {message.stream_seq: message for message in messages}
    if has_omitted_messages or len(additions) >= MAX_MESSAGES:
        # The additions left messages out, each at most as frequent as the rarest addition.
        min_count = min((addition.said_count for addition in additions), default=0)
        added_seqs = {addition.stream_seq for addition in additions}
        for seq in count_by_seq.keys() - added_seqs:
            message = count_by_seq[seq]
            count_by_seq[seq] = replace(
                message,
                said_count=message.said_count + min_count,
                error_count=message.error_count + min_count,
            )
    for addition in additions:
        previous_count = count_by_seq.get(addition.stream_seq)
        if previous_count is not None:
            count_by_seq[addition.stream_seq] = replace(
                previous_count,
                said_count=previous_count.said_count + addition.said_count,
                error_count=previous_count.error_count + addition.error_count,
                deliveries_count=max(previous_count.deliveries_count, addition.deliveries_count),
            )
        elif len(count_by_seq) < MAX_MESSAGES:
            count_by_seq[addition.stream_seq] = addition
        else:
            rarest_message = min(
                count_by_seq.values(),
                key=lambda message: (message.said_count, -message.stream_seq),
            )
            del count_by_seq[rarest_message.stream_seq]
            count_by_seq[addition.stream_seq] = replace(
                addition,
                said_count=rarest_message.said_count + addition.said_count,
                error_count=rarest_message.said_count + addition.error_count,
            )
    return tuple(count_by_seq.values())
