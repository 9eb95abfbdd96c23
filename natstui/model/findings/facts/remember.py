"""Updates the memory once per poll, from the rows of the poll before and of this one. Pure."""

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
"""So far the clocks of the servers that write two rows may differ."""


def remembered(
    memory: Memory,
    before: Before | None,
    state: State,
    consumer_rows: Iterable[int],
    stream_rows: Iterable[int],
) -> Memory:
    """Return the memory after a poll that refreshed some rows."""
    consumer_rows, stream_rows = list(consumer_rows), list(stream_rows)
    known = _alive(memory, before, state)
    pulls = _pulls(known.pulls, before, state, consumer_rows)
    streams = _Streams(known, before, state)
    for row in stream_rows:
        streams.update(row)
    lost = _lost(known.lost, before, state, consumer_rows, streams.raised)
    return Memory(
        pulls, lost, streams.flows, streams.purged, streams.missing, streams.orphans,
        streams.differing, streams.alone,
        *_recreated(known, before, state), *_streams_recreated(known, before, state),
    )  # fmt: skip


def _alive(memory: Memory, before: Before | None, state: State) -> Memory:
    """Return the memory without rows that are gone."""
    if before is None:
        return memory
    if before.consumers is not state.consumers.roster:
        alive = state.consumers.roster.row_of
        memory = replace(
            memory,
            pulls={key: fact for key, fact in memory.pulls.items() if key in alive},
            lost={key: fact for key, fact in memory.lost.items() if key in alive},
        )
    if before.streams is not state.streams.roster:
        alive = state.streams.roster.row_of
        memory = replace(
            memory,
            flows={key: fact for key, fact in memory.flows.items() if key in alive},
            purged={key: fact for key, fact in memory.purged.items() if key in alive},
            missing={key: fact for key, fact in memory.missing.items() if key in alive},
            orphans={key: fact for key, fact in memory.orphans.items() if key in alive},
            differing={key: fact for key, fact in memory.differing.items() if key in alive},
            alone={key: fact for key, fact in memory.alone.items() if key in alive},
        )
    return memory


def _at_us(state: State, mono_us: int) -> int:
    return state.now_at_us - max(0, state.now_mono_us - mono_us)


def _pulls(
    known: Mapping[Key, PullPace], before: Before | None, state: State, rows: list[int]
) -> Mapping[Key, PullPace]:
    """Return the pace of every consumer with an open pull request, or that delivered.

    While a pull request is open at each poll, only the moment of the newest is noted, and that
    only when none is open any more.
    """
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    waiting, bound = columns.waiting_pulls_count, columns.push_bound
    delivered = columns.delivered_consumer_seq
    if before is None:
        return _first_pace(state, rows)
    old, old_row_of = before.consumer_columns, before.consumers.row_of
    same = before.consumers is state.consumers.roster
    changed: dict[Key, PullPace] = {}
    for row in rows:
        key = keys[row]
        then = row if same else old_row_of.get(key)
        if then is None:
            changed |= _first_pace(state, [row])
            continue
        was_served = old.waiting_pulls_count[then] > 0 or old.push_bound[then]
        is_served = waiting[row] > 0 or bound[row]
        if is_served and was_served:
            continue
        moved = delivered[row] != old.delivered_consumer_seq[then]
        if not (is_served or was_served or moved):
            continue
        at_us = _at_us(state, columns.sampled_mono_us[row])
        seen_at_us = at_us if is_served else _seen_at_us(columns, row, old, then, state)
        pace = known.get(key)
        if pace is None:
            changed[key] = PullPace(seen_at_us, seen_at_us)
            continue
        gap_us = 0 if was_served else max(0, seen_at_us - pace.seen_at_us)
        kept_us = round(pace.longest_gap_us * PACE_FORGET_SHARE) if gap_us else pace.longest_gap_us
        longest_us = max(gap_us, kept_us)
        pauses_count = pace.pauses_count + (1 if gap_us else 0)
        seen_at_us = max(seen_at_us, pace.seen_at_us)
        changed[key] = PullPace(pace.first_at_us, seen_at_us, pauses_count, longest_us)
    return {**known, **changed} if changed else known


def _seen_at_us(
    columns: ConsumerColumns, row: int, old: ConsumerColumns, then: int, state: State
) -> int:
    """Return when a client was seen last that has no open pull request now."""
    delivered_at_us = columns.delivered_at_us[row] or 0
    was_served = old.waiting_pulls_count[then] > 0 or old.push_bound[then]
    polled_at_us = _at_us(state, old.sampled_mono_us[then]) if was_served else 0
    return max(delivered_at_us, polled_at_us)


