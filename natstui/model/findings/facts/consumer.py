"""The facts about one consumer, at the moment when its leader wrote its row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.facts.fact import consumer_fact
from natstui.model.findings.facts.memory import Lost, Memory
from natstui.model.findings.facts.row import (
    Past,
    dropped_after_max_deliver,
    settings_of,
    unused_s,
)
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.thresholds import (
    FETCH_LOOP_S,
    ONE_MESSAGE_POLLS,
    RECENT_S,
    REPEATS_WINDOW_S,
    UNKNOWN_PACE_S,
)
from natstui.model.live.age import next_waits_s
from natstui.model.live.message_counts import NOTHING_COUNTED, MessageCounts
from natstui.model.live.snapshot import ConsumerColumns
from natstui.model.live.state import State
from natstui.model.records.evidence import Trouble

_US = 1_000_000
_FLOOR_WINDOW_S = 120.0
_LATER_US = 500_000
"""Of two replies that are so far apart, the later one is of a later moment."""
_CLOCKS_US = 30_000_000
"""Clocks that differ by more than this are not those of machines that are in time."""


class ConsumerFacts:
    """One consumer: its row, its settings, and the facts about it."""

    def __init__(self, state: State, row: int, memory: Memory | None = None) -> None:
        self.state = state
        self.row = row
        self._memory = state.findings.seat.memory if memory is None else memory
        self.columns: ConsumerColumns = state.consumers.columns
        self.key = state.consumers.roster.keys[row]
        self.name = (self.columns.stream[row], self.columns.name[row])
        self.pending = self.columns.pending_msgs[row]
        self.unacked = self.columns.ack_pending_msgs[row]
        self.redelivered = self.columns.redelivered_msgs[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: ConsumerConfiguration | None = state.consumer_configurations.get(self.name)

    # What it is, and what was read of it.

    @cached_property
    def trouble(self) -> Trouble | None:
        """The advisories about it since it was created."""
        trouble = self.state.evidence.of.get(self.name)
        if trouble is None or trouble.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return trouble

    @property
    def naks(self) -> MessageCounts:
        """The naks of its clients."""
        return NOTHING_COUNTED if self.trouble is None else self.trouble.naks

    @cached_property
    def past(self) -> Past:
        """Its recent values."""
        return Past(self.state.consumer_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """Its complete configuration."""
        return settings_of(self.config.config_json) if self.config else {}

    @cached_property
    def stream(self) -> StreamFacts | None:
        """Its stream, as known."""
        rows = self.state.streams.roster.rows_of_stream.get(self.name[0])
        return StreamFacts(self.state, rows[-1], self._memory) if rows else None

    @property
    def is_sourcing(self) -> bool:
        """The server created it to feed a stream that sources this one."""
        return bool(self.settings.get("sourcing") or self.settings.get("direct"))

    @property
    def fed_stream(self) -> str | None:
        """The stream that it feeds, where the server says so."""
        metadata = self.settings.get("metadata")
        name = metadata.get("_nats.src.stream") if isinstance(metadata, dict) else None
        return str(name) if name else None

    @property
    def is_held(self) -> bool:
        """Whether something worse explains why nothing is delivered."""
        return self.columns.leader[self.row] is None or self.columns.paused[self.row]

    @property
    def is_at_limit(self) -> bool:
        """Whether nothing more may be delivered before an ack."""
        return bool(self.limit) and self.unacked >= (self.limit or 0)

    @property
    def limit(self) -> int | None:
        """Max ack pending, where it applies."""
        config = self.config
        if config is None or config.ack_policy == "none":
            return None
        return config.max_ack_pending_msgs

    @property
    def served(self) -> bool | None:
        """Whether a pull request is open, or a subscriber is bound; None if that is not known."""
        if self.config is None:
            return None
        if self.config.pull:
            return self.columns.waiting_pulls_count[self.row] > 0
        return self.columns.push_bound[self.row]

    @property
    def is_left(self) -> bool:
        """Whether no client uses it, and the server removes it for that."""
        config = self.config
        if config is None or config.durable or self.served:
            return False
        pace = self._memory.pulls.get(self.key)
        return not config.pull or (
            unused_s(self.columns, self.row, pace, self.at_us) > FETCH_LOOP_S
        )

    @property
    def is_filtered(self) -> bool:
        """Whether it gets only some subjects, so that sequences of the stream count nothing."""
        return self.config is None or bool(self.config.filter_subjects)

    @property
    def floor(self) -> int:
        """The stream sequence of its ack floor."""
        return self.columns.ack_floor_stream_seq[self.row]

    @property
    def unsettled(self) -> tuple[int, ...]:
        """The first message that is not acked: it blocks the ack floor."""
        delivered = self.columns.delivered_stream_seq[self.row]
        return (self.floor + 1,) if delivered > self.floor else ()

    @property
    def has_known_activity(self) -> bool:
        """Whether it is known when it was active last: a server forgets it at a restart."""
        has_times = self.delivered_at_us is not None or self.acked_at_us is not None
        return has_times or not self.columns.delivered_consumer_seq[self.row]

    @property
    def idle_since_us(self) -> int:
        """When something was delivered or acked last, or when it was created."""
        times = (self.delivered_at_us, self.acked_at_us)
        return max((self.columns.created_at_us[self.row], *(at for at in times if at is not None)))

    @cached_property
    def waiting_since_us(self) -> int:
        """Since when messages wait and none is delivered, UTC; never before it was created."""
        since_us = self.columns.created_at_us[self.row]
        if self.delivered_at_us is not None:
            since_us = max(since_us, self.delivered_at_us)
        since_us = self._appeared_us("pending_msgs", since_us)
        since_us = max(since_us, self._oldest_pending_us or 0)
        return min(since_us, self.at_us)

    @property
    def unacked_since_us(self) -> int:
        """Since when messages are ack pending and none is acked, UTC, as far as polls go back."""
        since_us = self.acked_at_us or self.columns.created_at_us[self.row]
        return min(self._appeared_us("ack_pending_msgs", since_us), self.at_us)

    def _appeared_us(self, name: str, since_us: int) -> int:
        """Return since when a gauge is above zero, UTC; `since_us` where no poll shows a 0."""
        known_mono_us = self.mono_us - (self.at_us - since_us)
        appeared_mono_us = self.past.above_zero_since(name, known_mono_us)
        if appeared_mono_us is None:
            return since_us
        return max(since_us, self.at_us - (self.mono_us - appeared_mono_us))

    @cached_property
    def delivered_at_us(self) -> int | None:
        """When something was delivered last, UTC, as the clock is now."""
        return self._on_clock("delivered_consumer_seq", self.columns.delivered_at_us[self.row])

    @cached_property
    def acked_at_us(self) -> int | None:
        """When something was acked last, UTC, as the clock is now."""
        return self._on_clock("ack_floor_consumer_seq", self.columns.acked_at_us[self.row])

    def _on_clock(self, counter: str, at_us: int | None) -> int | None:
        """Return a time of the server, UTC; where the clock was set since, when polls saw it."""
        if at_us is None or not self._was_clock_set:
            return at_us
        for (after_us, value), (before_us, value_before) in pairwise(
            self.past.values(counter, math.inf)
        ):
            if value != value_before:
                first_us = self.at_us - (self.mono_us - before_us)
                last_us = self.at_us - (self.mono_us - after_us)
                in_time = first_us - _CLOCKS_US <= at_us <= last_us + _CLOCKS_US
                return at_us if in_time else first_us
        return at_us

    @property
    def _was_clock_set(self) -> bool:
        """The clock ran apart from the engine's since the oldest poll that is kept."""
        tiers = self.state.consumer_history.tiers
        oldest = next((tier.samples[0] for tier in reversed(tiers) if tier.samples), None)
        if oldest is None:
            return False
        apart_us = (self.at_us - self.mono_us) - (oldest.at_us - oldest.mono_us)
        return abs(apart_us) > _CLOCKS_US

    @property
    def _oldest_pending_us(self) -> int | None:
        """When the oldest pending message was stored, UTC, where that is known."""
        if not self.pending:
            return None
        waits_s = next_waits_s(self.state, self.row)
        if waits_s is not None:
            return self.at_us - round(waits_s * _US)
        if self.pending == 1 and not self.is_filtered and self.stream:
            return self.stream.columns.last_at_us[self.stream.row]
        return None

    @property
    def lost(self) -> Lost | None:
        """The messages that its stream removed before it received them."""
        return self._memory.lost.get(self.key)

    @cached_property
    def _floor_polls(self) -> list[tuple[int, int, int, int]]:
        """Polls since its ack floor moved, newest first: when, deliveries, sequence, repeated."""
        names = (
            "ack_floor_stream_seq", "delivered_consumer_seq", "delivered_stream_seq",
            "redelivered_msgs",
        )  # fmt: skip
        columns = [self.past.values(name, _FLOOR_WINDOW_S) for name in names]
        polls = []
        for (us, floor), (_, deliveries), (_, seq), (_, repeated) in zip(*columns, strict=True):
            if floor != self.floor:
                break
            polls.append((us, deliveries, seq, repeated))
        return polls

    @cached_property
    def _blocked_polls(self) -> list[tuple[int, int]]:
        """Newest polls in which messages behind the same ack floor were acked: when, sequence."""
        unacked = self.past.values("ack_pending_msgs", _FLOOR_WINDOW_S)
        polls = []
        for (us, _, seq, _), (_, count) in zip(self._floor_polls, unacked, strict=False):
            if seq - self.floor <= count:
                break
            polls.append((us, seq))
        return polls

    # Facts.

    @consumer_fact("msgs")
    def pending_msgs(self) -> int:
        """Messages that match and were never delivered (num_pending)."""
        return self.pending

    @consumer_fact("msgs")
    def ack_pending_msgs(self) -> int:
        """Messages that were delivered and not acked (num_ack_pending)."""
        return self.unacked

    @consumer_fact("msgs")
    def redelivered_msgs(self) -> int:
        """Messages that were delivered again and not acked (num_redelivered)."""
        return self.redelivered

    @consumer_fact("pulls")
    def open_pulls(self) -> int | None:
        """Open pull requests (num_waiting), eligible or not."""
        if self.config is None or not self.config.pull:
            return None
        return self.columns.waiting_pulls_count[self.row]

    @consumer_fact("msgs", needs="its stream")
    def kept_alone_msgs(self) -> int | None:
        """Messages of an interest stream that it alone keeps there."""
        stream = self.stream
        if stream is None or stream.config is None or stream.config.retention != "interest":
            return None
        rows, columns = stream.consumer_rows, self.columns
        if len(rows) != stream.columns.consumers_count[stream.row]:
            return None
        other_rows = (row for row in rows if row != self.row)
        kept_by_others_msgs = (
            columns.pending_msgs[row] + columns.ack_pending_msgs[row] for row in other_rows
        )
        stored_msgs = min(stream.columns.stored_msgs[stream.row], self.pending + self.unacked)
        return max(0, stored_msgs - max(kept_by_others_msgs, default=0))

    @consumer_fact("s")
    def age_s(self) -> float:
        """Since it was created."""
        return max(0.0, (self.at_us - self.columns.created_at_us[self.row]) / _US)

    @consumer_fact("s")
    def waiting_s(self) -> float:
        """How long messages have waited while none was delivered."""
        return (self.at_us - self.waiting_since_us) / _US

    @consumer_fact("s")
    def quiet_s(self) -> float | None:
        """Since the last delivery."""
        at_us = self.delivered_at_us
        return None if at_us is None else max(0.0, (self.at_us - at_us) / _US)

    @consumer_fact("s")
    def acked_ago_s(self) -> float | None:
        """Since the last ack."""
        at_us = self.acked_at_us
        return None if at_us is None else max(0.0, (self.at_us - at_us) / _US)

    @consumer_fact("s")
    def held_s(self) -> float:
        """Since the last delivery or ack."""
        return max(0.0, (self.at_us - self.idle_since_us) / _US)

    @consumer_fact("s")
    def longest_ack_wait_s(self) -> float | None:
        """How long a client may keep a message: the longest of ack wait and the backoff."""
        config = self.config
        if config is None or config.ack_policy == "none":
            return None
        waits = [config.ack_wait_ns or 0]
        backoff = self.settings.get("backoff")
        if isinstance(backoff, list):
            waits += [pause for pause in backoff if isinstance(pause, int)]
        return max(waits) / 1e9 if max(waits) else None

    @consumer_fact("s", needs="two polls")
    def pull_gap_s(self) -> float | None:
        """Since a client was seen pulling, receiving or acking; 0 while a pull request is open."""
        if self.served:
            return 0.0
        pace = self._memory.pulls.get(self.key)
        gap_s = None if pace is None else max(0.0, (self.at_us - pace.seen_at_us) / _US)
        gaps_s = [
            known_gap_s
            for known_gap_s in (gap_s, self.quiet_s, self.acked_ago_s)
            if known_gap_s is not None
        ]
        return min(gaps_s, default=None)

    @consumer_fact("s", needs="two polls")
    def unanswered_pulls_s(self) -> float | None:
        """How long clients have pulled since messages are pending, without a delivery."""
        pace = self._memory.pulls.get(self.key)
        seen_us = self.at_us if self.served else (pace.seen_at_us if pace else None)
        return None if seen_us is None else max(0.0, (seen_us - self.waiting_since_us) / _US)

    @consumer_fact("s", needs="two polls")
    def longest_pull_gap_s(self) -> float | None:
        """The longest pause of its clients that ended; unknown until two pauses ended."""
        pace = self._memory.pulls.get(self.key)
        return None if pace is None else pace.longest_gap_s

    @consumer_fact("s", needs="two polls")
    def allowed_gap_s(self) -> float:
        """How long its clients may pause: three of their longest pauses, or 20 s."""
        pace = self._memory.pulls.get(self.key)
        return UNKNOWN_PACE_S if pace is None else pace.allowed_gap_s

    @consumer_fact("s", window_s=_FLOOR_WINDOW_S, needs="three polls")
    def floor_blocked_s(self) -> float:
        """How long messages behind its ack floor have been acked while the floor stays.

        Where it was so in the first poll, the time that so many take at the pace of now.
        """
        polls = self._blocked_polls
        if len(polls) < ONE_MESSAGE_POLLS:
            return 0.0
        seen_s = (polls[0][0] - polls[-1][0]) / _US
        if len(polls) < len(self.past.values("ack_pending_msgs", _FLOOR_WINDOW_S)):
            return seen_s
        delivered = polls[0][1] - polls[-1][1]
        behind = polls[0][1] - self.floor
        return max(seen_s, seen_s * behind / delivered) if delivered > 0 else seen_s

    @consumer_fact("msgs")
    def acked_behind_floor_msgs(self) -> int | None:
        """Messages behind its ack floor that were acked; unknown with filters."""
        if self.is_filtered:
            return None
        behind = self.columns.delivered_stream_seq[self.row] - self.floor
        return max(0, behind - self.unacked)

    @consumer_fact("deliveries", window_s=REPEATS_WINDOW_S, needs="two polls")
    def deliveries(self) -> int | None:
        """Deliveries, repeats included."""
        return self.past.grown("delivered_consumer_seq", REPEATS_WINDOW_S)

    @consumer_fact("deliveries", window_s=REPEATS_WINDOW_S, needs="two polls")
    def repeats(self) -> int | None:
        """Deliveries of messages that were delivered before; with filters at least so many."""
        steps = self._repeat_steps
        return sum(steps) if steps else None

    @cached_property
    def _repeat_steps(self) -> list[int]:
        deliveries = self.past.values("delivered_consumer_seq", REPEATS_WINDOW_S)
        sequences = self.past.values("delivered_stream_seq", REPEATS_WINDOW_S)
        rows = list(zip(deliveries, sequences, strict=True))
        return [
            max(0, (delivered - delivered_before) - (seq - seq_before))
            for ((_, delivered), (_, seq)), ((_, delivered_before), (_, seq_before)) in pairwise(
                rows
            )
        ]

    @consumer_fact("polls", window_s=REPEATS_WINDOW_S, needs="two polls")
    def repeat_polls(self) -> int:
        """Polls that saw repeats."""
        return sum(step > 0 for step in self._repeat_steps)

    @consumer_fact("share", window_s=REPEATS_WINDOW_S, needs="two polls")
    def repeat_share(self) -> float | None:
        """The share of repeats among deliveries."""
        deliveries, repeats = self.deliveries, self.repeats
        if not deliveries or repeats is None:
            return None
        return min(1.0, repeats / deliveries)

    @consumer_fact("msgs", window_s=REPEATS_WINDOW_S, needs="two polls")
    def floor_moved_msgs(self) -> int | None:
        """How far its ack floor moved, counted in deliveries."""
        return self.past.grown("ack_floor_consumer_seq", REPEATS_WINDOW_S)

    @consumer_fact("s", window_s=_FLOOR_WINDOW_S)
    def watched_s(self) -> float:
        """How long it has been polled."""
        polls = self.past.values("ack_floor_stream_seq", _FLOOR_WINDOW_S)
        return (polls[0][0] - polls[-1][0]) / _US

    @consumer_fact("s", window_s=_FLOOR_WINDOW_S, needs="three polls")
    def one_message_s(self) -> float:
        """The time of the polls in which one message alone was redelivered."""
        polls = self._floor_polls[: self.one_message_polls]
        return (polls[0][0] - polls[-1][0]) / _US if polls else 0.0

    @consumer_fact("polls", window_s=_FLOOR_WINDOW_S, needs="three polls")
    def one_message_polls(self) -> int:
        """Newest polls in which its ack floor stayed and one message was redelivered, no other."""
        count = 0
        for _, _, _, repeated in self._floor_polls:
            if repeated != 1:
                break
            count += 1
        return count

    @consumer_fact("deliveries", window_s=_FLOOR_WINDOW_S, needs="two polls")
    def one_message_repeats(self) -> int:
        """Repeats since its ack floor moved; without filters also those before the first poll."""
        polls = self._floor_polls[: max(1, self.one_message_polls)]
        seen_repeats = sum(
            max(0, (delivered - delivered_before) - (seq - seq_before))
            for (_, delivered, seq, _), (_, delivered_before, seq_before, _) in pairwise(polls)
        )
        if self.is_filtered:
            return seen_repeats
        columns, row = self.columns, self.row
        deliveries = columns.delivered_consumer_seq[row] - columns.ack_floor_consumer_seq[row]
        distinct_msgs = columns.delivered_stream_seq[row] - columns.ack_floor_stream_seq[row]
        return max(seen_repeats, deliveries - distinct_msgs)

    @consumer_fact("deliveries", window_s=_FLOOR_WINDOW_S, needs="two polls")
    def watched_repeats(self) -> int:
        """Repeats that polls saw since its ack floor moved."""
        polls = self._floor_polls
        return sum(
            max(0, (delivered - delivered_before) - (seq - seq_before))
            for (_, delivered, seq, _), (_, delivered_before, seq_before, _) in pairwise(polls)
        )

    @consumer_fact("count", window_s=RECENT_S, needs="advisories")
    def recent_naks_count(self) -> int:
        """Naks of its clients."""
        return self.naks.recent_count(self.at_us, RECENT_S)

    @consumer_fact("count", window_s=REPEATS_WINDOW_S, needs="advisories")
    def naks_count(self) -> int:
        """Naks of its clients in the window of repeats."""
        return self.naks.recent_count(self.at_us, REPEATS_WINDOW_S)

    @consumer_fact("share", window_s=RECENT_S, needs="advisories")
    def nak_share(self) -> float:
        """The share of deliveries that its clients nak'd."""
        polls = self.past.values("delivered_consumer_seq", RECENT_S)
        (until_us, now), (from_us, before) = polls[0], polls[-1]
        # Polls may be further apart: naks and deliveries are those of the same time.
        count = self.naks.recent_count(self.at_us, max(RECENT_S, (until_us - from_us) / _US))
        settled, delivered = self.past.grown("ack_floor_consumer_seq", RECENT_S), now - before
        return min(1.0, count / max(1, delivered, count if settled == 0 else 0))

    @consumer_fact("msgs")
    def dropped_msgs(self) -> int:
        """Messages dropped after max deliver, at least: redelivered, and no ack can come."""
        announced = 0 if self.trouble is None else self.trouble.give_ups.total_count
        return dropped_after_max_deliver(self.config, self.redelivered, self.unacked, announced)

    @consumer_fact("msgs", window_s=300.0, needs="two polls")
    def lost_msgs(self) -> int | None:
        """Messages that its stream removed before it received them, all together."""
        return None if self.lost is None else self.lost.lost_msgs

    @consumer_fact("msgs/min", window_s=300.0, needs="two polls")
    def lost_per_min(self) -> float | None:
        """Messages that its stream removed before it received them, a minute."""
        return None if self.lost is None else self.lost.per_min

    @consumer_fact("msgs", needs="two polls")
    def ahead_of_stream_msgs(self) -> int | None:
        """How far its position is beyond the last message that its stream had later."""
        stream, row = self.stream, self.row
        if stream is None or self._starts_as_configured:
            return None
        last_seq = stream.columns.last_seq[stream.row]
        # Nearly all are not, and to read the polls before costs time.
        if self.columns.delivered_stream_seq[row] <= last_seq:
            return 0
        polls = self.past.values("delivered_stream_seq", 2 * _LATER_US / _US, fewest_count=3)
        earlier_us = stream.mono_us - _LATER_US
        delivered = next((seq for us, seq in polls if us <= earlier_us), None)
        if delivered is None:
            return None
        return max(0, delivered - last_seq)

    @property
    def _starts_as_configured(self) -> bool:
        """Whether it has received nothing, and may be where its configuration lets it begin."""
        if self.columns.delivered_consumer_seq[self.row]:
            return False
        if self.config is None:
            return True
        if self.config.deliver_policy != "by_start_sequence":
            return False
        start_seq = self.settings.get("opt_start_seq")
        return start_seq in (None, self.columns.delivered_stream_seq[self.row] + 1)
