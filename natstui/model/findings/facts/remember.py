"""Updates the data that rules need beyond the history, once per poll. Pure functions.

`update_memory` compares the rows of the previous poll with the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.findings.facts.memory import (
    ClientActivity,
    ConsumerlessStart,
    MessageLoss,
    MissingMessages,
    PollsAboveZero,
    PreviousRows,
    Purge,
    RowName,
    RuleMemory,
    SteadyPublishing,
)
from natstui.model.findings.facts.row import settings_of
from natstui.model.findings.thresholds import (
    DELETION_REPORTED_S,
    LONGEST_PULL_GAP_DECAY_SHARE,
    LOST_MSGS_REPORTED_S,
    MIN_ORPHANED_POLLS,
    RECREATIONS_WINDOW_S,
    STEADY_PUBLISHER_GAP_S,
)
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.limits import is_near_limit
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.state import State
from natstui.model.servers.replicas import has_lost_leader_contact
from natstui.values import replace

_US_PER_S = 1_000_000
_MAX_SERVER_CLOCK_DIFFERENCE_US = 20_000
"""Maximum difference of the clocks of the servers of two rows."""
_MIN_UNPOLLED_US = 60 * _US_PER_S
"""Minimum time without a poll of a row that counts as an absence of natstui."""
_MAX_CLOCK_DIFFERENCE_US = 30 * _US_PER_S
"""Maximum difference of a server's clock from the current clock, while nothing is stored."""


def update_memory(
    memory: RuleMemory,
    before: PreviousRows | None,
    state: State,
    consumer_rows: Iterable[int],
    stream_rows: Iterable[int],
) -> RuleMemory:
    """Return the data that is kept after a poll.

    `consumer_rows` and `stream_rows` are the rows that the poll refreshed; `before` are the rows
    of the previous poll, None at the first.
    """
    consumer_rows, stream_rows = list(consumer_rows), list(stream_rows)
    current_memory = _drop_deleted_rows(memory, before, state)
    client_activity = _update_client_activity(
        current_memory.client_activity, before, state, consumer_rows
    )
    stream_updater = _StreamMemoryUpdater(current_memory, before, state)
    for row in stream_rows:
        stream_updater.update(row)
    losses = _update_losses(
        current_memory.losses, before, state, consumer_rows, stream_updater.first_seq_rises
    )
    return RuleMemory(
        client_activity, losses, stream_updater.steady_publishing, stream_updater.purges,
        stream_updater.missing_messages,
        stream_updater.orphans,
        stream_updater.differing_replicas, stream_updater.consumerless,
        *_update_recreated_consumers(current_memory, before, state),
        *_update_recreated_streams(current_memory, before, state),
    )  # fmt: skip


def _drop_deleted_rows(
    memory: RuleMemory, before: PreviousRows | None, state: State
) -> RuleMemory:
    """Return the kept data without that of deleted streams and consumers."""
    if before is None:
        return memory
    if before.consumers is not state.consumers.roster:
        existing_keys = state.consumers.roster.row_of
        memory = replace(
            memory,
            client_activity={
                key: fact for key, fact in memory.client_activity.items() if key in existing_keys
            },
            losses={key: fact for key, fact in memory.losses.items() if key in existing_keys},
        )
    if before.streams is not state.streams.roster:
        existing_keys = state.streams.roster.row_of
        memory = replace(
            memory,
            steady_publishing={
                key: fact for key, fact in memory.steady_publishing.items() if key in existing_keys
            },
            purges={key: fact for key, fact in memory.purges.items() if key in existing_keys},
            missing_messages={
                key: fact for key, fact in memory.missing_messages.items() if key in existing_keys
            },
            orphans={key: fact for key, fact in memory.orphans.items() if key in existing_keys},
            differing_replicas={
                key: fact
                for key, fact in memory.differing_replicas.items()
                if key in existing_keys
            },
            consumerless={
                key: fact for key, fact in memory.consumerless.items() if key in existing_keys
            },
        )
    return memory


def _sampled_at_us(state: State, mono_us: int) -> int:
    return state.now_at_us - max(0, state.now_mono_us - mono_us)


