"""Updates the data that rules need beyond the history, once per poll. Pure functions.

`update_memory` compares the rows of the previous poll with the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.findings.facts.memory import (
    Loss,
    Memory,
    MissingMessages,
    Name,
    PositiveRun,
    PreviousRows,
    PullPace,
    Purge,
    StoreFlow,
    WithoutConsumers,
)
from natstui.model.findings.facts.row import settings_of
from natstui.model.findings.thresholds import (
    DELETED_KEPT_S,
    LOST_KEPT_S,
    MIN_ORPHANED_POLLS,
    PACE_FORGET_SHARE,
    RECREATIONS_WINDOW_S,
    STEADY_GAP_S,
)
from natstui.model.live.limits import is_near
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.state import State
from natstui.model.live.table import Key, Roster
from natstui.model.servers.replicas import is_away

_US = 1_000_000
_CLOCKS_US = 20_000
"""Maximum difference of the clocks of the servers of two rows."""


def update_memory(
    memory: Memory,
    before: PreviousRows | None,
    state: State,
    consumer_rows: Iterable[int],
    stream_rows: Iterable[int],
) -> Memory:
    """Return the memory after a poll.

    `consumer_rows` and `stream_rows` are the rows that the poll refreshed; `before` are the rows
    of the previous poll, None at the first.
    """
    consumer_rows, stream_rows = list(consumer_rows), list(stream_rows)
    current_memory = _drop_deleted(memory, before, state)
    pulls = _update_paces(current_memory.pulls, before, state, consumer_rows)
    stream_memory = _StreamMemory(current_memory, before, state)
    for row in stream_rows:
        stream_memory.update(row)
    losses = _update_losses(
        current_memory.losses, before, state, consumer_rows, stream_memory.raised_first_seqs
    )
    return Memory(
        pulls, losses, stream_memory.flows, stream_memory.purges, stream_memory.missing_messages,
        stream_memory.orphans,
        stream_memory.differing_replicas, stream_memory.consumerless,
        *_update_recreated_consumers(current_memory, before, state),
        *_update_recreated_streams(current_memory, before, state),
    )  # fmt: skip


def _drop_deleted(memory: Memory, before: PreviousRows | None, state: State) -> Memory:
    """Return the memory without the data of deleted streams and consumers."""
    if before is None:
        return memory
    if before.consumers is not state.consumers.roster:
        existing_keys = state.consumers.roster.row_of
        memory = replace(
            memory,
            pulls={key: fact for key, fact in memory.pulls.items() if key in existing_keys},
            losses={key: fact for key, fact in memory.losses.items() if key in existing_keys},
        )
    if before.streams is not state.streams.roster:
        existing_keys = state.streams.roster.row_of
        memory = replace(
            memory,
            flows={key: fact for key, fact in memory.flows.items() if key in existing_keys},
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


def _sample_time_us(state: State, mono_us: int) -> int:
    return state.now_at_us - max(0, state.now_mono_us - mono_us)


def _update_paces(
    known_paces: Mapping[Key, PullPace], before: PreviousRows | None, state: State, rows: list[int]
) -> Mapping[Key, PullPace]:
    """Return the paces of clients, updated by new pull requests and deliveries.

    While a pull request is open at each poll, the pace stays; it is updated when none is open.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    waiting, bound = columns.waiting_pulls_count, columns.push_bound
    delivered = columns.delivered_consumer_seq
    if before is None:
        return _create_initial_paces(state, rows)
    columns_before, old_row_of = before.consumer_columns, before.consumers.row_of
    is_same_roster = before.consumers is state.consumers.roster
    changed_paces: dict[Key, PullPace] = {}
    for row in rows:
        key = keys[row]
        row_before = row if is_same_roster else old_row_of.get(key)
        if row_before is None:
            changed_paces |= _create_initial_paces(state, [row])
            continue
        was_served = (
            columns_before.waiting_pulls_count[row_before] > 0
            or columns_before.push_bound[row_before]
        )
        is_served = waiting[row] > 0 or bound[row]
        if is_served and was_served:
            continue
        has_delivered = delivered[row] != columns_before.delivered_consumer_seq[row_before]
        if not (is_served or was_served or has_delivered):
            continue
        at_us = _sample_time_us(state, columns.sampled_mono_us[row])
        seen_at_us = (
            at_us if is_served else _seen_at_us(columns, row, columns_before, row_before, state)
        )
        pace = known_paces.get(key)
        if pace is None:
            changed_paces[key] = PullPace(seen_at_us, seen_at_us)
            continue
        gap_us = 0 if was_served else max(0, seen_at_us - pace.seen_at_us)
        lowered_us = (
            round(pace.longest_gap_us * PACE_FORGET_SHARE) if gap_us else pace.longest_gap_us
        )
        longest_us = max(gap_us, lowered_us)
        gaps_count = pace.gaps_count + (1 if gap_us else 0)
        seen_at_us = max(seen_at_us, pace.seen_at_us)
        changed_paces[key] = PullPace(pace.first_at_us, seen_at_us, gaps_count, longest_us)
    return {**known_paces, **changed_paces} if changed_paces else known_paces


