"""Updates the memory once per poll, from the rows of the previous poll and of this one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.findings.facts.memory import (
    Alone,
    Before,
    Lost,
    Memory,
    Missing,
    Name,
    PullPace,
    Purged,
    Run,
    StoreFlow,
)
from natstui.model.findings.facts.row import settings_of
from natstui.model.findings.thresholds import (
    GONE_KEPT_S,
    LOST_KEPT_S,
    ORPHANED_POLLS,
    PACE_FORGET_SHARE,
    STEADY_GAP_S,
    TIMES_KEPT_S,
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
    before: Before | None,
    state: State,
    consumer_rows: Iterable[int],
    stream_rows: Iterable[int],
) -> Memory:
    """Return the memory after a poll.

    `consumer_rows` and `stream_rows` are the rows that it refreshed; `before` are the rows of the
    previous poll, None at the first.
    """
    consumer_rows, stream_rows = list(consumer_rows), list(stream_rows)
    kept_memory = _without_deleted(memory, before, state)
    pulls = _pulls(kept_memory.pulls, before, state, consumer_rows)
    streams = _Streams(kept_memory, before, state)
    for row in stream_rows:
        streams.update(row)
    lost = _lost(kept_memory.lost, before, state, consumer_rows, streams.raised)
    return Memory(
        pulls, lost, streams.flows, streams.purged, streams.missing, streams.orphans,
        streams.differing, streams.alone,
        *_recreated(kept_memory, before, state), *_streams_recreated(kept_memory, before, state),
    )  # fmt: skip


def _without_deleted(memory: Memory, before: Before | None, state: State) -> Memory:
    """Return the memory without deleted rows."""
    if before is None:
        return memory
    if before.consumers is not state.consumers.roster:
        existing_keys = state.consumers.roster.row_of
        memory = replace(
            memory,
            pulls={key: fact for key, fact in memory.pulls.items() if key in existing_keys},
            lost={key: fact for key, fact in memory.lost.items() if key in existing_keys},
        )
    if before.streams is not state.streams.roster:
        existing_keys = state.streams.roster.row_of
        memory = replace(
            memory,
            flows={key: fact for key, fact in memory.flows.items() if key in existing_keys},
            purged={key: fact for key, fact in memory.purged.items() if key in existing_keys},
            missing={key: fact for key, fact in memory.missing.items() if key in existing_keys},
            orphans={key: fact for key, fact in memory.orphans.items() if key in existing_keys},
            differing={
                key: fact for key, fact in memory.differing.items() if key in existing_keys
            },
            alone={key: fact for key, fact in memory.alone.items() if key in existing_keys},
        )
    return memory


def _at_us(state: State, mono_us: int) -> int:
    return state.now_at_us - max(0, state.now_mono_us - mono_us)


def _pulls(
    known_paces: Mapping[Key, PullPace], before: Before | None, state: State, rows: list[int]
) -> Mapping[Key, PullPace]:
    """Return the pace of every consumer with an open pull request or a delivery.

    While a pull request is open at each poll, only the time of the newest one is stored, and that
    only when none is open any more.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    waiting, bound = columns.waiting_pulls_count, columns.push_bound
    delivered = columns.delivered_consumer_seq
    if before is None:
        return _first_pace(state, rows)
    columns_before, old_row_of = before.consumer_columns, before.consumers.row_of
    is_same_roster = before.consumers is state.consumers.roster
    changed_paces: dict[Key, PullPace] = {}
    for row in rows:
        key = keys[row]
        row_before = row if is_same_roster else old_row_of.get(key)
        if row_before is None:
            changed_paces |= _first_pace(state, [row])
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
        at_us = _at_us(state, columns.sampled_mono_us[row])
        seen_at_us = (
            at_us if is_served else _seen_at_us(columns, row, columns_before, row_before, state)
        )
        pace = known_paces.get(key)
        if pace is None:
            changed_paces[key] = PullPace(seen_at_us, seen_at_us)
            continue
        gap_us = 0 if was_served else max(0, seen_at_us - pace.seen_at_us)
        kept_us = round(pace.longest_gap_us * PACE_FORGET_SHARE) if gap_us else pace.longest_gap_us
        longest_us = max(gap_us, kept_us)
        pauses_count = pace.pauses_count + (1 if gap_us else 0)
        seen_at_us = max(seen_at_us, pace.seen_at_us)
        changed_paces[key] = PullPace(pace.first_at_us, seen_at_us, pauses_count, longest_us)
    return {**known_paces, **changed_paces} if changed_paces else known_paces