def _update_client_activity(
    known_activity: Mapping[RowKey, ClientActivity],
    before: PreviousRows | None,
    state: State,
    rows: list[int],
) -> Mapping[RowKey, ClientActivity]:
    """Return consumer → activity of its clients, updated by new pull requests and deliveries.

    An activity stays unchanged while a pull request is open at each poll.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    waiting_pulls, push_bound = columns.waiting_pulls_count, columns.push_bound
    delivered = columns.delivered_consumer_seq
    if before is None:
        return _create_initial_activity(state, rows)
    columns_before, old_row_of = before.consumer_columns, before.consumers.row_of
    is_same_roster = before.consumers is state.consumers.roster
    max_poll_interval_us = _max_poll_interval_us(state)
    # The clock of the engine restarts with its host.
    was_clock_restarted = any(poll.mono_us > state.now_mono_us for poll in state.costs)
    changed_activity: dict[RowKey, ClientActivity] = {}
    for row in rows:
        key = keys[row]
        row_before = row if is_same_roster else old_row_of.get(key)
        if row_before is None:
            changed_activity |= _create_initial_activity(state, [row])
            continue
        had_client = (
            columns_before.waiting_pulls_count[row_before] > 0
            or columns_before.push_bound[row_before]
        )
        has_client = waiting_pulls[row] > 0 or push_bound[row]
        if has_client and had_client and not was_clock_restarted:
            continue
        activity, mono_us = known_activity.get(key), columns.sampled_mono_us[row]
        mono_before_us = columns_before.sampled_mono_us[row_before]
        unpolled_us = mono_us - mono_before_us
        seen_before_us = min(mono_before_us, mono_us) if had_client else 0
        if not 0 <= unpolled_us <= max_poll_interval_us:
            # Whether clients paused meanwhile is unknown: this time does not count.
            mono_before_us = mono_us
            if activity is not None:
                activity = changed_activity[key] = replace(
                    activity,
                    first_mono_us=activity.first_mono_us + unpolled_us,
                    last_active_mono_us=activity.last_active_mono_us + unpolled_us,
                    last_seen_mono_us=activity.last_seen_mono_us + min(0, unpolled_us),
                    polled_since_mono_us=mono_us,
                )
        has_delivered = delivered[row] != columns_before.delivered_consumer_seq[row_before]
        if not (has_client or had_client or has_delivered):
            continue
        delivered_mono_us = _delivered_mono_us(state, row) or 0
        last_seen_mono_us = mono_us if has_client else max(seen_before_us, delivered_mono_us)
        last_active_mono_us = (
            mono_us if has_client else max(mono_before_us if had_client else 0, delivered_mono_us)
        )
        if activity is None:
            changed_activity[key] = ClientActivity(
                last_active_mono_us, last_active_mono_us, last_seen_mono_us
            )
            continue
        gap_us = 0 if had_client else max(0, last_active_mono_us - activity.last_active_mono_us)
        decayed_longest_us = (
            round(activity.longest_gap_us * LONGEST_PULL_GAP_DECAY_SHARE)
            if gap_us
            else activity.longest_gap_us
        )
        longest_us = max(gap_us, decayed_longest_us)
        gaps_count = activity.gaps_count + (1 if gap_us else 0)
        last_active_mono_us = max(last_active_mono_us, activity.last_active_mono_us)
        changed_activity[key] = ClientActivity(
            activity.first_mono_us, last_active_mono_us,
            max(last_seen_mono_us, activity.last_seen_mono_us), gaps_count, longest_us,
            activity.polled_since_mono_us,
        )  # fmt: skip
    return {**known_activity, **changed_activity} if changed_activity else known_activity


def _max_poll_interval_us(state: State) -> int:
    """Return the time between two polls of a row above which natstui did not poll as planned."""
    # If the interval was changed since the previous poll, either may be that between the two.
    costs = [poll.cost for poll in state.costs[-2:]]
    planned_us = max((max(cost.interval_us, cost.round_us or 0) for cost in costs), default=0)
    return max(_MIN_UNPOLLED_US, 3 * planned_us)


def _delivered_mono_us(state: State, row: int) -> int | None:
    """Return the time of the last delivery on the engine's clock, not after the poll.

    None if the server does not know it.
    """
    columns = state.consumers.columns
    delivered_at_us, mono_us = columns.delivered_at_us[row], columns.sampled_mono_us[row]
    if delivered_at_us is None:
        return None
    return mono_us - max(0, _sampled_at_us(state, mono_us) - delivered_at_us)


def _create_initial_activity(state: State, rows: Iterable[int]) -> dict[RowKey, ClientActivity]:
    """Return key of a consumer → the activity of its clients after its first poll.

    A consumer has none without an open pull request, a push subscriber or a delivery.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    initial_activity = {}
    for row in rows:
        active_mono_us = _delivered_mono_us(state, row)
        if columns.waiting_pulls_count[row] or columns.push_bound[row]:
            active_mono_us = columns.sampled_mono_us[row]
        if active_mono_us is not None:
            initial_activity[keys[row]] = ClientActivity(*3 * (active_mono_us,))
    return initial_activity