def _seen_at_us(
    columns: ConsumerColumns,
    row: int,
    columns_before: ConsumerColumns,
    row_before: int,
    state: State,
) -> int:
    """Return the time of the clients' last activity, UTC, without an open pull request."""
    delivered_at_us = columns.delivered_at_us[row] or 0
    was_served = (
        columns_before.waiting_pulls_count[row_before] > 0 or columns_before.push_bound[row_before]
    )
    polled_at_us = (
        _sample_time_us(state, columns_before.sampled_mono_us[row_before]) if was_served else 0
    )
    return max(delivered_at_us, polled_at_us)


def _create_initial_paces(state: State, rows: Iterable[int]) -> dict[Key, PullPace]:
    """Return key of a consumer → the pace of its clients after its first poll.

    A consumer has none without an open pull request, a push subscriber or a delivery.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    paces = {}
    for row in rows:
        at_us = columns.delivered_at_us[row]
        if columns.waiting_pulls_count[row] or columns.push_bound[row]:
            at_us = _sample_time_us(state, columns.sampled_mono_us[row])
        if at_us is not None:
            paces[keys[row]] = PullPace(at_us, at_us)
    return paces


class _StreamMemory:
    """Updates the memory about streams, row by row."""

    def __init__(self, memory: Memory, before: PreviousRows | None, state: State) -> None:
        self._state = state
        self._before = before
        self.flows = dict(memory.flows)
        self.purges = dict(memory.purges)
        self.missing_messages = dict(memory.missing_messages)
        self.orphans = dict(memory.orphans)
        self.differing_replicas = dict(memory.differing_replicas)
        self.consumerless = dict(memory.consumerless)
        self.raised_first_seqs: dict[str, tuple[int, int, bool]] = {}
        """Stream → old and new first sequence, and whether a limit explains the rise."""

    def update(self, row: int) -> None:
        """Update the memory about the stream in `row`, compared with the previous poll."""
        state, before = self._state, self._before
        columns, key = state.streams.columns, state.streams.roster.keys[row]
        if columns.leader[row] is None:
            return
        if before is None:
            row_before = None
        else:
            is_same_roster = before.streams is state.streams.roster
            row_before = row if is_same_roster else before.streams.row_of.get(key)
        at_us = _sample_time_us(state, columns.sampled_mono_us[row])
        config = state.stream_configurations.get(str(key[0]))
        if config is not None and config.retention == "workqueue":
            _update_run(self.orphans, key, estimate_orphaned_msgs(state, row, before), at_us)
        if config is not None and config.retention == "interest":
            if columns.consumers_count[row]:
                self.consumerless.pop(key, None)
            else:
                self.consumerless.setdefault(key, WithoutConsumers(columns.last_seq[row], at_us))
        if row_before is None or before is None:
            self._start_flow(row, key)
            return
        columns_before = before.stream_columns
        if columns.replicas[row]:
            _update_run(
                self.differing_replicas,
                key,
                compare_replicas(state, row, columns_before, row_before),
                at_us,
            )
        self._update_flow(
            row, key, stored=columns.last_seq[row] > columns_before.last_seq[row_before]
        )
        before_us = _sample_time_us(state, columns_before.sampled_mono_us[row_before])
        if config is not None and _removes_only_first(config):
            self._add_missing(
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
            is_limit = _is_explained_by_limit(state, row, columns_before, row_before, at_us)
            self.raised_first_seqs[str(key[0])] = (
                columns_before.first_seq[row_before],
                columns.first_seq[row],
                is_limit,
            )
            removed_msgs = columns_before.stored_msgs[row_before] - columns.stored_msgs[row]
            removed_msgs += max(0, columns.last_seq[row] - columns_before.last_seq[row_before])
            has_limits_retention = config is not None and config.retention == "limits"
            if has_limits_retention and not is_limit and removed_msgs > 0:
                self.purges[key] = Purge(removed_msgs, at_us)
                self._add_missing(key, removed_msgs, before_us, at_us)

    def _add_missing(self, key: Key, msgs: int, before_us: int, at_us: int) -> None:
        """Store missing messages; during continued deletions, only the first ones."""
        if msgs <= 0:
            return
        missing = self.missing_messages.get(key)
        if missing is None or at_us - missing.latest_at_us > LOST_KEPT_S * _US:
            self.missing_messages[key] = MissingMessages(msgs, before_us, at_us, at_us)
        else:
            self.missing_messages[key] = replace(missing, latest_at_us=at_us)

    def _start_flow(self, row: int, key: Key) -> None:
        at_us = self._state.streams.columns.last_at_us[row]
        if at_us is not None:
            self.flows[key] = StoreFlow(at_us, at_us)

    def _update_flow(self, row: int, key: Key, *, stored: bool) -> None:
        at_us = self._state.streams.columns.last_at_us[row]
        if not stored or at_us is None:
            return
        flow = self.flows.get(key)
        if flow is None or at_us - flow.stored_at_us > STEADY_GAP_S * _US:
            self.flows[key] = StoreFlow(at_us, at_us)
            return
        longest_us = max(flow.longest_gap_us, at_us - flow.stored_at_us)
        self.flows[key] = StoreFlow(flow.run_since_us, at_us, longest_us)


def _update_run(runs: dict[Key, PositiveRun], key: Key, msgs: int | None, at_us: int) -> None:
    """Add the number of this poll to its run, which continues while the number is above 0.

    A reported run ends only when several polls show 0.
    """
    run = runs.get(key)
    if msgs is None or (msgs <= 0 and run is None):
        return
    if run is not None and msgs <= 0:
        missed_count = run.missed_polls_count + 1
        if run.polls_count < MIN_ORPHANED_POLLS or missed_count >= MIN_ORPHANED_POLLS:
            del runs[key]
        else:
            runs[key] = replace(run, missed_polls_count=missed_count)
        return
    run = run or PositiveRun(0, 0, at_us)
    newest_msgs = (*run.newest_msgs[-2:], msgs)
    runs[key] = PositiveRun(run.polls_count + 1, min(newest_msgs), run.since_at_us, newest_msgs)


def _is_explained_by_limit(
    state: State, row: int, columns_before: StreamColumns, row_before: int, at_us: int
) -> bool:
    """Return whether a limit of the stream explains the removal of its first messages."""
    columns = state.streams.columns
    config = state.stream_configurations.get(columns.name[row])
    if config is None:
        return True
    if is_near(columns.stored_msgs[row], config.max_msgs):
        return True
    if is_near(columns.stored_bytes[row], config.max_bytes):
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
        return at_us - first_at_us >= config.max_age_ns // 1000 - 2 * _US
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
    flow_msgs = max(0, streams.last_seq[row] - before.stream_columns.last_seq[row_before])
    max_distance_us = 0
    for consumer_row in rows:
        consumer_row_before = row_of.get(state.consumers.roster.keys[consumer_row])
        max_distance_us = max(
            max_distance_us,
            abs(consumers.sampled_mono_us[consumer_row] - streams.sampled_mono_us[row]),
        )
        if consumer_row_before is not None:
            acked_msgs = (
                consumers.ack_floor_consumer_seq[consumer_row]
                - columns_before.ack_floor_consumer_seq[consumer_row_before]
            )
            flow_msgs += max(0, acked_msgs)
    poll_us = streams.sampled_mono_us[row] - before.stream_columns.sampled_mono_us[row_before]
    share = min(1.0, (max_distance_us + _CLOCKS_US) / poll_us) if poll_us > 0 else 1.0
    return streams.stored_msgs[row] - waiting_msgs - round(2 * share * flow_msgs)


def compare_replicas(
    state: State, row: int, columns_before: StreamColumns, row_before: int
) -> int | None:
    """Return the largest difference between a replica and its leader in messages; None if unknown.

    `columns_before` and `row_before` are the previous poll and the row in it. As replies are of
    different times, an unchanged leader is compared with all replicas, a changed leader only with
    replicas that have its last message, and only if just a limit of messages or bytes deletes
    earlier messages.
    """
    columns = state.streams.columns
    leader = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    is_unchanged = leader == (
        columns_before.first_seq[row_before],
        columns_before.last_seq[row_before],
        columns_before.stored_msgs[row_before],
    )
    current_names = {
        peer.name
        for peer in columns.peers[row]
        if peer.current and not peer.lag_msgs and not is_away(peer)
    }
    max_msgs = None
    for replica in columns.replicas[row]:
        if replica.name not in current_names or not (
            is_unchanged or replica.last_seq == leader[1]
        ):
            continue
        stored = replica.first_seq, replica.last_seq, replica.stored_msgs
        if stored == leader:
            max_msgs = max_msgs or 0
        elif is_unchanged or _removes_only_by_size(
            state.stream_configurations.get(columns.name[row])
        ):
            difference_msgs = max(abs(a - b) for a, b in zip(stored, leader, strict=True))
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
    known_losses: Mapping[Key, Loss],
    before: PreviousRows | None,
    state: State,
    rows: list[int],
    raised_first_seqs: Mapping[str, tuple[int, int, bool]],
) -> Mapping[Key, Loss]:
    """Return the losses of consumers, updated by the streams whose first sequence rose."""
    now_us = state.now_at_us
    expired_keys = [
        key for key, loss in known_losses.items() if now_us - loss.at_us > LOST_KEPT_S * _US
    ]
    if not raised_first_seqs and not expired_keys:
        return known_losses
    losses = {key: loss for key, loss in known_losses.items() if key not in expired_keys}
    if before is None or not raised_first_seqs:
        return losses
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    refreshed_rows = set(rows)
    for stream, (first_seq_before, first_seq, is_limit) in raised_first_seqs.items():
        config = state.stream_configurations.get(stream)
        if config is None or config.max_msgs_per_subject:
            continue
        is_kept_by_limits = config.retention == "limits"
        if not is_kept_by_limits and not is_limit:
            # Acks remove its first messages, or a user did.
            continue
        for row in state.consumers.roster.rows_of_stream.get(stream, ()):
            row_before = before.consumers.row_of.get(keys[row])
            if row not in refreshed_rows or row_before is None:
                continue
            consumer = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
            if consumer is None:
                continue
            if not is_kept_by_limits:
                msgs = _count_unreceived(
                    state, row, before, row_before, bool(consumer.filter_subjects)
                )
            elif consumer.filter_subjects:
                msgs = _count_vanished(columns, row, before.consumer_columns, row_before)
            else:
                msgs = _count_removed_before_delivery(columns, row, before.consumer_columns,
                                                      row_before,
                                                first_seq_before, first_seq)  # fmt: skip
            if msgs <= 0:
                continue
            earlier_loss = losses.get(keys[row])
            from_seq = max(
                before.consumer_columns.delivered_stream_seq[row_before] + 1, first_seq_before
            )
            losses[keys[row]] = Loss(
                msgs + (earlier_loss.lost_msgs if earlier_loss else 0),
                now_us,
                earlier_loss.since_at_us if earlier_loss else now_us,
                earlier_loss.first_seq if earlier_loss else from_seq,
                first_seq - 1,
                not is_limit,
                earlier_loss.counted_since_us
                if earlier_loss
                else _sample_time_us(state, before.consumer_columns.sampled_mono_us[row_before]),
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

    These are removed sequences after its position, and passed sequences without a delivery.
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


def _count_vanished(
    columns: ConsumerColumns, row: int, columns_before: ConsumerColumns, row_before: int
) -> int:
    """Return the minimum number of a filtered consumer's pending messages that were deleted.

    Matching messages stored meanwhile are unknown, and hide as many deleted ones.
    """
    received_msgs = (
        columns.delivered_consumer_seq[row] - columns_before.delivered_consumer_seq[row_before]
    )
    return (
        columns_before.pending_msgs[row_before] - columns.pending_msgs[row] - max(0, received_msgs)
    )


def _count_unreceived(
    state: State, row: int, before: PreviousRows, row_before: int, is_filtered: bool
) -> int:
    """Return the minimum number of a consumer's pending messages that were deleted.

    Acks delete the first messages of the stream, so pending counts are compared, not sequences.
    Without filters, messages stored meanwhile are added, less twice the uncertain ones between
    the replies of stream and consumer.
    """
    consumers, streams = state.consumers.columns, state.streams.columns
    vanished_msgs = _count_vanished(consumers, row, before.consumer_columns, row_before)
    if is_filtered:
        return vanished_msgs
    stream = state.streams.roster.rows_of_stream[consumers.stream[row]][-1]
    stream_row_before = before.streams.row_of.get(state.streams.roster.keys[stream])
    if stream_row_before is None:
        return vanished_msgs
    stored_msgs = streams.last_seq[stream] - before.stream_columns.last_seq[stream_row_before]
    poll_us = (
        streams.sampled_mono_us[stream] - before.stream_columns.sampled_mono_us[stream_row_before]
    )
    distance_us = abs(consumers.sampled_mono_us[row] - streams.sampled_mono_us[stream])
    share = min(1.0, (distance_us + _CLOCKS_US) / poll_us) if poll_us > 0 else 1.0
    return vanished_msgs + stored_msgs - round(2 * share * max(0, stored_msgs))


def _update_recreated_consumers(
    memory: Memory, before: PreviousRows | None, state: State
) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[Name, int]]:
    """Return the times of recreated and of deleted consumers within the last minute, UTC."""
    from_us = state.now_at_us - round(RECREATIONS_WINDOW_S * _US)
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
    memory: Memory, before: PreviousRows | None, state: State
) -> tuple[Mapping[str, int], Mapping[Name, int]]:
    """Return the times of recreated and of deleted streams within the last minutes, UTC."""
    from_us = state.now_at_us - round(DELETED_KEPT_S * _US)
    recreated_at_us, deleted_at_us = memory.streams_recreated_at_us, memory.streams_deleted_at_us
    recreated_at_us = {name: at_us for name, at_us in recreated_at_us.items() if at_us >= from_us}
    deleted_at_us = {name: at_us for name, at_us in deleted_at_us.items() if at_us >= from_us}
    if before is not None and before.streams is not state.streams.roster:
        names = _find_recreated_names(deleted_at_us, before.streams, state.streams.roster, state)
        recreated_at_us |= {str(name[0]): state.now_at_us for name in names}
    return recreated_at_us, deleted_at_us


def _find_recreated_names(
    deleted_at_us: dict[Name, int], before: Roster, after: Roster, state: State
) -> list[Name]:
    """Return the names of recreated entities, and update the times in `deleted_at_us`."""
    deleted_at_us |= {key[:-1]: state.now_at_us for key in before.keys if key not in after.row_of}
    if not deleted_at_us:
        return []
    new_names = [key[:-1] for key in after.keys if key not in before.row_of]
    return [name for name in new_names if deleted_at_us.pop(name, None) is not None]