def _seen_at_us(
    columns: ConsumerColumns,
    row: int,
    columns_before: ConsumerColumns,
    row_before: int,
    state: State,
) -> int:
    """Return the time of the last activity of a client without an open pull request."""
    delivered_at_us = columns.delivered_at_us[row] or 0
    was_served = (
        columns_before.waiting_pulls_count[row_before] > 0 or columns_before.push_bound[row_before]
    )
    polled_at_us = _at_us(state, columns_before.sampled_mono_us[row_before]) if was_served else 0
    return max(delivered_at_us, polled_at_us)


def _first_pace(state: State, rows: Iterable[int]) -> dict[Key, PullPace]:
    """Return the pace of clients of consumers after their first poll."""
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    paces = {}
    for row in rows:
        at_us = columns.delivered_at_us[row]
        if columns.waiting_pulls_count[row] or columns.push_bound[row]:
            at_us = _at_us(state, columns.sampled_mono_us[row])
        if at_us is not None:
            paces[keys[row]] = PullPace(at_us, at_us)
    return paces


class _Streams:
    """The memory of streams during an update."""

    def __init__(self, memory: Memory, before: Before | None, state: State) -> None:
        self._state = state
        self._before = before
        self.flows = dict(memory.flows)
        self.purged = dict(memory.purged)
        self.missing = dict(memory.missing)
        self.orphans = dict(memory.orphans)
        self.differing = dict(memory.differing)
        self.alone = dict(memory.alone)
        self.raised: dict[str, tuple[int, int, bool]] = {}
        """Stream → previous and current first sequence, and whether a limit explains the rise."""

    def update(self, row: int) -> None:
        """Compare one row with the same row of the poll before."""
        state, before = self._state, self._before
        columns, key = state.streams.columns, state.streams.roster.keys[row]
        if columns.leader[row] is None:
            return
        if before is None:
            row_before = None
        else:
            is_same_roster = before.streams is state.streams.roster
            row_before = row if is_same_roster else before.streams.row_of.get(key)
        at_us = _at_us(state, columns.sampled_mono_us[row])
        config = state.stream_configurations.get(str(key[0]))
        if config is not None and config.retention == "workqueue":
            _count(self.orphans, key, orphaned_msgs(state, row, before), at_us)
        if config is not None and config.retention == "interest":
            if columns.consumers_count[row]:
                self.alone.pop(key, None)
            else:
                self.alone.setdefault(key, Alone(columns.last_seq[row], at_us))
        if row_before is None or before is None:
            self._begin(row, key)
            return
        columns_before = before.stream_columns
        if columns.replicas[row]:
            _count(
                self.differing, key, differing_msgs(state, row, columns_before, row_before), at_us
            )
        self._flow(row, key, stored=columns.last_seq[row] > columns_before.last_seq[row_before])
        before_us = _at_us(state, columns_before.sampled_mono_us[row_before])
        if config is not None and _removes_only_first(config):
            self._miss(
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
            is_limit = _is_limit_explanation(state, row, columns_before, row_before, at_us)
            self.raised[str(key[0])] = (
                columns_before.first_seq[row_before],
                columns.first_seq[row],
                is_limit,
            )
            removed_msgs = columns_before.stored_msgs[row_before] - columns.stored_msgs[row]
            removed_msgs += max(0, columns.last_seq[row] - columns_before.last_seq[row_before])
            has_limits_retention = config is not None and config.retention == "limits"
            if has_limits_retention and not is_limit and removed_msgs > 0:
                self.purged[key] = Purged(removed_msgs, at_us)
                self._miss(key, removed_msgs, before_us, at_us)

    def _miss(self, key: Key, msgs: int, before_us: int, at_us: int) -> None:
        """Store missing messages; of continued deletions, the first ones."""
        if msgs <= 0:
            return
        missing = self.missing.get(key)
        if missing is None or at_us - missing.again_at_us > LOST_KEPT_S * _US:
            self.missing[key] = Missing(msgs, before_us, at_us, at_us)
        else:
            self.missing[key] = replace(missing, again_at_us=at_us)

    def _begin(self, row: int, key: Key) -> None:
        at_us = self._state.streams.columns.last_at_us[row]
        if at_us is not None:
            self.flows[key] = StoreFlow(at_us, at_us)

    def _flow(self, row: int, key: Key, *, stored: bool) -> None:
        at_us = self._state.streams.columns.last_at_us[row]
        if not stored or at_us is None:
            return
        flow = self.flows.get(key)
        if flow is None or at_us - flow.stored_at_us > STEADY_GAP_S * _US:
            self.flows[key] = StoreFlow(at_us, at_us)
            return
        longest_us = max(flow.longest_gap_us, at_us - flow.stored_at_us)
        self.flows[key] = StoreFlow(flow.run_since_us, at_us, longest_us)


def _count(runs: dict[Key, Run], key: Key, number: int | None, at_us: int) -> None:
    """Add a number of this poll to its run, which continues while the number is above 0.

    A run that is long enough to be reported ends only when as many polls do not show it.
    """
    run = runs.get(key)
    if number is None or (number <= 0 and run is None):
        return
    if run is not None and number <= 0:
        missed_count = run.missed_polls_count + 1
        if run.polls_count < ORPHANED_POLLS or missed_count >= ORPHANED_POLLS:
            del runs[key]
        else:
            runs[key] = replace(run, missed_polls_count=missed_count)
        return
    run = run or Run(0, 0, at_us)
    newest = (*run.newest_msgs[-2:], number)
    runs[key] = Run(run.polls_count + 1, min(newest), run.since_at_us, newest)


def _is_limit_explanation(
    state: State, row: int, columns_before: StreamColumns, row_before: int, at_us: int
) -> bool:
    """Return whether a limit of a stream explains that its first messages were removed."""
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
    # A new message removes one of its subject: there are not fewer of them then.
    if (
        config.max_msgs_per_subject
        and columns.stored_msgs[row] >= columns_before.stored_msgs[row_before]
    ):
        return True
    first_at_us = columns_before.first_at_us[row_before]
    if config.max_age_ns and first_at_us is not None:
        return at_us - first_at_us >= config.max_age_ns // 1000 - 2 * _US
    return False


def orphaned_msgs(state: State, row: int, before: Before | None) -> int | None:
    """Return the number of messages of a work queue that match no consumer.

    Replies are not of the same moment, so twice the messages stored and acked in between are
    subtracted. None while not all consumers are known.
    """
    streams, consumers = state.streams.columns, state.consumers.columns
    name = streams.name[row]
    rows = state.consumers.roster.rows_of_stream.get(name, ())
    if len(rows) != streams.consumers_count[row]:
        return None
    pending, unacked = consumers.pending_msgs, consumers.ack_pending_msgs
    waiting = sum(pending[consumer_row] + unacked[consumer_row] for consumer_row in rows)
    row_before = (
        None if before is None else before.streams.row_of.get(state.streams.roster.keys[row])
    )
    if before is None or row_before is None:
        return streams.stored_msgs[row] - waiting
    columns_before, row_of = before.consumer_columns, before.consumers.row_of
    flow_msgs = max(0, streams.last_seq[row] - before.stream_columns.last_seq[row_before])
    distance_us = 0
    for consumer_row in rows:
        consumer_row_before = row_of.get(state.consumers.roster.keys[consumer_row])
        distance_us = max(
            distance_us,
            abs(consumers.sampled_mono_us[consumer_row] - streams.sampled_mono_us[row]),
        )
        if consumer_row_before is not None:
            acked_msgs = (
                consumers.ack_floor_consumer_seq[consumer_row]
                - columns_before.ack_floor_consumer_seq[consumer_row_before]
            )
            flow_msgs += max(0, acked_msgs)
    poll_us = streams.sampled_mono_us[row] - before.stream_columns.sampled_mono_us[row_before]
    share = min(1.0, (distance_us + _CLOCKS_US) / poll_us) if poll_us > 0 else 1.0
    return streams.stored_msgs[row] - waiting - round(2 * share * flow_msgs)


def differing_msgs(
    state: State, row: int, columns_before: StreamColumns, row_before: int
) -> int | None:
    """Return by how many messages a replica differs from its leader at most; None if unknown.

    `columns_before` and `row_before` are the previous poll and the row in it. Replies are not of
    the same moment. An unchanged leader is compared with all replicas; a changed leader only with
    those that have its last message, and only if nothing but a limit of messages or bytes deletes
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
    most_msgs = None
    for replica in columns.replicas[row]:
        if replica.name not in current_names or not (
            is_unchanged or replica.last_seq == leader[1]
        ):
            continue
        stored = replica.first_seq, replica.last_seq, replica.stored_msgs
        if stored == leader:
            most_msgs = most_msgs or 0
        elif is_unchanged or _removes_only_by_size(
            state.stream_configurations.get(columns.name[row])
        ):
            difference_msgs = max(abs(a - b) for a, b in zip(stored, leader, strict=True))
            most_msgs = max(most_msgs or 0, difference_msgs)
    return most_msgs


def _removes_only_by_size(config: StreamConfiguration | None) -> bool:
    """Return whether all replicas with the same messages have deleted the same ones."""
    if config is None or config.retention != "limits" or config.max_age_ns:
        return False
    return not settings_of(config.config_json).get("allow_msg_ttl")


def _removes_only_first(config: StreamConfiguration) -> bool:
    """Return whether a stream itself deletes only its first messages."""
    settings = settings_of(config.config_json)
    has_other_removals = settings.get("allow_msg_ttl") or settings.get("allow_rollup_hdrs")
    return config.retention == "limits" and not (config.max_msgs_per_subject or has_other_removals)


def _lost(
    known_losses: Mapping[Key, Lost],
    before: Before | None,
    state: State,
    rows: list[int],
    raised: Mapping[str, tuple[int, int, bool]],
) -> Mapping[Key, Lost]:
    """Return the losses of consumers, after the first sequences of some streams rose."""
    now_us = state.now_at_us
    forgotten = [
        key for key, loss in known_losses.items() if now_us - loss.at_us > LOST_KEPT_S * _US
    ]
    if not raised and not forgotten:
        return known_losses
    lost = {key: loss for key, loss in known_losses.items() if key not in forgotten}
    if before is None or not raised:
        return lost
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    refreshed = set(rows)
    for stream, (first_seq_before, first_seq, is_limit) in raised.items():
        config = state.stream_configurations.get(stream)
        if config is None or config.max_msgs_per_subject:
            continue
        is_kept_by_limits = config.retention == "limits"
        if not is_kept_by_limits and not is_limit:
            # Acks remove its first messages, or a user did.
            continue
        for row in state.consumers.roster.rows_of_stream.get(stream, ()):
            row_before = before.consumers.row_of.get(keys[row])
            if row not in refreshed or row_before is None:
                continue
            consumer = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
            if consumer is None:
                continue
            if not is_kept_by_limits:
                msgs = _unreceived(state, row, before, row_before, bool(consumer.filter_subjects))
            elif consumer.filter_subjects:
                msgs = _vanished(columns, row, before.consumer_columns, row_before)
            else:
                msgs = _removed_before_delivery(columns, row, before.consumer_columns, row_before,
                                                first_seq_before, first_seq)  # fmt: skip
            if msgs <= 0:
                continue
            earlier_loss = lost.get(keys[row])
            from_seq = max(
                before.consumer_columns.delivered_stream_seq[row_before] + 1, first_seq_before
            )
            lost[keys[row]] = Lost(
                msgs + (earlier_loss.lost_msgs if earlier_loss else 0),
                now_us,
                earlier_loss.since_at_us if earlier_loss else now_us,
                earlier_loss.first_seq if earlier_loss else from_seq,
                first_seq - 1,
                not is_limit,
                earlier_loss.counted_since_us
                if earlier_loss
                else _at_us(state, before.consumer_columns.sampled_mono_us[row_before]),
            )
    return lost


def _removed_before_delivery(
    columns: ConsumerColumns,
    row: int,
    columns_before: ConsumerColumns,
    row_before: int,
    old_first: int,
    first: int,
) -> int:
    """Return how many messages were deleted since a poll before a consumer received them.

    At most the sequences that it skipped: those that passed without a delivery.
    """
    delivered = columns.delivered_stream_seq[row]
    if not delivered and not columns_before.delivered_stream_seq[row_before]:
        return 0
    waiting = first - 1 - max(delivered, old_first - 1)
    from_seq = max(columns_before.delivered_stream_seq[row_before], old_first - 1)
    passed = min(delivered, first - 1) - from_seq
    received = (
        columns.delivered_consumer_seq[row] - columns_before.delivered_consumer_seq[row_before]
    )
    skipped = passed - received if passed > 0 else 0
    return max(0, waiting) + max(0, skipped)


def _vanished(
    columns: ConsumerColumns, row: int, columns_before: ConsumerColumns, row_before: int
) -> int:
    """Return the minimum of pending messages of a filtered consumer that were deleted.

    Messages stored meanwhile are unknown, and hide as many.
    """
    received = (
        columns.delivered_consumer_seq[row] - columns_before.delivered_consumer_seq[row_before]
    )
    return columns_before.pending_msgs[row_before] - columns.pending_msgs[row] - max(0, received)


def _unreceived(state: State, row: int, before: Before, row_before: int, is_filtered: bool) -> int:
    """Return the minimum of a consumer's pending messages that were deleted undelivered.

    Acks delete the first messages of its stream, so pending counts are compared, not sequences.
    With filters, messages stored meanwhile are unknown; without, twice the messages stored between
    the replies of the stream and of the consumer are subtracted.
    """
    consumers, streams = state.consumers.columns, state.streams.columns
    vanished_msgs = _vanished(consumers, row, before.consumer_columns, row_before)
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


def _recreated(
    memory: Memory, before: Before | None, state: State
) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[Name, int]]:
    """Return the times of recreated and deleted consumers of the last minute."""
    from_us = state.now_at_us - round(TIMES_KEPT_S * _US)
    recreated_at_us = {
        name: tuple(at_us for at_us in times if at_us >= from_us)
        for name, times in memory.recreated_at_us.items()
        if times[-1] >= from_us
    }
    deleted_at_us = {name: at_us for name, at_us in memory.gone_at_us.items() if at_us >= from_us}
    if before is not None and before.consumers is not state.consumers.roster:
        for name in _recreated_names(
            deleted_at_us, before.consumers, state.consumers.roster, state
        ):
            stream, consumer = str(name[0]), str(name[1])
            recreated_at_us[stream, consumer] = (
                *recreated_at_us.get((stream, consumer), ()),
                state.now_at_us,
            )
    return recreated_at_us, deleted_at_us


def _streams_recreated(
    memory: Memory, before: Before | None, state: State
) -> tuple[Mapping[str, int], Mapping[Name, int]]:
    """Return the times of recreated and deleted streams of the last minutes."""
    from_us = state.now_at_us - round(GONE_KEPT_S * _US)
    recreated_at_us, deleted_at_us = memory.streams_recreated_at_us, memory.streams_gone_at_us
    recreated_at_us = {name: at_us for name, at_us in recreated_at_us.items() if at_us >= from_us}
    deleted_at_us = {name: at_us for name, at_us in deleted_at_us.items() if at_us >= from_us}
    if before is not None and before.streams is not state.streams.roster:
        names = _recreated_names(deleted_at_us, before.streams, state.streams.roster, state)
        recreated_at_us |= {str(name[0]): state.now_at_us for name in names}
    return recreated_at_us, deleted_at_us


def _recreated_names(
    deleted_at_us: dict[Name, int], before: Roster, after: Roster, state: State
) -> list[Name]:
    """Return the names of recreated entities; updates `deleted_at_us`."""
    deleted_at_us |= {key[:-1]: state.now_at_us for key in before.keys if key not in after.row_of}
    if not deleted_at_us:
        return []
    new_names = [key[:-1] for key in after.keys if key not in before.row_of]
    return [name for name in new_names if deleted_at_us.pop(name, None) is not None]