class _FirstSeqRise(NamedTuple):
    """The rise of a stream's first sequence between two polls."""

    old_first_seq: int
    first_seq: int
    is_explained_by_limit: bool


class _StreamMemoryUpdater:
    """Updates the data about streams that is kept from poll to poll, row by row."""

    def __init__(self, memory: RuleMemory, before: PreviousRows | None, state: State) -> None:
        self._state = state
        self._previous_rows = before
        self.steady_publishing = dict(memory.steady_publishing)
        self.purges = dict(memory.purges)
        self.missing_messages = dict(memory.missing_messages)
        self.orphans = dict(memory.orphans)
        self.differing_replicas = dict(memory.differing_replicas)
        self.consumerless = dict(memory.consumerless)
        self.first_seq_rises: dict[str, _FirstSeqRise] = {}
        """Stream → the rise of its first sequence since the previous poll."""

    def update(self, row: int) -> None:
        """Update the data about the stream in `row` by a comparison with the previous poll."""
        state, before = self._state, self._previous_rows
        columns, key = state.streams.columns, state.streams.roster.keys[row]
        if columns.leader[row] is None:
            return
        if before is None:
            row_before = None
        else:
            is_same_roster = before.streams is state.streams.roster
            row_before = row if is_same_roster else before.streams.row_of.get(key)
        at_us = _sampled_at_us(state, columns.sampled_mono_us[row])
        config = state.stream_configurations.get(str(key[0]))
        if config is not None and config.retention == "workqueue":
            _update_polls_above_zero(
                self.orphans, key, estimate_orphaned_msgs(state, row, before), at_us
            )
        if config is not None and config.retention == "interest":
            if columns.consumers_count[row]:
                self.consumerless.pop(key, None)
            else:
                self.consumerless.setdefault(key, ConsumerlessStart(columns.last_seq[row], at_us))
        if row_before is None or before is None:
            self._start_steady_publishing(row, key)
            return
        columns_before = before.stream_columns
        if columns.replicas[row]:
            _update_polls_above_zero(
                self.differing_replicas,
                key,
                find_replica_difference_msgs(state, row, columns_before, row_before),
                at_us,
            )
        self._update_steady_publishing(
            row, key, has_new_messages=columns.last_seq[row] > columns_before.last_seq[row_before]
        )
        before_us = _sampled_at_us(state, columns_before.sampled_mono_us[row_before])
        if config is not None and _removes_only_first(config):
            self._add_missing_messages(
                key,
                columns.deleted_msgs[row] - columns_before.deleted_msgs[row_before],
                before_us,
                at_us,
            )
        risen_seqs = columns.first_seq[row] - columns_before.first_seq[row_before]
        if (
            risen_seqs > 0
            and columns_before.stored_msgs[row_before]
            and columns_before.first_seq[row_before]
        ):
            is_explained_by_limit = _is_removal_explained_by_limit(
                state, row, columns_before, row_before, at_us
            )
            self.first_seq_rises[str(key[0])] = _FirstSeqRise(
                columns_before.first_seq[row_before],
                columns.first_seq[row],
                is_explained_by_limit,
            )
            removed_msgs = columns_before.stored_msgs[row_before] - columns.stored_msgs[row]
            removed_msgs += max(0, columns.last_seq[row] - columns_before.last_seq[row_before])
            has_limits_retention = config is not None and config.retention == "limits"
            if has_limits_retention and not is_explained_by_limit and removed_msgs > 0:
                self.purges[key] = Purge(removed_msgs, at_us, columns.first_seq[row])
                self._add_missing_messages(key, removed_msgs, before_us, at_us)

    def _add_missing_messages(
        self, key: RowKey, msgs: int, present_at_us: int, at_us: int
    ) -> None:
        """Store that `msgs` of a stream, present at `present_at_us`, are missing at `at_us`.

        Within 5 min of the last report, store only the time.
        """
        if msgs <= 0:
            return
        missing = self.missing_messages.get(key)
        if missing is None or at_us - missing.latest_at_us > LOST_MSGS_REPORTED_S * _US_PER_S:
            self.missing_messages[key] = MissingMessages(msgs, present_at_us, at_us, at_us)
        else:
            self.missing_messages[key] = replace(missing, latest_at_us=at_us)

    def _start_steady_publishing(self, row: int, key: RowKey) -> None:
        at_us = self._state.streams.columns.last_at_us[row]
        if at_us is not None:
            self.steady_publishing[key] = SteadyPublishing(at_us, at_us)

    def _update_steady_publishing(self, row: int, key: RowKey, *, has_new_messages: bool) -> None:
        columns = self._state.streams.columns
        at_us, mono_us = columns.last_at_us[row], columns.sampled_mono_us[row]
        if not has_new_messages or at_us is None:
            return
        publishing = self.steady_publishing.get(key)
        max_gap_us = STEADY_PUBLISHER_GAP_S * _US_PER_S
        if publishing is None or at_us - publishing.stored_at_us > max_gap_us:
            self.steady_publishing[key] = SteadyPublishing(at_us, at_us, polled_mono_us=mono_us)
            return
        longest_us = max(publishing.longest_gap_us, at_us - publishing.stored_at_us)
        self.steady_publishing[key] = SteadyPublishing(
            publishing.steady_since_us, at_us, longest_us, mono_us
        )