def _first_pace(state: State, rows: Iterable[int]) -> dict[Key, PullPace]:
    """Return when clients of consumers were seen last, of what the first poll of them shows."""
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
    """The memory of streams while rows are updated."""

    def __init__(self, known: Memory, before: Before | None, state: State) -> None:
        self._state = state
        self._before = before
        self.flows = dict(known.flows)
        self.purged = dict(known.purged)
        self.missing = dict(known.missing)
        self.orphans = dict(known.orphans)
        self.differing = dict(known.differing)
        self.alone = dict(known.alone)
        self.raised: dict[str, tuple[int, int, bool]] = {}
        """Stream → first sequence then and now, and whether a limit explains it."""

    def update(self, row: int) -> None:
        """Compare one row with the same row of the poll before."""
        state, before = self._state, self._before
        columns, key = state.streams.columns, state.streams.roster.keys[row]
        if columns.leader[row] is None:
            return
        if before is None:
            then = None
        else:
            same = before.streams is state.streams.roster
            then = row if same else before.streams.row_of.get(key)
        at_us = _at_us(state, columns.sampled_mono_us[row])
        config = state.stream_configurations.get(str(key[0]))
        if config is not None and config.retention == "workqueue":
            _count(self.orphans, key, orphaned_msgs(state, row, before), at_us)
        if config is not None and config.retention == "interest":
            if columns.consumers_count[row]:
                self.alone.pop(key, None)
            else:
                self.alone.setdefault(key, Alone(columns.last_seq[row], at_us))
        if then is None or before is None:
            self._begin(row, key)
            return
        old = before.stream_columns
        if columns.replicas[row]:
            _count(self.differing, key, differing_msgs(state, row, old, then), at_us)
        self._flow(row, key, stored=columns.last_seq[row] > old.last_seq[then])
        before_us = _at_us(state, old.sampled_mono_us[then])
        if config is not None and _removes_only_first(config):
            self._miss(key, columns.deleted_msgs[row] - old.deleted_msgs[then], before_us, at_us)
        risen = columns.first_seq[row] - old.first_seq[then]
        if risen > 0 and old.stored_msgs[then] and old.first_seq[then]:
            limited = _limited(state, row, old, then, at_us)
            self.raised[str(key[0])] = (old.first_seq[then], columns.first_seq[row], limited)
            removed = old.stored_msgs[then] - columns.stored_msgs[row]
            removed += max(0, columns.last_seq[row] - old.last_seq[then])
            retained = config is not None and config.retention == "limits"
            if retained and not limited and removed > 0:
                self.purged[key] = Purged(removed, at_us)
                self._miss(key, removed, before_us, at_us)

    def _miss(self, key: Key, msgs: int, before_us: int, at_us: int) -> None:
        """Note messages that are missing; of those that go on to be deleted, the first ones."""
        if msgs <= 0:
            return
        known = self.missing.get(key)
        if known is None or at_us - known.again_at_us > LOST_KEPT_S * _US:
            self.missing[key] = Missing(msgs, before_us, at_us, at_us)
        else:
            self.missing[key] = replace(known, again_at_us=at_us)

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
    """Note a number of this poll, which is at least so high: a run goes on while it is above 0.

    One that is long enough to be reported ends only when as many polls do not show it.
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


def _limited(state: State, row: int, old: StreamColumns, then: int, at_us: int) -> bool:
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
    if config.max_msgs_per_subject and columns.stored_msgs[row] >= old.stored_msgs[then]:
        return True
    first_at_us = old.first_at_us[then]
    if config.max_age_ns and first_at_us is not None:
        return at_us - first_at_us >= config.max_age_ns // 1000 - 2 * _US
    return False


def orphaned_msgs(state: State, row: int, before: Before | None) -> int | None:
    """Return how many messages of a work queue none of its consumers waits for.

    Replies are not of one moment: twice what came and was acked in between is taken off.
    None while not all consumers are known.
    """
    streams, consumers = state.streams.columns, state.consumers.columns
    name = streams.name[row]
    rows = state.consumers.roster.rows_of_stream.get(name, ())
    if len(rows) != streams.consumers_count[row]:
        return None
    pending, unacked = consumers.pending_msgs, consumers.ack_pending_msgs
    waiting = sum(pending[each] + unacked[each] for each in rows)
    then = None if before is None else before.streams.row_of.get(state.streams.roster.keys[row])
    if before is None or then is None:
        return streams.stored_msgs[row] - waiting
    old, row_of = before.consumer_columns, before.consumers.row_of
    flow = max(0, streams.last_seq[row] - before.stream_columns.last_seq[then])
    apart_us = 0
    for each in rows:
        earlier = row_of.get(state.consumers.roster.keys[each])
        apart_us = max(
            apart_us, abs(consumers.sampled_mono_us[each] - streams.sampled_mono_us[row])
        )
        if earlier is not None:
            moved = consumers.ack_floor_consumer_seq[each] - old.ack_floor_consumer_seq[earlier]
            flow += max(0, moved)
    poll_us = streams.sampled_mono_us[row] - before.stream_columns.sampled_mono_us[then]
    share = min(1.0, (apart_us + _CLOCKS_US) / poll_us) if poll_us > 0 else 1.0
    return streams.stored_msgs[row] - waiting - round(2 * share * flow)


def differing_msgs(state: State, row: int, old: StreamColumns, then: int) -> int | None:
    """Return by how many messages a replica differs from its leader at most; None if unknown.

    Replies are not of one moment. A leader that stood still since the poll before is compared with
    every replica; one that goes on only with those that have its last message, and only where
    nothing but a limit of messages or bytes removes earlier ones.
    """
    columns = state.streams.columns
    leader = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    stands = leader == (old.first_seq[then], old.last_seq[then], old.stored_msgs[then])
    current = {
        peer.name
        for peer in columns.peers[row]
        if peer.current and not peer.lag_msgs and not is_away(peer)
    }
    most_msgs = None
    for replica in columns.replicas[row]:
        if replica.name not in current or not (stands or replica.last_seq == leader[1]):
            continue
        stored = replica.first_seq, replica.last_seq, replica.stored_msgs
        if stored == leader:
            most_msgs = most_msgs or 0
        elif stands or _removes_only_by_size(state.stream_configurations.get(columns.name[row])):
            differs = max(abs(a - b) for a, b in zip(stored, leader, strict=True))
            most_msgs = max(most_msgs or 0, differs)
    return most_msgs


def _removes_only_by_size(config: StreamConfiguration | None) -> bool:
    """Return whether every replica removes the same messages as soon as it stores the same."""
    if config is None or config.retention != "limits" or config.max_age_ns:
        return False
    return not settings_of(config.config_json).get("allow_msg_ttl")


def _removes_only_first(config: StreamConfiguration) -> bool:
    """Return whether a stream itself removes no message but its first ones."""
    settings = settings_of(config.config_json)
    others = settings.get("allow_msg_ttl") or settings.get("allow_rollup_hdrs")
    return config.retention == "limits" and not (config.max_msgs_per_subject or others)


def _lost(
    known: Mapping[Key, Lost],
    before: Before | None,
    state: State,
    rows: list[int],
    raised: Mapping[str, tuple[int, int, bool]],
) -> Mapping[Key, Lost]:
    """Return what consumers lost, after the first sequence of some streams rose."""
    now_us = state.now_at_us
    forgotten = [key for key, loss in known.items() if now_us - loss.at_us > LOST_KEPT_S * _US]
    if not raised and not forgotten:
        return known
    lost = {key: loss for key, loss in known.items() if key not in forgotten}
    if before is None or not raised:
        return lost
    columns, keys = state.consumers.columns, state.consumers.roster.keys
    refreshed = set(rows)
    for stream, (old_first, first, limited) in raised.items():
        config = state.stream_configurations.get(stream)
        if config is None or config.max_msgs_per_subject:
            continue
        is_kept_by_limits = config.retention == "limits"
        if not is_kept_by_limits and not limited:
            # Acks remove its first messages, or a user did.
            continue
        for row in state.consumers.roster.rows_of_stream.get(stream, ()):
            then = before.consumers.row_of.get(keys[row])
            if row not in refreshed or then is None:
                continue
            consumer = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
            if consumer is None:
                continue
            if not is_kept_by_limits:
                msgs = _unreceived(state, row, before, then, bool(consumer.filter_subjects))
            elif consumer.filter_subjects:
                msgs = _vanished(columns, row, before.consumer_columns, then)
            else:
                msgs = _removed_before_delivery(columns, row, before.consumer_columns, then,
                                                old_first, first)  # fmt: skip
            if msgs <= 0:
                continue
            earlier = lost.get(keys[row])
            from_seq = max(before.consumer_columns.delivered_stream_seq[then] + 1, old_first)
            lost[keys[row]] = Lost(
                msgs + (earlier.lost_msgs if earlier else 0),
                now_us,
                earlier.since_at_us if earlier else now_us,
                earlier.first_seq if earlier else from_seq,
                first - 1,
                not limited,
                earlier.counted_since_us
                if earlier
                else _at_us(state, before.consumer_columns.sampled_mono_us[then]),
            )
    return lost


def _removed_before_delivery(
    columns: ConsumerColumns, row: int, old: ConsumerColumns, then: int, old_first: int, first: int
) -> int:
    """Return how many messages were removed since a poll that a consumer had not received.

    What it skipped at most: sequences that passed and were not delivered.
    """
    delivered = columns.delivered_stream_seq[row]
    if not delivered and not old.delivered_stream_seq[then]:
        return 0
    waiting = first - 1 - max(delivered, old_first - 1)
    from_seq = max(old.delivered_stream_seq[then], old_first - 1)
    passed = min(delivered, first - 1) - from_seq
    received = columns.delivered_consumer_seq[row] - old.delivered_consumer_seq[then]
    skipped = passed - received if passed > 0 else 0
    return max(0, waiting) + max(0, skipped)


def _vanished(columns: ConsumerColumns, row: int, old: ConsumerColumns, then: int) -> int:
    """Return how many pending messages of a consumer with filters are gone and not delivered.

    At least so many: what came meanwhile is not known, and hides as many.
    """
    received = columns.delivered_consumer_seq[row] - old.delivered_consumer_seq[then]
    return old.pending_msgs[then] - columns.pending_msgs[row] - max(0, received)


def _unreceived(state: State, row: int, before: Before, then: int, is_filtered: bool) -> int:
    """Return how many messages left the pending ones of a consumer and were not delivered.

    Acks remove the first messages of its stream, so sequences say nothing; what is pending does.
    At least so many: with filters, what came meanwhile is not known, and without them twice what
    came between the replies of the stream and of the consumer is taken off.
    """
    consumers, streams = state.consumers.columns, state.streams.columns
    gone = _vanished(consumers, row, before.consumer_columns, then)
    if is_filtered:
        return gone
    stream = state.streams.roster.rows_of_stream[consumers.stream[row]][-1]
    earlier = before.streams.row_of.get(state.streams.roster.keys[stream])
    if earlier is None:
        return gone
    came = streams.last_seq[stream] - before.stream_columns.last_seq[earlier]
    poll_us = streams.sampled_mono_us[stream] - before.stream_columns.sampled_mono_us[earlier]
    apart_us = abs(consumers.sampled_mono_us[row] - streams.sampled_mono_us[stream])
    share = min(1.0, (apart_us + _CLOCKS_US) / poll_us) if poll_us > 0 else 1.0
    return gone + came - round(2 * share * max(0, came))


def _recreated(
    known: Memory, before: Before | None, state: State
) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[Name, int]]:
    """Return when consumers were recreated under their names, and deleted, of the last minute."""
    from_us = state.now_at_us - round(TIMES_KEPT_S * _US)
    again = {
        name: tuple(at_us for at_us in times if at_us >= from_us)
        for name, times in known.recreated_at_us.items()
        if times[-1] >= from_us
    }
    gone = {name: at_us for name, at_us in known.gone_at_us.items() if at_us >= from_us}
    if before is not None and before.consumers is not state.consumers.roster:
        for name in _created_again(gone, before.consumers, state.consumers.roster, state):
            stream, consumer = str(name[0]), str(name[1])
            again[stream, consumer] = (*again.get((stream, consumer), ()), state.now_at_us)
    return again, gone


def _streams_recreated(
    known: Memory, before: Before | None, state: State
) -> tuple[Mapping[str, int], Mapping[Name, int]]:
    """Return when streams were recreated under their names, and deleted, of the last minutes."""
    from_us = state.now_at_us - round(GONE_KEPT_S * _US)
    again, gone = known.streams_recreated_at_us, known.streams_gone_at_us
    again = {name: at_us for name, at_us in again.items() if at_us >= from_us}
    gone = {name: at_us for name, at_us in gone.items() if at_us >= from_us}
    if before is not None and before.streams is not state.streams.roster:
        names = _created_again(gone, before.streams, state.streams.roster, state)
        again |= {str(name[0]): state.now_at_us for name in names}
    return again, gone


def _created_again(
    gone: dict[Name, int], before: Roster, after: Roster, state: State
) -> list[Name]:
    """Return the names under which something was recreated; `gone` is brought up to date."""
    gone |= {key[:-1]: state.now_at_us for key in before.keys if key not in after.row_of}
    if not gone:
        return []
    new = [key[:-1] for key in after.keys if key not in before.row_of]
    return [name for name in new if gone.pop(name, None) is not None]
