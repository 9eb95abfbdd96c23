"""The facts, numbers that rules compare, about one consumer when its row was sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.facts.fact import consumer_fact
from natstui.model.findings.facts.memory import MessageLoss, RuleMemory
from natstui.model.findings.facts.row import (
    RowHistory,
    dropped_after_max_deliver,
    settings_of,
    unused_s,
)
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.thresholds import (
    MAX_FETCH_LOOP_PAUSE_S,
    MAX_PULL_GAP_IF_UNKNOWN_S,
    MIN_POISON_POLLS,
    NAKS_WINDOW_S,
    REDELIVERIES_WINDOW_S,
)
from natstui.model.live.advisory_counts import NOTHING_COUNTED, MessageCounts
from natstui.model.live.age import next_message_age_s
from natstui.model.live.snapshot import ConsumerColumns
from natstui.model.live.state import State
from natstui.model.records.evidence import AdvisoryCounts

_US_PER_S = 1_000_000
_ACK_FLOOR_WINDOW_S = 120.0
_MAX_CLOCK_DIFFERENCE_US = 30_000_000
"""Maximum difference of synchronized clocks."""
_COUNTER_CHANGES_WINDOW_S = 60.0
"""In this time, polls show the last delivery or ack whatever the server's clock says."""


class _DeliveryPoll(NamedTuple):
    """The counters of a consumer's deliveries at one poll."""

    mono_us: int
    deliveries: int
    """Number of deliveries until then."""
    stream_seq: int
    """Stream sequence of the last delivered message."""
    redelivered_msgs: int