def _update_polls_above_zero(
    polls_by_key: dict[RowKey, PollsAboveZero], key: RowKey, msgs: int | None, at_us: int
) -> None:
    """Add a poll with `msgs` messages to the consecutive polls with more than 0 messages.

    A poll with 0 messages ends them; after enough polls for a report, only several such polls do.
    """
    polls = polls_by_key.get(key)
    if msgs is None or (msgs <= 0 and polls is None):
        return
    if polls is not None and msgs <= 0:
        zero_polls_count = polls.newest_zero_polls_count + 1
        if polls.polls_count < MIN_ORPHANED_POLLS or zero_polls_count >= MIN_ORPHANED_POLLS:
            del polls_by_key[key]
        else:
            polls_by_key[key] = replace(polls, newest_zero_polls_count=zero_polls_count)
        return
    polls = polls or PollsAboveZero(0, 0, at_us)
    newest_msgs = (*polls.newest_msgs[-2:], msgs)
    polls_by_key[key] = PollsAboveZero(
        polls.polls_count + 1, min(newest_msgs), polls.since_at_us, newest_msgs
    )


def _is_removal_explained_by_limit(
    state: State, row: int, columns_before: StreamColumns, row_before: int, at_us: int
) -> bool:
    """Return whether a limit of the stream explains the removal of its first messages."""
    columns = state.streams.columns
    config = state.stream_configurations.get(columns.name[row])
    if config is None:
        return True
    if is_near_limit(columns.stored_msgs[row], config.max_msgs):
        return True
    if is_near_limit(columns.stored_bytes[row], config.max_bytes):
        return True
    if settings_of(config.config_json).get("allow_msg_ttl"):
        return True
    # A new message replaces one of its subject, so the number does not decrease.
    if (
        config.max_msgs_per_subject
        and columns.stored_msgs[row] >= columns_before.stored_msgs[row_before]
    ):
        return True
    first_at_us = columns_before.first_at_us[row_before]
    if config.max_age_ns and first_at_us is not None:
        max_age_us, difference_us = config.max_age_ns // 1000, 2 * _US_PER_S
        last_at_us = columns.last_at_us[row]
        if last_at_us is not None and columns.last_seq[row] > columns_before.last_seq[row_before]:
            # Since the previous poll, the server stored a message with this time of its clock.
            before_us = _sampled_at_us(state, columns_before.sampled_mono_us[row_before])
            at_us = max(at_us, last_at_us + at_us - before_us)
        else:
            difference_us = max(difference_us, min(_MAX_CLOCK_DIFFERENCE_US, max_age_us // 2))
        return at_us - first_at_us >= max_age_us - difference_us
    return False


def estimate_orphaned_msgs(state: State, row: int, before: PreviousRows | None) -> int | None:
    """Return the estimated number of work queue messages that match no consumer.

    The replies of stream and consumers are of different times, so twice the messages stored and
    acked in between are subtracted. None unless all consumers are known.
    """
    streams, consumers = state.streams.columns, state.consumers.columns
    name = streams.name[row]
    rows = state.consumers.roster.rows_of_stream.get(name, ())
    if len(rows) != streams.consumers_count[row]:
        return None
    pending, unacked = consumers.pending_msgs, consumers.ack_pending_msgs
    waiting_msgs = sum(pending[consumer_row] + unacked[consumer_row] for consumer_row in rows)
    row_before = (
        None if before is None else before.streams.row_of.get(state.streams.roster.keys[row])
    )
    if before is None or row_before is None:
        return streams.stored_msgs[row] - waiting_msgs
    columns_before, row_of = before.consumer_columns, before.consumers.row_of
    stored_and_acked_msgs = max(
        0, streams.last_seq[row] - before.stream_columns.last_seq[row_before]
    )
    max_reply_distance_us = 0
    for consumer_row in rows:
        consumer_row_before = row_of.get(state.consumers.roster.keys[consumer_row])
        max_reply_distance_us = max(
            max_reply_distance_us,
            abs(consumers.sampled_mono_us[consumer_row] - streams.sampled_mono_us[row]),
        )
        if consumer_row_before is not None:
            acked_msgs = (
                consumers.ack_floor_consumer_seq[consumer_row]
                - columns_before.ack_floor_consumer_seq[consumer_row_before]
            )
            stored_and_acked_msgs += max(0, acked_msgs)
    poll_interval_us = (
        streams.sampled_mono_us[row] - before.stream_columns.sampled_mono_us[row_before]
    )
    interval_share = (
        min(1.0, (max_reply_distance_us + _MAX_SERVER_CLOCK_DIFFERENCE_US) / poll_interval_us)
        if poll_interval_us > 0
        else 1.0
    )
    return (
        streams.stored_msgs[row] - waiting_msgs - round(2 * interval_share * stored_and_acked_msgs)
    )


def find_replica_difference_msgs(
    state: State, row: int, columns_before: StreamColumns, row_before: int
) -> int | None:
    """Return the largest difference between a replica and its leader in messages; None if unknown.

    `columns_before` and `row_before` are the previous poll and the row in it. As replies are of
    different times, an unchanged leader is compared with all replicas, a changed leader only with
    replicas that have its last message, and only if just a limit of messages or bytes deletes
    earlier messages.
    """
    columns = state.streams.columns
    leader_values = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    is_leader_unchanged = leader_values == (
        columns_before.first_seq[row_before],
        columns_before.last_seq[row_before],
        columns_before.stored_msgs[row_before],
    )
    current_replica_names = {
        peer.name
        for peer in columns.peers[row]
        if peer.current and not peer.lag_msgs and not has_lost_leader_contact(peer)
    }
    max_msgs = None
    for replica in columns.replicas[row]:
        if replica.name not in current_replica_names or not (
            is_leader_unchanged or replica.last_seq == leader_values[1]
        ):
            continue
        replica_values = replica.first_seq, replica.last_seq, replica.stored_msgs
        if replica_values == leader_values:
            max_msgs = max_msgs or 0
        elif is_leader_unchanged or _removes_only_by_size(
            state.stream_configurations.get(columns.name[row])
        ):
            difference_msgs = max(
                abs(value - leader_value)
                for value, leader_value in zip(replica_values, leader_values, strict=True)
            )
            max_msgs = max(max_msgs or 0, difference_msgs)
    return max_msgs


def _removes_only_by_size(config: StreamConfiguration | None) -> bool:
    """Return whether a stream's deletions depend only on its messages, not on time or acks."""
    if config is None or config.retention != "limits" or config.max_age_ns:
        return False
    return not settings_of(config.config_json).get("allow_msg_ttl")


def _removes_only_first(config: StreamConfiguration) -> bool:
    """Return whether a stream deletes only its first messages, unless a user deletes others."""
    settings = settings_of(config.config_json)
    has_other_removals = settings.get("allow_msg_ttl") or settings.get("allow_rollup_hdrs")
    return config.retention == "limits" and not (config.max_msgs_per_subject or has_other_removals)


def _update_losses(
    known_losses: Mapping[RowKey, MessageLoss],
    before: PreviousRows | None,
    state: State,
    rows: list[int],
    first_seq_rises: Mapping[str, _FirstSeqRise],
) -> Mapping[RowKey, MessageLoss]:
    """Return the lost messages of consumers, updated by the rises of streams' first sequences."""
    now_us = state.now_at_us
    expired_keys = [
        key
        for key, loss in known_losses.items()
        if now_us - loss.at_us > LOST_MSGS_REPORTED_S * _US_PER_S
    ]
    if not first_seq_rises and not expired_keys:
        return known_losses
    losses = {key: loss for key, loss in known_losses.items() if key not in expired_keys}
    if before is None or not first_seq_rises:
        return losses
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    refreshed_rows = set(rows)
    for stream, (old_first_seq, first_seq, is_explained_by_limit) in first_seq_rises.items():
        config = state.stream_configurations.get(stream)
        if config is None or config.max_msgs_per_subject:
            continue
        has_limits_retention = config.retention == "limits"
        if not has_limits_retention and not is_explained_by_limit:
            # Acks remove its first messages, or a user did.
            continue
        for row in state.consumers.roster.rows_of_stream.get(stream, ()):
            row_before = before.consumers.row_of.get(keys[row])
            if row not in refreshed_rows or row_before is None:
                continue
            name = (columns.stream[row], columns.name[row])
            consumer = state.consumer_configurations.get(name)
            if consumer is None:
                continue
            config_before = before.consumer_settings.get(name, consumer)
            received_msgs = (
                columns.delivered_consumer_seq[row]
                - before.consumer_columns.delivered_consumer_seq[row_before]
            )
            if consumer.filter_subjects != config_before.filter_subjects or received_msgs < 0:
                # A user changed the filter, or reset the consumer: other messages are pending.
                continue
            if not has_limits_retention:
                msgs = _count_deleted_pending_msgs(
                    state, row, before, row_before, bool(consumer.filter_subjects)
                )
            elif consumer.filter_subjects:
                msgs = _count_deleted_matching_msgs(
                    columns, row, before.consumer_columns, row_before
                )
            else:
                msgs = _count_removed_before_delivery(columns, row, before.consumer_columns,
                                                      row_before,
                                                old_first_seq, first_seq)  # fmt: skip
            delivered_seq = before.consumer_columns.delivered_stream_seq[row_before]
            # Only messages after the last delivered one are pending.
            msgs = min(msgs, first_seq - 1 - delivered_seq)
            if msgs <= 0:
                continue
            earlier_loss = losses.get(keys[row])
            if earlier_loss is not None and earlier_loss.is_purge and is_explained_by_limit:
                # What the user purged is not lost.
                earlier_loss = None
            if earlier_loss is not None and not (earlier_loss.is_purge or is_explained_by_limit):
                # A purge adds nothing to what a limit removed.
                continue
            from_seq = max(delivered_seq + 1, old_first_seq)
            losses[keys[row]] = MessageLoss(
                msgs + (earlier_loss.lost_msgs if earlier_loss else 0),
                now_us,
                earlier_loss.since_at_us if earlier_loss else now_us,
                earlier_loss.first_seq if earlier_loss else from_seq,
                first_seq - 1,
                not is_explained_by_limit,
                earlier_loss.counted_since_us
                if earlier_loss
                else _sampled_at_us(state, before.consumer_columns.sampled_mono_us[row_before]),
            )
    return losses


def _count_removed_before_delivery(
    columns: ConsumerColumns,
    row: int,
    columns_before: ConsumerColumns,
    row_before: int,
    old_first_seq: int,
    first_seq: int,
) -> int:
    """Return the number of messages deleted between two polls before the consumer received them.

    Counted are removed sequences beyond its last delivery, and sequences it passed undelivered.
    """
    delivered = columns.delivered_stream_seq[row]
    if not delivered and not columns_before.delivered_stream_seq[row_before]:
        return 0
    waiting_msgs = first_seq - 1 - max(delivered, old_first_seq - 1)
    from_seq = max(columns_before.delivered_stream_seq[row_before], old_first_seq - 1)
    passed_seqs = min(delivered, first_seq - 1) - from_seq
    received_msgs = (
        columns.delivered_consumer_seq[row] - columns_before.delivered_consumer_seq[row_before]
    )
    skipped_msgs = passed_seqs - received_msgs if passed_seqs > 0 else 0
    return max(0, waiting_msgs) + max(0, skipped_msgs)


def _count_deleted_matching_msgs(
    columns: ConsumerColumns, row: int, columns_before: ConsumerColumns, row_before: int
) -> int:
    """Return the minimum number of a filtered consumer's pending messages that were deleted.

    Matching messages stored between the two polls are unknown, and make the number too low.
    """
    received_msgs = (
        columns.delivered_consumer_seq[row] - columns_before.delivered_consumer_seq[row_before]
    )
    return columns_before.pending_msgs[row_before] - columns.pending_msgs[row] - received_msgs


def _count_deleted_pending_msgs(
    state: State, row: int, before: PreviousRows, row_before: int, is_filtered: bool
) -> int:
    """Return the minimum number of a consumer's pending messages that were deleted.

    Acks delete the first messages of the stream, so pending counts are compared, not sequences.
    Without filters, messages stored between the two polls are added, less twice those that may
    have been stored between the replies of stream and consumer.
    """
    consumers, streams = state.consumers.columns, state.streams.columns
    deleted_pending_msgs = _count_deleted_matching_msgs(
        consumers, row, before.consumer_columns, row_before
    )
    if is_filtered:
        return deleted_pending_msgs
    stream_row = state.streams.roster.rows_of_stream[consumers.stream[row]][-1]
    stream_row_before = before.streams.row_of.get(state.streams.roster.keys[stream_row])
    if stream_row_before is None:
        return deleted_pending_msgs
    stored_msgs = streams.last_seq[stream_row] - before.stream_columns.last_seq[stream_row_before]
    poll_interval_us = (
        streams.sampled_mono_us[stream_row]
        - before.stream_columns.sampled_mono_us[stream_row_before]
    )
    reply_distance_us = abs(consumers.sampled_mono_us[row] - streams.sampled_mono_us[stream_row])
    interval_share = (
        min(1.0, (reply_distance_us + _MAX_SERVER_CLOCK_DIFFERENCE_US) / poll_interval_us)
        if poll_interval_us > 0
        else 1.0
    )
    return deleted_pending_msgs + stored_msgs - round(2 * interval_share * max(0, stored_msgs))


def _update_recreated_consumers(
    memory: RuleMemory, before: PreviousRows | None, state: State
) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[RowName, int]]:
    """Return the times (UTC) of recreated, and of deleted, consumers within the last minute."""
    from_us = state.now_at_us - round(RECREATIONS_WINDOW_S * _US_PER_S)
    recreated_at_us = {
        name: tuple(at_us for at_us in times if at_us >= from_us)
        for name, times in memory.recreated_at_us.items()
        if times[-1] >= from_us
    }
    deleted_at_us = {
        name: at_us for name, at_us in memory.deleted_at_us.items() if at_us >= from_us
    }
    if before is not None and before.consumers is not state.consumers.roster:
        for name in _find_recreated_names(
            deleted_at_us, before.consumers, state.consumers.roster, state
        ):
            stream, consumer = str(name[0]), str(name[1])
            recreated_at_us[stream, consumer] = (
                *recreated_at_us.get((stream, consumer), ()),
                state.now_at_us,
            )
    return recreated_at_us, deleted_at_us


def _update_recreated_streams(
    memory: RuleMemory, before: PreviousRows | None, state: State
) -> tuple[Mapping[str, int], Mapping[RowName, int]]:
    """Return the times (UTC) of recreated, and of deleted, streams within the last 5 minutes."""
    from_us = state.now_at_us - round(DELETION_REPORTED_S * _US_PER_S)
    recreated_at_us, deleted_at_us = memory.streams_recreated_at_us, memory.streams_deleted_at_us
    recreated_at_us = {name: at_us for name, at_us in recreated_at_us.items() if at_us >= from_us}
    deleted_at_us = {name: at_us for name, at_us in deleted_at_us.items() if at_us >= from_us}
    if before is not None and before.streams is not state.streams.roster:
        names = _find_recreated_names(deleted_at_us, before.streams, state.streams.roster, state)
        recreated_at_us |= {str(name[0]): state.now_at_us for name in names}
    return recreated_at_us, deleted_at_us


def _find_recreated_names(
    deleted_at_us: dict[RowName, int], before: Roster, after: Roster, state: State
) -> list[RowName]:
    """Return the names of recreated streams or consumers, and update `deleted_at_us`."""
    deleted_at_us |= {key[:-1]: state.now_at_us for key in before.keys if key not in after.row_of}
    if not deleted_at_us:
        return []
    new_names = [key[:-1] for key in after.keys if key not in before.row_of]
    return [name for name in new_names if deleted_at_us.pop(name, None) is not None]
