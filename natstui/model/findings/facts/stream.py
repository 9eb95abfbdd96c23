"""The facts, numbers that rules compare, about one stream when its row was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.assets.subjects import contains
from natstui.model.findings.catalogue.kind import STREAM_LIMIT_BY_NUMBER_NAME
from natstui.model.findings.facts.fact import stream_fact
from natstui.model.findings.facts.memory import MissingMessages, Purge, RuleMemory
from natstui.model.findings.facts.row import (
    RowHistory,
    dropped_after_max_deliver,
    settings_of,
    unused_s,
)
from natstui.model.findings.thresholds import (
    MIN_DIFFERING_POLLS,
    MIN_PUBLISHER_SILENCE_S,
    NO_INTEREST_WINDOW_S,
    NO_SUBSCRIBER_S,
    PILE_UP_WINDOW_S,
    PUBLISHER_SILENCE_GAPS_FACTOR,
    STEADY_PUBLISHER_AFTER_S,
)
from natstui.model.live.limits import StreamFill, is_near_limit
from natstui.model.live.rates import stream_full_in_s
from natstui.model.live.snapshot import StreamColumns
from natstui.model.live.state import State
from natstui.model.records.evidence import AdvisoryCounts, SubjectsCounted
from natstui.units import bytes_text, duration_text

_US_PER_S = 1_000_000
_SUBJECT_TRANSFORM_KEY = "subject_transform"
_MAX_RESTART_REPORT_DELAY_US = 15 * _US_PER_S
"""Maximum delay until a restart of a server is known: servers are read every 10 s or less."""


def _limit_text(name: str, value: float) -> str:
    if name == "max_age_s":
        return duration_text(value)
    return bytes_text(round(value)) if name == "max_bytes" else f"{value:,.0f}"


class StreamFacts:
    """A stream as rules check it: its row, its settings, and its facts (numbers)."""

    def __init__(self, state: State, row: int, memory: RuleMemory | None = None) -> None:
        self.state = state
        self.row = row
        self._memory = state.findings.evaluation.memory if memory is None else memory
        self.columns: StreamColumns = state.streams.columns
        self.key = state.streams.roster.keys[row]
        self.name = self.columns.name[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: StreamConfiguration | None = state.stream_configurations.get(self.name)

    @cached_property
    def advisories(self) -> AdvisoryCounts | None:
        """The counts of advisories about the stream since its creation; None without any."""
        advisories = self.state.evidence.entries.get((self.name, ""))
        if advisories is None or advisories.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return advisories

    @cached_property
    def history(self) -> RowHistory:
        """The recent values of the stream's row."""
        return RowHistory(self.state.stream_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """The complete configuration of the stream; empty if unknown."""
        return settings_of(self.config.config_json) if self.config else {}

    @cached_property
    def consumer_rows(self) -> list[int]:
        """The rows of the stream's consumers."""
        return self.state.consumers.roster.rows_of_stream.get(self.name, [])

    def find_consumer_configurations(self) -> list[ConsumerConfiguration] | None:
        """Return the configurations of the stream's consumers; None unless all are known."""
        rows = self.consumer_rows
        if len(rows) != self.columns.consumers_count[self.row]:
            return None
        keys, configurations = self.state.consumers.roster.keys, self.state.consumer_configurations
        configurations_of_rows = [
            configurations.get((self.name, str(keys[row][1]))) for row in rows
        ]
        return (
            None
            if None in configurations_of_rows
            else [
                configuration
                for configuration in configurations_of_rows
                if configuration is not None
            ]
        )

    @cached_property
    def filters(self) -> list[str] | None:
        """The different filters of the stream's consumers; None unless all are known."""
        consumers = self.find_consumer_configurations()
        if consumers is None:
            return None
        return list(
            dict.fromkeys(
                subject for consumer in consumers for subject in consumer.filter_subjects or (">",)
            )
        )

    @property
    def is_covered_by_filters(self) -> bool:
        """Whether the consumer filters match every subject that the stream can have."""
        filters, config = self.filters or (), self.config
        if ">" in filters:
            return True
        if (
            config is None
            or config.mirror
            or config.sources
            or self.settings.get(_SUBJECT_TRANSFORM_KEY)
        ):
            return False
        return all(
            any(contains(filter_subject, subject) for filter_subject in filters)
            for subject in config.subjects
        )

    @property
    def subject_counts(self) -> SubjectsCounted | None:
        """The messages by subject, if they were counted since the stream's creation.

        None for an empty stream, which is not counted again.
        """
        if not self.columns.stored_msgs[self.row]:
            return None
        is_object_store = self.config is not None and self.config.kind == "object"
        subject = f"$O.{self.name.removeprefix('OBJ_')}.>" if is_object_store else ">"
        counts = self.state.subject_counts.get((self.name, subject))
        created_at_us = self.columns.created_at_us[self.row]
        return counts if counts is not None and counts.created_at_us == created_at_us else None

    @property
    def purge(self) -> Purge | None:
        """The latest purge by a user; None without one."""
        return self._memory.purges.get(self.key)

    @property
    def first_seq_after_purge(self) -> int:
        """The first sequence that the latest purge by a user left; 0 without a purge."""
        return self.purge.first_seq if self.purge else 0

    @property
    def missing_messages(self) -> MissingMessages | None:
        """The messages that disappeared when the stream's server restarted; None without any."""
        messages, leader = (
            self._memory.missing_messages.get(self.key),
            self.columns.leader[self.row],
        )
        server = self.state.servers.known.get(leader or "")
        if messages is None or server is None or not server.restarted_at_us:
            return None
        restarted_at_us = server.restarted_at_us[-1]
        is_at_restart = (
            messages.present_at_us
            <= restarted_at_us
            <= messages.at_us + _MAX_RESTART_REPORT_DELAY_US
        )
        return messages if is_at_restart else None

    @property
    def has_removing_limit(self) -> bool:
        """Whether a limit of the stream may remove messages that consumers still need.

        Not with max messages per subject, which only replaces messages.
        """
        config = self.config
        if config is None or config.max_msgs_per_subject:
            return False
        return bool(config.max_msgs or config.max_bytes or config.max_age_ns)

    @property
    def removing_limit(self) -> dict[str, float]:
        """Name → value of the limit that removes the oldest messages; empty if none does."""
        config, columns, row = self.config, self.columns, self.row
        if config is None:
            return {}
        if config.max_msgs and is_near_limit(columns.stored_msgs[row], config.max_msgs):
            return {"max_msgs": config.max_msgs}
        if config.max_bytes and is_near_limit(columns.stored_bytes[row], config.max_bytes):
            return {"max_bytes": config.max_bytes}
        return {"max_age_s": config.max_age_ns / 1e9} if config.max_age_ns else {}

    @property
    def removing_limit_text(self) -> str | None:
        """A clause about the limit that removes the oldest messages, with their age; or None."""
        for name, value in self.removing_limit.items():
            limit = f"{STREAM_LIMIT_BY_NUMBER_NAME[name].label} is {_limit_text(name, value)}"
            first_at_us = self.columns.first_at_us[self.row]
            if name == "max_age_s" or first_at_us is None or first_at_us >= self.at_us:
                return limit
            oldest_age_s = (self.at_us - first_at_us) / _US_PER_S
            return f"{limit}, it keeps the last {duration_text(oldest_age_s)}"
        return None

    @property
    def recreated_at_us(self) -> int | None:
        """The time when the stream was recreated, UTC; None if not within the last minutes."""
        return self._memory.streams_recreated_at_us.get(self.name)

    @stream_fact("msgs")
    def stored_msgs(self) -> int:
        """Stored messages."""
        return self.columns.stored_msgs[self.row]

    @stream_fact("msgs")
    def removed_msgs(self) -> int:
        """Deleted sequences between the first and last message (num_deleted)."""
        return self.columns.deleted_msgs[self.row]

    @stream_fact("s")
    def silent_s(self) -> float | None:
        """Time since the last message was stored, at most since the newest poll that saw one."""
        at_us = self.columns.last_at_us[self.row]
        if at_us is None:
            return None
        silent_us = self.at_us - at_us
        publishing = self._memory.steady_publishing.get(self.key)
        if publishing is not None and publishing.polled_mono_us is not None:
            silent_us = min(silent_us, self.mono_us - publishing.polled_mono_us)
        return max(0.0, silent_us / _US_PER_S)

    @stream_fact("s", needs="two polls")
    def steady_s(self) -> float | None:
        """Time in which messages were stored without a gap of more than 10 s."""
        publishing = self._memory.steady_publishing.get(self.key)
        return (
            None
            if publishing is None
            else (publishing.stored_at_us - publishing.steady_since_us) / _US_PER_S
        )

    @stream_fact("s", needs="two polls")
    def longest_store_gap_s(self) -> float | None:
        """Longest gap between new messages in the steady time, by polls."""
        publishing = self._memory.steady_publishing.get(self.key)
        return None if publishing is None else publishing.longest_gap_us / _US_PER_S

    @stream_fact("s", needs="two polls")
    def allowed_silence_s(self) -> float | None:
        """Allowed pause of a steady publisher; unknown without one."""
        steady_s, gap_s = self.steady_s, self.longest_store_gap_s
        if steady_s is None or gap_s is None or steady_s < STEADY_PUBLISHER_AFTER_S:
            return None
        return max(MIN_PUBLISHER_SILENCE_S, PUBLISHER_SILENCE_GAPS_FACTOR * gap_s)

    @stream_fact("msgs", needs="three polls")
    def orphaned_msgs(self) -> int | None:
        """Messages that match no consumer, the minimum of three polls, without dropped ones."""
        polls = self._memory.orphans.get(self.key)
        if polls is None:
            return None
        return max(0, polls.lowest_msgs - self.dropped_by_consumers_msgs)

    @stream_fact("polls", needs="three polls")
    def orphaned_polls(self) -> int:
        """Number of newest polls with messages that match no consumer."""
        polls = self._memory.orphans.get(self.key)
        return 0 if polls is None else polls.polls_count

    @cached_property
    def orphaned_since_us(self) -> int | None:
        """The time since which messages match no consumer, UTC; None without such messages."""
        polls = self._memory.orphans.get(self.key)
        return None if polls is None else polls.since_at_us

    @stream_fact("msgs")
    def dropped_by_consumers_msgs(self) -> int:
        """Stored messages that consumers dropped after max deliver."""
        columns, evidence = self.state.consumers.columns, self.state.evidence.entries
        configurations, count = self.state.consumer_configurations, 0
        for row in self.consumer_rows:
            name = (self.name, columns.name[row])
            advisories = evidence.get(name)
            advisories_count = 0 if advisories is None else advisories.give_ups.total_count
            redelivered = columns.redelivered_msgs[row]
            if redelivered or advisories_count:
                count += dropped_after_max_deliver(
                    configurations.get(name),
                    redelivered,
                    columns.ack_pending_msgs[row],
                    advisories_count,
                )
        return count

    @stream_fact("msgs/s", window_s=NO_INTEREST_WINDOW_S, needs="two polls")
    def came_per_s(self) -> float | None:
        """Messages stored per second."""
        return _growth_per_s(self.history.values("last_seq", NO_INTEREST_WINDOW_S))

    @stream_fact("msgs/s", window_s=NO_INTEREST_WINDOW_S, needs="two polls")
    def unwanted_per_s(self) -> float | None:
        """Minimum number of messages stored per second that match no consumer."""
        consumers, came_per_s = self.find_consumer_configurations(), self.came_per_s
        if not consumers or came_per_s is None:
            return None
        # Consumers with the same filters receive the same messages.
        msgs_per_s_by_filters: dict[tuple[str, ...], float] = {}
        for row, config in zip(self.consumer_rows, consumers, strict=True):
            key = self.state.consumers.roster.keys[row]
            history = RowHistory(self.state.consumer_history, key, row)
            names = ("delivered_consumer_seq", "pending_msgs")
            rates = [_growth_per_s(history.values(name, NO_INTEREST_WINDOW_S)) for name in names]
            if None in rates:
                return None
            received_msgs_per_s = sum(rate or 0.0 for rate in rates)
            msgs_per_s_by_filters[config.filter_subjects] = max(
                received_msgs_per_s, msgs_per_s_by_filters.get(config.filter_subjects, 0.0)
            )
        return came_per_s - sum(msgs_per_s_by_filters.values())

    @stream_fact("msgs", needs="two polls")
    def published_alone_msgs(self) -> int | None:
        """Messages published to an interest stream since it has no consumer."""
        consumerless_start = self._memory.consumerless.get(self.key)
        if consumerless_start is None:
            return None
        # A stream that was restored may be at a lower sequence than before.
        return max(0, self.columns.last_seq[self.row] - consumerless_start.last_seq)

    @property
    def consumerless_since_us(self) -> int | None:
        """The time since which an interest stream has no consumer, UTC; None with a consumer."""
        consumerless_start = self._memory.consumerless.get(self.key)
        return None if consumerless_start is None else consumerless_start.at_us

    @stream_fact("msgs", needs="three polls")
    def differing_msgs(self) -> int | None:
        """Difference between a replica and the leader, the same in three polls."""
        polls = self._memory.differing_replicas.get(self.key)
        if (
            polls is None
            or polls.polls_count < MIN_DIFFERING_POLLS
            or len(set(polls.newest_msgs)) > 1
        ):
            return None
        return polls.lowest_msgs

    @stream_fact("s")
    def moving_s(self) -> float | None:
        """Time since the start of an unfinished move or scale (cluster.desired)."""
        desired = self.columns.desired[self.row]
        return None if desired is None else (self.at_us - desired.created_at_us) / _US_PER_S

    @stream_fact("count", needs="subject counts")
    def full_subjects_count(self) -> int | None:
        """Number of subjects at max messages per subject."""
        counts, config = self.subject_counts, self.config
        if counts is None or config is None or not config.max_msgs_per_subject:
            return None
        return sum(n >= config.max_msgs_per_subject for n in counts.msgs_by_subject.values())

    @stream_fact("count", needs="subject counts")
    def objects_without_meta_count(self) -> int | None:
        """Minimum number of objects with chunks and no meta entry."""
        counts = self.subject_counts
        if counts is None or counts.subjects_count != len(counts.msgs_by_subject):
            return None
        kinds = [subject.split(".")[2:3] for subject in counts.msgs_by_subject]
        return max(0, kinds.count(["C"]) - kinds.count(["M"]))

    @stream_fact("count", window_s=PILE_UP_WINDOW_S)
    def unused_new_consumers_count(self) -> int:
        """Number of newly created consumers without a client."""
        columns, now_us, count = self.state.consumers.columns, self.at_us, 0
        waiting_pulls, push_bound, created_at_us = (
            columns.waiting_pulls_count, columns.push_bound, columns.created_at_us,
        )  # fmt: skip
        delivered_at_us = columns.delivered_at_us
        from_us = now_us - round(PILE_UP_WINDOW_S * _US_PER_S)
        for row in self.consumer_rows:
            if created_at_us[row] < from_us or waiting_pulls[row] or push_bound[row]:
                continue
            delivered_us = delivered_at_us[row]
            if delivered_us is None or now_us - delivered_us > 10 * _US_PER_S:
                count += 1
        return count

    @stream_fact("count", needs="two polls")
    def left_consumers_count(self) -> int:
        """Number of ephemeral consumers without a client."""
        columns, keys = self.state.consumers.columns, self.state.consumers.roster.keys
        configurations, count = self.state.consumer_configurations, 0
        if self.name not in self.state.findings.evaluation.streams_with_ephemerals:
            return 0
        for row in self.consumer_rows:
            config = configurations.get((self.name, columns.name[row]))
            if config is None or config.durable:
                continue
            activity = self._memory.client_activity.get(keys[row])
            allowed_pause_s = (
                activity.allowed_gap_s if activity and config.pull else NO_SUBSCRIBER_S
            )
            count += unused_s(columns, row, activity, self.at_us, self.mono_us) > allowed_pause_s
        return count

    @stream_fact("s", needs="two polls")
    def full_in_s(self) -> float | None:
        """Time until a limit is reached, by the present trend."""
        config = self.config
        if config is None:
            return None
        columns, row = self.columns, self.row
        fill = StreamFill(columns.stored_msgs[row], columns.stored_bytes[row],
                    config.max_msgs, config.max_bytes)  # fmt: skip
        return stream_full_in_s(self.state.stream_history, self.key, fill)


def _growth_per_s(values: list[tuple[int, int]]) -> float | None:
    """Return the growth per second; None for a single value.

    `values` are (time in µs, value), newest first.
    """
    (now_us, newest_value), (from_us, oldest_value) = values[0], values[-1]
    growth, elapsed_us = newest_value - oldest_value, now_us - from_us
    return growth * _US_PER_S / elapsed_us if elapsed_us > 0 else None