class ConsumerFacts:
    """A consumer as rules check it: its row, its settings, and its facts (numbers)."""

    def __init__(self, state: State, row: int, memory: RuleMemory | None = None) -> None:
        self.state = state
        self.row = row
        self._memory = state.findings.evaluation.memory if memory is None else memory
        self.columns: ConsumerColumns = state.consumers.columns
        self.key = state.consumers.roster.keys[row]
        self.name = (self.columns.stream[row], self.columns.name[row])
        self.pending = self.columns.pending_msgs[row]
        self.unacked = self.columns.ack_pending_msgs[row]
        self.redelivered = self.columns.redelivered_msgs[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: ConsumerConfiguration | None = state.consumer_configurations.get(self.name)

    # Properties that causes use and that are no facts.

    @cached_property
    def advisories(self) -> AdvisoryCounts | None:
        """The counts of advisories about the consumer since its creation; None without any."""
        advisories = self.state.evidence.entries.get(self.name)
        if advisories is None or advisories.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return advisories

    @property
    def naks(self) -> MessageCounts:
        """The naks of the consumer's clients, counted by message."""
        return NOTHING_COUNTED if self.advisories is None else self.advisories.naks

    @property
    def dropped_counts(self) -> MessageCounts:
        """The drops after max deliver, counted by message, also of messages deleted since."""
        return NOTHING_COUNTED if self.advisories is None else self.advisories.give_ups

    @cached_property
    def history(self) -> RowHistory:
        """The recent values of the consumer's row."""
        return RowHistory(self.state.consumer_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """The complete configuration of the consumer; empty if unknown."""
        return settings_of(self.config.config_json) if self.config else {}

    @cached_property
    def stream(self) -> StreamFacts | None:
        """The facts about the consumer's stream; None if the stream has no row."""
        rows = self.state.streams.roster.rows_of_stream.get(self.name[0])
        return StreamFacts(self.state, rows[-1], self._memory) if rows else None

    @property
    def is_sourcing(self) -> bool:
        """Whether the server created the consumer to copy messages to another stream."""
        return bool(self.settings.get("sourcing") or self.settings.get("direct"))

    @property
    def fed_stream(self) -> str | None:
        """The name of the stream to which the server copies messages; None if unknown."""
        metadata = self.settings.get("metadata")
        name = metadata.get("_nats.src.stream") if isinstance(metadata, dict) else None
        return str(name) if name else None

    @property
    def is_delivery_stopped(self) -> bool:
        """Whether nothing can be delivered: the consumer is paused or has no leader."""
        return self.columns.leader[self.row] is None or self.columns.paused[self.row]

    @property
    def is_at_max_ack_pending(self) -> bool:
        """Whether ack pending is at max ack pending, so that delivery waits for acks."""
        return bool(self.max_ack_pending) and self.unacked >= (self.max_ack_pending or 0)

    @property
    def max_ack_pending(self) -> int | None:
        """Max ack pending; None without a limit or with ack policy none."""
        config = self.config
        if config is None or config.ack_policy == "none":
            return None
        return config.max_ack_pending_msgs

    @property
    def has_client(self) -> bool | None:
        """Whether a pull request is open or a subscriber is bound; None if unknown."""
        if self.config is None:
            return None
        if self.config.pull:
            return self.columns.waiting_pulls_count[self.row] > 0
        return self.columns.push_bound[self.row]

    @property
    def has_seen_client(self) -> bool:
        """Whether a client was seen since the latest break of polling.

        Without such a break, a delivery before the first poll, by the server, counts too.
        """
        activity = self._memory.client_activity.get(self.key)
        return bool(self.has_client) or (
            activity is not None and activity.last_active_mono_us > activity.polled_since_mono_us
        )

    @property
    def is_unused(self) -> bool:
        """Whether the consumer is ephemeral and has no client: the server will delete it."""
        config = self.config
        if config is None or config.durable or self.has_client:
            return False
        activity = self._memory.client_activity.get(self.key)
        return not config.pull or (
            unused_s(self.columns, self.row, activity, self.at_us, self.mono_us)
            > MAX_FETCH_LOOP_PAUSE_S
        )

    @property
    def inactive_s(self) -> float:
        """Time since a client pulled, subscribed, received or acked, else since the creation.

        If it is unknown, the time since the oldest poll.
        """
        activity = self._memory.client_activity.get(self.key)
        # Unlike rules about pauses, the server counts the time in which natstui did not poll.
        gap_s = self._pull_gap_s(activity.last_seen_mono_us if activity else None)
        inactive_s = self.held_s if gap_s is None else min(self.held_s, gap_s)
        threshold_ns = self.config.inactive_threshold_ns if self.config else None
        if not threshold_ns or inactive_s * 1e9 <= threshold_ns:
            return inactive_s
        # The server would have deleted the consumer: a client used it, unseen by polls.
        oldest_mono_us, _ = self.history.values("sampled_mono_us", math.inf)[-1]
        return min(inactive_s, (self.mono_us - oldest_mono_us) / _US_PER_S)

    @property
    def is_filtered(self) -> bool:
        """Whether the consumer has filters, so that stream sequences do not count messages."""
        return self.config is None or bool(self.config.filter_subjects)

    @property
    def ack_floor(self) -> int:
        """The stream sequence of the ack floor."""
        return self.columns.ack_floor_stream_seq[self.row]

    @property
    def first_unacked_seqs(self) -> tuple[int, ...]:
        """The sequence of the first unacked message, which blocks the ack floor; empty if none."""
        delivered = self.columns.delivered_stream_seq[self.row]
        return (self.ack_floor + 1,) if delivered > self.ack_floor else ()

    @property
    def has_known_activity(self) -> bool:
        """Whether the last activity is known: a server forgets the times at a restart."""
        has_times = self.delivered_at_us is not None or self.acked_at_us is not None
        return has_times or not self.columns.delivered_consumer_seq[self.row]

    @property
    def was_never_delivered(self) -> bool:
        """Whether nothing was ever delivered, not even before a restart of the server."""
        return self.delivered_at_us is None and not self.columns.delivered_consumer_seq[self.row]

    @property
    def was_never_acked(self) -> bool:
        """Whether nothing was ever acked, not even before a restart of the server."""
        return self.acked_at_us is None and not self.columns.ack_floor_consumer_seq[self.row]

    @cached_property
    def idle_since_us(self) -> int:
        """The time of the last delivery or ack, else of the creation, UTC.

        If a restart of the server erased both times, the time of the last change that polls saw.
        """
        counters = ("delivered_consumer_seq", "ack_floor_consumer_seq")
        if not self.has_known_activity:
            return max(map(self._find_unchanged_since_us, counters))
        times = (self.delivered_at_us, self.acked_at_us, *map(self._find_change_us, counters))
        return max((self.created_at_us, *(time_us for time_us in times if time_us is not None)))

    @cached_property
    def waiting_since_us(self) -> int:
        """The time since which messages are pending and none is delivered, UTC."""
        since_us = self.created_at_us
        for at_us in (self.delivered_at_us, self._find_change_us("delivered_consumer_seq")):
            since_us = max(since_us, at_us or 0)
        since_us = self._find_above_zero_us("pending_msgs", since_us)
        since_us = max(since_us, self._oldest_pending_us or 0)
        return min(since_us, self.at_us)

    @cached_property
    def last_ack_us(self) -> int:
        """The time of the last ack, else of the creation, UTC.

        If a restart of the server erased the time, that of the last change that polls saw.
        """
        if self.acked_at_us is None and not self.was_never_acked:
            return self._find_unchanged_since_us("ack_floor_consumer_seq")
        since_us = self.acked_at_us or self.created_at_us
        return max(since_us, self._find_change_us("ack_floor_consumer_seq") or 0)

    @property
    def unacked_since_us(self) -> int:
        """The time since which messages are ack pending and none is acked, UTC."""
        return min(self._find_above_zero_us("ack_pending_msgs", self.last_ack_us), self.at_us)

    def _utc_us(self, mono_us: int) -> int:
        """Return a time on the engine's clock as UTC, by the present difference of both clocks."""
        return self.at_us - (self.mono_us - mono_us)

    @property
    def _oldest_poll_us(self) -> int:
        """The time of the oldest poll of the consumer in the history, UTC."""
        return self._utc_us(self.history.values("sampled_mono_us", math.inf)[-1][0])

    def _find_change_us(self, counter: str) -> int | None:
        """Return the time of the newest poll that saw `counter` change, UTC; None without one.

        It is by natstui's clock, from which the server's clock may differ.
        """
        mono_us = self.history.last_change_us(counter, _COUNTER_CHANGES_WINDOW_S)
        return None if mono_us is None else self._utc_us(mono_us)

    def _find_unchanged_since_us(self, counter: str) -> int:
        """Return the time since which polls have seen no change of `counter`, UTC."""
        polls = self.history.values(counter, math.inf)
        changes_us = (us for (us, value), (_, before) in pairwise(polls) if value != before)
        return self._utc_us(next(changes_us, polls[-1][0]))

    def _find_above_zero_us(self, gauge: str, since_us: int) -> int:
        """Return the time when `gauge` rose above zero, UTC; `since_us` if no poll shows 0."""
        since_mono_us = self.mono_us - (self.at_us - since_us)
        above_zero_mono_us = self.history.above_zero_since(gauge, since_mono_us)
        if above_zero_mono_us is None:
            return since_us
        return max(since_us, self._utc_us(above_zero_mono_us))

    @cached_property
    def created_at_us(self) -> int:
        """The time of the creation, UTC; after a change of the clock, at most the oldest poll."""
        created_at_us = self.columns.created_at_us[self.row]
        if not self._was_clock_changed:
            return created_at_us
        return min(created_at_us, self._oldest_poll_us)

    @cached_property
    def delivered_at_us(self) -> int | None:
        """The time of the last delivery, UTC by the current clock; None if unknown."""
        return self._correct_server_time_us(
            "delivered_consumer_seq", self.columns.delivered_at_us[self.row]
        )

    @cached_property
    def acked_at_us(self) -> int | None:
        """The time of the last ack, UTC by the current clock; None if unknown."""
        return self._correct_server_time_us(
            "ack_floor_consumer_seq", self.columns.acked_at_us[self.row]
        )

    def _correct_server_time_us(self, counter: str, at_us: int | None) -> int | None:
        """Return `at_us`, the time by the server's clock when `counter` changed, UTC.

        If a clock was changed and `at_us` does not fit the polls, return their time instead.
        """
        if at_us is None or not self._was_clock_changed:
            return at_us
        for (newer_us, newer_value), (older_us, older_value) in pairwise(
            self.history.values(counter, math.inf)
        ):
            if newer_value != older_value:
                earliest_us = self._utc_us(older_us)
                latest_us = self._utc_us(newer_us)
                is_time_between_polls = (
                    earliest_us - _MAX_CLOCK_DIFFERENCE_US
                    <= at_us
                    <= latest_us + _MAX_CLOCK_DIFFERENCE_US
                )
                return at_us if is_time_between_polls else earliest_us
        # It was before the oldest poll.
        is_time_known = at_us <= self._oldest_poll_us + _MAX_CLOCK_DIFFERENCE_US
        return at_us if is_time_known else self._oldest_poll_us

    @property
    def _was_clock_changed(self) -> bool:
        """Whether the machine's UTC clock was set since the oldest poll in the history."""
        tiers = self.state.consumer_history.tiers
        oldest_sample = next((tier.samples[0] for tier in reversed(tiers) if tier.samples), None)
        if oldest_sample is None:
            return False
        difference_us = (self.at_us - self.mono_us) - (oldest_sample.at_us - oldest_sample.mono_us)
        return abs(difference_us) > _MAX_CLOCK_DIFFERENCE_US

    @property
    def _oldest_pending_us(self) -> int | None:
        """The time when the oldest pending message was stored, UTC; None if unknown."""
        if not self.pending:
            return None
        next_age_s = next_message_age_s(self.state, self.row)
        if next_age_s is not None:
            return self.at_us - round(next_age_s * _US_PER_S)
        if self.pending == 1 and not self.is_filtered and self.stream:
            return self.stream.columns.last_at_us[self.stream.row]
        return None

    @property
    def loss(self) -> MessageLoss | None:
        """The messages that the stream removed before the consumer received them."""
        return self._memory.losses.get(self.key)

    @cached_property
    def _polls_since_floor_moved(self) -> list[_DeliveryPoll]:
        """The polls since the ack floor moved, newest first."""
        names = (
            "ack_floor_stream_seq", "delivered_consumer_seq", "delivered_stream_seq",
            "redelivered_msgs",
        )  # fmt: skip
        columns = [self.history.values(name, _ACK_FLOOR_WINDOW_S) for name in names]
        polls = []
        for (us, floor), (_, deliveries), (_, seq), (_, redelivered) in zip(*columns, strict=True):
            if floor != self.ack_floor:
                break
            polls.append(_DeliveryPoll(us, deliveries, seq, redelivered))
        return polls

    @cached_property
    def _polls_with_blocked_floor(self) -> list[_DeliveryPoll]:
        """The newest polls in which messages beyond the present ack floor were acked."""
        unacked = self.history.values("ack_pending_msgs", _ACK_FLOOR_WINDOW_S)
        polls = []
        for poll, (_, count) in zip(self._polls_since_floor_moved, unacked, strict=False):
            if poll.stream_seq - self.ack_floor <= count:
                break
            polls.append(poll)
        return polls

    # Facts.

    @consumer_fact("msgs")
    def pending_msgs(self) -> int:
        """Matching messages that were never delivered (num_pending)."""
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
        """Messages of an interest stream that only this consumer keeps."""
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
        """Time since the creation of the consumer."""
        return max(0.0, (self.at_us - self.created_at_us) / _US_PER_S)

    @consumer_fact("s")
    def waiting_s(self) -> float:
        """Time in which messages were pending and none was delivered."""
        return (self.at_us - self.waiting_since_us) / _US_PER_S

    @consumer_fact("s")
    def quiet_s(self) -> float | None:
        """Time since the last delivery."""
        at_us = self.delivered_at_us
        return None if at_us is None else max(0.0, (self.at_us - at_us) / _US_PER_S)

    @consumer_fact("s")
    def acked_ago_s(self) -> float | None:
        """Time since the last ack."""
        at_us = self.acked_at_us
        return None if at_us is None else max(0.0, (self.at_us - at_us) / _US_PER_S)

    @consumer_fact("s")
    def held_s(self) -> float:
        """Time since the last delivery or ack."""
        return max(0.0, (self.at_us - self.idle_since_us) / _US_PER_S)

    @consumer_fact("s")
    def longest_ack_wait_s(self) -> float | None:
        """Longest time until a redelivery: the maximum of ack wait and the backoff."""
        config = self.config
        if config is None or config.ack_policy == "none":
            return None
        ack_waits_ns = [config.ack_wait_ns or 0]
        backoff = self.settings.get("backoff")
        if isinstance(backoff, list):
            ack_waits_ns += [pause_ns for pause_ns in backoff if isinstance(pause_ns, int)]
        return max(ack_waits_ns) / 1e9 if max(ack_waits_ns) else None

    @consumer_fact("s", needs="two polls")
    def pull_gap_s(self) -> float | None:
        """Time since a client pulled, received or acked; 0 while a pull request is open."""
        activity = self._memory.client_activity.get(self.key)
        return self._pull_gap_s(activity.last_active_mono_us if activity else None)

    def _pull_gap_s(self, active_mono_us: int | None) -> float | None:
        """Return the time since a client pulled, received or acked; 0 with an open pull request or
        a bound subscriber.

        `active_mono_us` is the time of the last seen pull or delivery.
        """
        if self.has_client:
            return 0.0
        times_since_s = [self.quiet_s, self.acked_ago_s]
        if active_mono_us is not None:
            times_since_s.append(max(0.0, (self.mono_us - active_mono_us) / _US_PER_S))
        return min((time_s for time_s in times_since_s if time_s is not None), default=None)

    @consumer_fact("s", needs="two polls")
    def unanswered_pulls_s(self) -> float | None:
        """Time in which clients pulled while messages were pending, without a delivery."""
        activity = self._memory.client_activity.get(self.key)
        last_active_us = (
            self.at_us
            if self.has_client
            else (self._utc_us(activity.last_active_mono_us) if activity else None)
        )
        return (
            None
            if last_active_us is None
            else max(0.0, (last_active_us - self.waiting_since_us) / _US_PER_S)
        )

    @consumer_fact("s", needs="two polls")
    def longest_pull_gap_s(self) -> float | None:
        """Longest ended gap between pulls or deliveries; unknown until two gaps ended."""
        activity = self._memory.client_activity.get(self.key)
        return None if activity is None else activity.longest_gap_s

    @consumer_fact("s", needs="two polls")
    def allowed_gap_s(self) -> float:
        """Allowed gap between pulls or deliveries: three longest gaps, or 20 s if unknown."""
        activity = self._memory.client_activity.get(self.key)
        return MAX_PULL_GAP_IF_UNKNOWN_S if activity is None else activity.allowed_gap_s

    @consumer_fact("s", window_s=_ACK_FLOOR_WINDOW_S, needs="three polls")
    def floor_blocked_s(self) -> float:
        """Time in which messages beyond the ack floor were acked while the floor stayed.

        If it began before the first poll, the time is estimated from the present rate of acks.
        """
        polls = self._polls_with_blocked_floor
        if len(polls) < MIN_POISON_POLLS:
            return 0.0
        blocked_s = (polls[0].mono_us - polls[-1].mono_us) / _US_PER_S
        if len(polls) < len(self.history.values("ack_pending_msgs", _ACK_FLOOR_WINDOW_S)):
            return blocked_s
        delivered_seqs = polls[0].stream_seq - polls[-1].stream_seq
        if delivered_seqs <= 0:
            return blocked_s
        seqs_beyond_floor = polls[0].stream_seq - self.ack_floor
        return max(blocked_s, blocked_s * seqs_beyond_floor / delivered_seqs)

    @consumer_fact("msgs")
    def acked_behind_floor_msgs(self) -> int | None:
        """Acked messages beyond the ack floor; unknown with filters."""
        if self.is_filtered:
            return None
        seqs_beyond_floor = self.columns.delivered_stream_seq[self.row] - self.ack_floor
        return max(0, seqs_beyond_floor - self.unacked)

    @consumer_fact("deliveries", window_s=REDELIVERIES_WINDOW_S, needs="two polls")
    def deliveries(self) -> int | None:
        """Deliveries, including redeliveries."""
        return self.history.growth("delivered_consumer_seq", REDELIVERIES_WINDOW_S)

    @consumer_fact("deliveries", window_s=REDELIVERIES_WINDOW_S, needs="two polls")
    def repeats(self) -> int | None:
        """Redeliveries; with filters, a minimum."""
        counts = self._redeliveries_by_poll
        return sum(counts) if counts else None

    @cached_property
    def _redeliveries_by_poll(self) -> list[int]:
        """The redeliveries since the previous poll, for each poll of the window."""
        deliveries = self.history.values("delivered_consumer_seq", REDELIVERIES_WINDOW_S)
        sequences = self.history.values("delivered_stream_seq", REDELIVERIES_WINDOW_S)
        rows = list(zip(deliveries, sequences, strict=True))
        return [
            max(0, (delivered - old_delivered) - (seq - old_seq))
            for ((_, delivered), (_, seq)), ((_, old_delivered), (_, old_seq)) in pairwise(rows)
        ]

    @consumer_fact("polls", window_s=REDELIVERIES_WINDOW_S, needs="two polls")
    def repeat_polls(self) -> int:
        """Number of polls with new redeliveries."""
        return sum(count > 0 for count in self._redeliveries_by_poll)

    @consumer_fact("share", window_s=REDELIVERIES_WINDOW_S, needs="two polls")
    def repeat_share(self) -> float | None:
        """Share of redeliveries among the deliveries."""
        deliveries, repeats = self.deliveries, self.repeats
        if not deliveries or repeats is None:
            return None
        return min(1.0, repeats / deliveries)

    @consumer_fact("msgs", window_s=REDELIVERIES_WINDOW_S, needs="two polls")
    def floor_moved_msgs(self) -> int | None:
        """Growth of the ack floor, counted in deliveries."""
        return self.history.growth("ack_floor_consumer_seq", REDELIVERIES_WINDOW_S)

    @consumer_fact("s", window_s=_ACK_FLOOR_WINDOW_S)
    def watched_s(self) -> float:
        """Time between the oldest and newest poll of the consumer."""
        polls = self.history.values("ack_floor_stream_seq", _ACK_FLOOR_WINDOW_S)
        return (polls[0][0] - polls[-1][0]) / _US_PER_S

    @consumer_fact("s", window_s=_ACK_FLOOR_WINDOW_S, needs="three polls")
    def one_message_s(self) -> float:
        """Time span of the polls in which only one message was redelivered."""
        polls = self._polls_since_floor_moved[: self.one_message_polls]
        return (polls[0][0] - polls[-1][0]) / _US_PER_S if polls else 0.0

    @consumer_fact("polls", window_s=_ACK_FLOOR_WINDOW_S, needs="three polls")
    def one_message_polls(self) -> int:
        """Newest polls with an unchanged ack floor and exactly one redelivered message."""
        count = 0
        for _, _, _, redelivered in self._polls_since_floor_moved:
            if redelivered != 1:
                break
            count += 1
        return count

    @consumer_fact("deliveries", window_s=_ACK_FLOOR_WINDOW_S, needs="two polls")
    def one_message_repeats(self) -> int:
        """Redeliveries since the ack floor moved; without filters also before the first poll."""
        polls = self._polls_since_floor_moved[: max(1, self.one_message_polls)]
        counted_repeats = sum(
            max(0, (delivered - old_delivered) - (seq - old_seq))
            for (_, delivered, seq, _), (_, old_delivered, old_seq, _) in pairwise(polls)
        )
        if self.is_filtered:
            return counted_repeats
        columns, row = self.columns, self.row
        deliveries = columns.delivered_consumer_seq[row] - columns.ack_floor_consumer_seq[row]
        distinct_msgs = columns.delivered_stream_seq[row] - columns.ack_floor_stream_seq[row]
        return max(counted_repeats, deliveries - distinct_msgs)

    @consumer_fact("deliveries", window_s=_ACK_FLOOR_WINDOW_S, needs="two polls")
    def watched_repeats(self) -> int:
        """Redeliveries since the ack floor moved, between its first and newest poll."""
        polls = self._polls_since_floor_moved
        return sum(
            max(0, (delivered - old_delivered) - (seq - old_seq))
            for (_, delivered, seq, _), (_, old_delivered, old_seq, _) in pairwise(polls)
        )

    @consumer_fact("count", window_s=NAKS_WINDOW_S, needs="advisories")
    def recent_naks_count(self) -> int:
        """Naks of the clients in the last 10 s."""
        return self.naks.recent_count(self.at_us, NAKS_WINDOW_S)

    @consumer_fact("count", window_s=REDELIVERIES_WINDOW_S, needs="advisories")
    def naks_count(self) -> int:
        """Naks of the clients in the last 30 s, as for redeliveries."""
        return self.naks.recent_count(self.at_us, REDELIVERIES_WINDOW_S)

    @consumer_fact("share", window_s=NAKS_WINDOW_S, needs="advisories")
    def nak_share(self) -> float:
        """Naks of the clients in the last 10 s, as a share of the deliveries."""
        polls = self.history.values("delivered_consumer_seq", NAKS_WINDOW_S)
        (until_us, newest_seq), (from_us, oldest_seq) = polls[0], polls[-1]
        # Polls may be further apart: naks and deliveries must be of the same time.
        window_s = max(NAKS_WINDOW_S, (until_us - from_us) / _US_PER_S)
        count = self.naks.recent_count(self.at_us, window_s)
        acked_msgs, delivered_msgs = (
            self.history.growth("ack_floor_consumer_seq", NAKS_WINDOW_S),
            newest_seq - oldest_seq,
        )
        return min(1.0, count / max(1, delivered_msgs, count if acked_msgs == 0 else 0))

    @consumer_fact("msgs")
    def dropped_msgs(self) -> int:
        """Minimum number of stored messages that were dropped after max deliver."""
        return dropped_after_max_deliver(
            self.config, self.redelivered, self.unacked, self.dropped_counts.total_count
        )

    @consumer_fact("msgs", window_s=300.0, needs="two polls")
    def lost_msgs(self) -> int | None:
        """Messages that the stream removed before the consumer received them."""
        return None if self.loss is None else self.loss.lost_msgs

    @consumer_fact("msgs/min", window_s=300.0, needs="two polls")
    def lost_per_min(self) -> float | None:
        """Messages per minute that the stream removed before the consumer received them."""
        return None if self.loss is None else self.loss.per_min

    @consumer_fact("msgs", needs="two polls")
    def ahead_of_stream_msgs(self) -> int | None:
        """Distance of the consumer's position beyond the end of its stream."""
        stream, row = self.stream, self.row
        if stream is None or self._starts_as_configured:
            return None
        last_seq = stream.columns.last_seq[stream.row]
        # Nearly all consumers are not ahead, and reading older polls costs time.
        if self.columns.delivered_stream_seq[row] <= last_seq:
            return 0
        delivered = self.history.value_before("delivered_stream_seq", stream.mono_us)
        if delivered is None:
            return None
        return max(0, delivered - last_seq)

    @property
    def _starts_as_configured(self) -> bool:
        """Whether the consumer received nothing, and may still be at its configured start."""
        if self.columns.delivered_consumer_seq[self.row]:
            return False
        if self.config is None:
            return True
        if self.config.deliver_policy != "by_start_sequence":
            return False
        start_seq = self.settings.get("opt_start_seq")
        return start_seq in (None, self.columns.delivered_stream_seq[self.row] + 1)
