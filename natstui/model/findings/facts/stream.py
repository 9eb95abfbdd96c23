"""The facts about one stream, at the moment when its leader wrote its row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.assets.subjects import contains
from natstui.model.findings.catalogue.kind import STREAM_LIMITS
from natstui.model.findings.facts.fact import stream_fact
from natstui.model.findings.facts.memory import Memory, Missing, Purged
from natstui.model.findings.facts.row import (
    Past,
    dropped_after_max_deliver,
    settings_of,
    unused_s,
)
from natstui.model.findings.thresholds import (
    DROPPED_WINDOW_S,
    NO_SUBSCRIBER_S,
    PILE_UP_S,
    REPLICAS_POLLS,
    STEADY_RUN_S,
    STOPPED_GAPS,
    STOPPED_LEAST_S,
)
from natstui.model.live.limits import Fill, is_near
from natstui.model.live.rates import stream_full_in_s
from natstui.model.live.snapshot import StreamColumns
from natstui.model.live.state import State
from natstui.model.records.evidence import SubjectsCounted, Trouble
from natstui.units import bytes_text, duration_text

_US = 1_000_000
_TRANSFORM = "subject_transform"
_RESTART_TOLD_US = 15 * _US
"""The servers are read every ten seconds at the latest: so late a restart of one is known."""


def _limit_text(name: str, value: float) -> str:
    if name == "max_age_s":
        return duration_text(value)
    return bytes_text(round(value)) if name == "max_bytes" else f"{value:,.0f}"


class StreamFacts:
    """One stream: its row, its settings, and the facts about it."""

    def __init__(self, state: State, row: int, memory: Memory | None = None) -> None:
        self.state = state
        self.row = row
        self._memory = state.findings.seat.memory if memory is None else memory
        self.columns: StreamColumns = state.streams.columns
        self.key = state.streams.roster.keys[row]
        self.name = self.columns.name[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: StreamConfiguration | None = state.stream_configurations.get(self.name)

    @cached_property
    def trouble(self) -> Trouble | None:
        """The advisories about it since it was created."""
        trouble = self.state.evidence.of.get((self.name, ""))
        if trouble is None or trouble.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return trouble

    @cached_property
    def past(self) -> Past:
        """Its recent values."""
        return Past(self.state.stream_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """Its complete configuration."""
        return settings_of(self.config.config_json) if self.config else {}

    @cached_property
    def consumer_rows(self) -> list[int]:
        """The rows of its consumers."""
        return self.state.consumers.roster.rows_of_stream.get(self.name, [])

    def consumers(self) -> list[ConsumerConfiguration] | None:
        """Return the settings of its consumers; None while not all of them are known."""
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
        """The filters of its consumers, each once; None while not all of them are known."""
        consumers = self.consumers()
        if consumers is None:
            return None
        return list(
            dict.fromkeys(s for consumer in consumers for s in consumer.filter_subjects or (">",))
        )

    @property
    def is_covered(self) -> bool:
        """Whether its consumers want every subject that it can have."""
        filters, config = self.filters or (), self.config
        if ">" in filters:
            return True
        if config is None or config.mirror or config.sources or self.settings.get(_TRANSFORM):
            return False
        return all(
            any(contains(filter_subject, subject) for filter_subject in filters)
            for subject in config.subjects
        )

    @property
    def counted(self) -> SubjectsCounted | None:
        """Its messages by subject, where they were counted since it was created.

        An empty stream is not counted again, and what was counted before is gone.
        """
        if not self.columns.stored_msgs[self.row]:
            return None
        is_store = self.config is not None and self.config.kind == "object"
        subject = f"$O.{self.name.removeprefix('OBJ_')}.>" if is_store else ">"
        counts = self.state.subject_counts.get((self.name, subject))
        created_at_us = self.columns.created_at_us[self.row]
        return counts if counts is not None and counts.created_at_us == created_at_us else None

    @property
    def purged(self) -> Purged | None:
        """What was purged lately."""
        return self._memory.purged.get(self.key)

    @property
    def missing(self) -> Missing | None:
        """Messages that its server did not have any more when it was back from a restart."""
        missing, leader = self._memory.missing.get(self.key), self.columns.leader[self.row]
        server = self.state.servers.known.get(leader or "")
        if missing is None or server is None or not server.restarted_at_us:
            return None
        told_at_us = server.restarted_at_us[-1]
        is_then = missing.before_us <= told_at_us <= missing.at_us + _RESTART_TOLD_US
        return missing if is_then else None

    @property
    def loses_by_limits(self) -> bool:
        """Whether a limit removes messages that somebody may still want.

        A newer message of the same subject replaces an older one, and no message is lost by it;
        neither is what a user purges.
        """
        config = self.config
        if config is None or config.max_msgs_per_subject or self.purged is not None:
            return False
        return bool(config.max_msgs or config.max_bytes or config.max_age_ns)

    @property
    def removing_limit(self) -> dict[str, float]:
        """The value of the limit that removes its oldest messages, by its name; empty if none."""
        config, columns, row = self.config, self.columns, self.row
        if config is None:
            return {}
        if config.max_msgs and is_near(columns.stored_msgs[row], config.max_msgs):
            return {"max_msgs": config.max_msgs}
        if config.max_bytes and is_near(columns.stored_bytes[row], config.max_bytes):
            return {"max_bytes": config.max_bytes}
        return {"max_age_s": config.max_age_ns / 1e9} if config.max_age_ns else {}

    @property
    def removing_limit_text(self) -> str | None:
        """The limit that removes its oldest messages, and how long it keeps them, for people."""
        for name, value in self.removing_limit.items():
            limit = f"{STREAM_LIMITS[name].label} is {_limit_text(name, value)}"
            first_at_us = self.columns.first_at_us[self.row]
            if name == "max_age_s" or first_at_us is None or first_at_us >= self.at_us:
                return limit
            kept_s = (self.at_us - first_at_us) / _US
            return f"{limit}, it keeps the last {duration_text(kept_s)}"
        return None

    @property
    def recreated_at_us(self) -> int | None:
        """When it was recreated under its name, of the last minutes."""
        return self._memory.streams_recreated_at_us.get(self.name)

    @stream_fact("msgs")
    def stored_msgs(self) -> int:
        """Messages that it has."""
        return self.columns.stored_msgs[self.row]

    @stream_fact("msgs")
    def removed_msgs(self) -> int:
        """Sequences between its first and its last message that are deleted (num_deleted)."""
        return self.columns.deleted_msgs[self.row]

    @stream_fact("s")
    def silent_s(self) -> float | None:
        """Since a message was stored."""
        at_us = self.columns.last_at_us[self.row]
        return None if at_us is None else max(0.0, (self.at_us - at_us) / _US)

    @stream_fact("s", needs="two polls")
    def steady_s(self) -> float | None:
        """How long messages were stored without a gap of more than 10 s, until the newest one."""
        flow = self._memory.flows.get(self.key)
        return None if flow is None else (flow.stored_at_us - flow.run_since_us) / _US

    @stream_fact("s", needs="two polls")
    def longest_store_gap_s(self) -> float | None:
        """The longest gap between two stored messages of that time, as polls saw it."""
        flow = self._memory.flows.get(self.key)
        return None if flow is None else flow.longest_gap_us / _US

    @stream_fact("s", needs="two polls")
    def allowed_silence_s(self) -> float | None:
        """How long a steady publisher may pause; unknown where there is none."""
        steady_s, gap_s = self.steady_s, self.longest_store_gap_s
        if steady_s is None or gap_s is None or steady_s < STEADY_RUN_S:
            return None
        return max(STOPPED_LEAST_S, STOPPED_GAPS * gap_s)

    @stream_fact("msgs", needs="three polls")
    def orphaned_msgs(self) -> int | None:
        """Messages that no consumer waits for, the fewest of three polls, less those dropped."""
        run = self._memory.orphans.get(self.key)
        return None if run is None else max(0, run.lowest_msgs - self.dropped_by_consumers_msgs)

    @stream_fact("polls", needs="three polls")
    def orphaned_polls(self) -> int:
        """Newest polls in which it had such messages."""
        run = self._memory.orphans.get(self.key)
        return 0 if run is None else run.polls_count

    @cached_property
    def orphaned_since_us(self) -> int | None:
        """Since when it has such messages, UTC."""
        run = self._memory.orphans.get(self.key)
        return None if run is None else run.since_at_us

    @stream_fact("msgs")
    def dropped_by_consumers_msgs(self) -> int:
        """Messages that consumers dropped after max deliver and that it still has."""
        columns, evidence = self.state.consumers.columns, self.state.evidence.of
        configurations, count = self.state.consumer_configurations, 0
        for row in self.consumer_rows:
            name = (self.name, columns.name[row])
            trouble = evidence.get(name)
            announced = 0 if trouble is None else trouble.give_ups.total_count
            redelivered = columns.redelivered_msgs[row]
            if redelivered or announced:
                count += dropped_after_max_deliver(
                    configurations.get(name), redelivered, columns.ack_pending_msgs[row], announced
                )
        return count

    @stream_fact("msgs/s", window_s=DROPPED_WINDOW_S, needs="two polls")
    def came_per_s(self) -> float | None:
        """Messages that were stored."""
        return _per_s(self.past.values("last_seq", DROPPED_WINDOW_S))

    @stream_fact("msgs/s", window_s=DROPPED_WINDOW_S, needs="two polls")
    def unwanted_per_s(self) -> float | None:
        """Messages that were stored and that no consumer received or has pending, at least."""
        consumers, came_per_s = self.consumers(), self.came_per_s
        if not consumers or came_per_s is None:
            return None
        # Consumers with the same filters want the same messages.
        wanted_per_s: dict[tuple[str, ...], float] = {}
        for row, config in zip(self.consumer_rows, consumers, strict=True):
            key = self.state.consumers.roster.keys[row]
            past = Past(self.state.consumer_history, key, row)
            names = ("delivered_consumer_seq", "pending_msgs")
            rates = [_per_s(past.values(name, DROPPED_WINDOW_S)) for name in names]
            if None in rates:
                return None
            per_s = sum(rate or 0.0 for rate in rates)
            wanted_per_s[config.filter_subjects] = max(
                per_s, wanted_per_s.get(config.filter_subjects, 0.0)
            )
        return came_per_s - sum(wanted_per_s.values())

    @stream_fact("msgs", needs="two polls")
    def published_alone_msgs(self) -> int | None:
        """Messages that an interest stream got since it was seen without a consumer."""
        alone = self._memory.alone.get(self.key)
        if alone is None:
            return None
        # A stream that was restored may be at a lower sequence than before.
        return max(0, self.columns.last_seq[self.row] - alone.last_seq)

    @property
    def alone_since_us(self) -> int | None:
        """Since when an interest stream was seen without a consumer, UTC."""
        alone = self._memory.alone.get(self.key)
        return None if alone is None else alone.at_us

    @stream_fact("msgs", needs="three polls")
    def differing_msgs(self) -> int | None:
        """By how many messages a replica differs from the leader, the same in three polls."""
        run = self._memory.differing.get(self.key)
        if run is None or run.polls_count < REPLICAS_POLLS or len(set(run.newest_msgs)) > 1:
            return None
        return run.lowest_msgs

    @stream_fact("s")
    def moving_s(self) -> float | None:
        """Since a move or scale began that is not done (cluster.desired)."""
        desired = self.columns.desired[self.row]
        return None if desired is None else (self.at_us - desired.created_at_us) / _US

    @stream_fact("count", needs="subject counts")
    def full_subjects_count(self) -> int | None:
        """Subjects that have as many messages as they may have."""
        counts, config = self.counted, self.config
        if counts is None or config is None or not config.max_msgs_per_subject:
            return None
        return sum(n >= config.max_msgs_per_subject for n in counts.msgs_by_subject.values())

    @stream_fact("count", needs="subject counts")
    def objects_without_meta_count(self) -> int | None:
        """Objects of an object store that have chunks and no meta entry, at least so many."""
        counts = self.counted
        if counts is None or counts.subjects_count != len(counts.msgs_by_subject):
            return None
        kinds = [subject.split(".")[2:3] for subject in counts.msgs_by_subject]
        return max(0, kinds.count(["C"]) - kinds.count(["M"]))

    @stream_fact("count", window_s=PILE_UP_S)
    def unused_new_consumers_count(self) -> int:
        """Consumers that were created lately and that no client uses."""
        columns, now_us, count = self.state.consumers.columns, self.at_us, 0
        waiting, bound, created = (
            columns.waiting_pulls_count, columns.push_bound, columns.created_at_us,
        )  # fmt: skip
        delivered = columns.delivered_at_us
        from_us = now_us - round(PILE_UP_S * _US)
        for row in self.consumer_rows:
            if created[row] < from_us or waiting[row] or bound[row]:
                continue
            recent_us = delivered[row]
            if recent_us is None or now_us - recent_us > 10 * _US:
                count += 1
        return count

    @stream_fact("count", needs="two polls")
    def left_consumers_count(self) -> int:
        """Consumers that are not durable and that no client uses any more."""
        columns, keys = self.state.consumers.columns, self.state.consumers.roster.keys
        configurations, count = self.state.consumer_configurations, 0
        if self.name not in self.state.findings.seat.with_ephemerals:
            return 0
        for row in self.consumer_rows:
            config = configurations.get((self.name, columns.name[row]))
            if config is None or config.durable:
                continue
            pace = self._memory.pulls.get(keys[row])
            may_pause_s = pace.allowed_gap_s if pace and config.pull else NO_SUBSCRIBER_S
            count += unused_s(columns, row, pace, self.at_us) > may_pause_s
        return count

    @stream_fact("s", needs="two polls")
    def full_in_s(self) -> float | None:
        """Until a limit is reached at the present trend."""
        config = self.config
        if config is None:
            return None
        columns, row = self.columns, self.row
        fill = Fill(columns.stored_msgs[row], columns.stored_bytes[row],
                    config.max_msgs, config.max_bytes)  # fmt: skip
        return stream_full_in_s(self.state.stream_history, self.key, fill)


def _per_s(values: list[tuple[int, int]]) -> float | None:
    """Return how much a number grew a second; None while nothing earlier is known."""
    (now_us, now), (from_us, before) = values[0], values[-1]
    return (now - before) * _US / (now_us - from_us) if now_us > from_us else None
