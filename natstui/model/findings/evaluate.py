"""The evaluation of findings from poll to poll: conditions are raised, kept or ended. Pure.

A condition is reported when it has held for the `enter_s` of its kind, and ends when it is absent
for its `leave_s`, so that findings do not flicker. Only rows that were polled since are checked,
and of these only suspicious ones; rows above a limit wait for the next poll.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import ne, or_
from types import MappingProxyType

from natstui.model.bench.plan import BENCHMARK_STREAM
from natstui.model.clients.watch import ClientsRead
from natstui.model.findings.attention import attention
from natstui.model.findings.catalogue.consumers import GONE
from natstui.model.findings.catalogue.every import successor_of
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import S_GONE
from natstui.model.findings.causes.cause import Order, Rank, Topic
from natstui.model.findings.causes.consumers import CONSUMER_ORDER, consumer_causes
from natstui.model.findings.causes.settings import MANY_PULLS
from natstui.model.findings.causes.streams import STREAM_ORDER, stream_causes
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.memory import Before, Memory
from natstui.model.findings.facts.remember import update_memory
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import (
    RESOLVED_KEPT,
    Counting,
    Entity,
    Finding,
    Findings,
    Seat,
    Symptom,
    Watched,
    of_key,
)
from natstui.model.findings.rules.account import account_conditions
from natstui.model.findings.rules.rowless import recreated_again
from natstui.model.findings.thresholds import (
    GONE_KEPT_S,
    HOLES_FEWEST,
    PILE_UP_FEWEST,
    STOPPED_LEAST_S,
    SUBJECTS_OWN_FEWEST,
)
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.live.state import State
from natstui.model.live.table import Key, Roster
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.silences import Silence, Silenced
from natstui.model.servers.watch import ServersRead

MOST_ROWS = 1_000
"""Limit of consumers that are checked after a poll; others wait for the next."""
_PART_ROWS = 300
MOST_GONE = 5
"""Limit of deleted streams, or consumers of a stream, that are reported one by one."""


JUDGED_AFTER = (Snapshot, LinkChanged, Unavailable, Restored, Silenced, ServersRead, ClientsRead)
"""Records after which findings are evaluated again."""


def judged(state: State, most_rows: int = MOST_ROWS) -> State:
    """Return the state with the current findings; recorded findings are kept."""
    if state.findings.recorded:
        return state
    return replace(state, findings=evaluate(state.findings, state, most_rows))


def judging(state: State) -> Generator[None, None, State]:
    """Return `judged` as a generator of steps, each of some milliseconds with many rows."""
    if state.findings.recorded:
        return state
    findings = yield from _evaluating(state.findings, state, MOST_ROWS)
    return replace(state, findings=findings)


def judged_after(state: State, record: Record) -> State:
    """Return the state after one more record, evaluated again after those in `JUDGED_AFTER`."""
    after = state.after(record)
    return judged(after) if isinstance(record, JUDGED_AFTER) else after


def evaluate(previous: Findings, state: State, most_rows: int = MOST_ROWS) -> Findings:
    """Return the current findings, from the previous ones."""
    parts = _evaluating(previous, state, most_rows)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            findings: Findings = end.value
            return findings


def _evaluating(
    previous: Findings, state: State, most_rows: int
) -> Generator[None, None, Findings]:
    board = Board(previous, state)
    seat = attention(previous.seat, state)
    _gone(board, previous.seat, state)
    newer, newer_streams = _newer_consumers(seat, state), _newer_streams(seat, state)
    memory = update_memory(seat.memory, _before(seat), state, newer, newer_streams)
    rows = _candidates(board, seat, state, newer, memory)
    for first in range(0, min(len(rows), most_rows), _PART_ROWS):
        if first:
            yield
        _consumers(board, state, memory, rows[first : min(first + _PART_ROWS, most_rows)])
    if len(rows) > _PART_ROWS:
        yield
    _streams(board, seat, state, newer_streams, memory)
    _rest(board, state, memory)
    now = Seat(
        mono_us=state.now_mono_us,
        consumers=state.consumers.roster,
        consumer_columns=state.consumers.columns,
        streams=state.streams.roster,
        stream_columns=state.streams.columns,
        waiting=tuple(rows[most_rows:]),
        consumer_settings=seat.consumer_settings,
        stream_settings=seat.stream_settings,
        attentive=seat.attentive,
        filtered=seat.filtered,
        attentive_streams=seat.attentive_streams,
        with_ephemerals=seat.with_ephemerals,
        memory=memory,
    )
    return board.findings(now)


def _before(seat: Seat) -> Before | None:
    """Return the rows of the previous evaluation."""
    if seat.consumers is None or seat.consumer_columns is None:
        return None
    if seat.streams is None or seat.stream_columns is None:
        return None
    return Before(seat.consumers, seat.consumer_columns, seat.streams, seat.stream_columns)


def _newer_consumers(seat: Seat, state: State) -> Sequence[int]:
    """Return the rows of consumers sampled since the previous evaluation."""
    columns, before = state.consumers.columns, seat.consumer_columns
    sampled = before.sampled_mono_us if before else None
    return _newer(columns.sampled_mono_us, state.consumers.roster, sampled, seat.consumers)


def _newer_streams(seat: Seat, state: State) -> Sequence[int]:
    """Return the rows of streams sampled since the previous evaluation."""
    columns, before = state.streams.columns, seat.stream_columns
    sampled = before.sampled_mono_us if before else None
    return _newer(columns.sampled_mono_us, state.streams.roster, sampled, seat.streams)


def _newer(
    new: Sequence[int], roster: Roster, old: Sequence[int] | None, before: Roster | None
) -> Sequence[int]:
    """Return the rows sampled since the previous evaluation."""
    rows = range(len(new))
    if old is None or before is None:
        return rows
    if roster is before:
        return [] if new is old else list(compress(rows, map(ne, new, old)))
    if _begins_with(roster, before):
        known_count = len(before.keys)
        changed = compress(rows, map(ne, new, old))
        return [*changed, *range(known_count, len(new))]
    row_of = before.row_of
    found = []
    for row, key, sampled in zip(rows, roster.keys, new, strict=True):
        known = row_of.get(key)
        if known is None or old[known] != sampled:
            found.append(row)
    return found


def _begins_with(roster: Roster, before: Roster) -> bool:
    """Return whether rows were only appended, as in the first polls; keys are unchanged."""
    return roster.keys[: len(before.keys)] == before.keys


def _suspicious_of(columns: ConsumerColumns, rows: Sequence[int]) -> list[int]:
    """Return the suspicious ones of some rows."""
    pending, unacked, again = (
        columns.pending_msgs, columns.ack_pending_msgs, columns.redelivered_msgs,
    )  # fmt: skip
    paused, peers, waiting = columns.paused, columns.peers, columns.waiting_pulls_count
    return [
        row
        for row in rows
        if pending[row]
        or unacked[row]
        or again[row]
        or paused[row]
        or peers[row]
        or waiting[row] > MANY_PULLS
    ]


def _suspicious(columns: ConsumerColumns) -> Iterable[object]:
    """Return for each row whether it is suspicious, by cheap comparisons."""
    counts = map(or_, columns.pending_msgs, columns.ack_pending_msgs)
    flags: Iterable[object] = map(or_, counts, columns.redelivered_msgs)
    if True in columns.paused:
        flags = map(or_, flags, columns.paused)
    many = max(columns.waiting_pulls_count, default=0) > MANY_PULLS
    if not many and not any(columns.peers):
        return flags
    rows = zip(flags, columns.peers, columns.waiting_pulls_count, strict=True)
    return [flag or peers or waiting > MANY_PULLS for flag, peers, waiting in rows]


def _candidates(
    board: Board, seat: Seat, state: State, newer: Sequence[int], memory: Memory
) -> list[int]:
    """Return the rows of consumers to evaluate: changed and suspicious ones."""
    columns, roster = state.consumers.columns, state.consumers.roster
    keys = roster.keys
    if not newer:
        rows = []
    elif len(newer) == len(keys):
        rows = list(compress(range(len(keys)), _suspicious(columns)))
    else:
        rows = _suspicious_of(columns, newer)
    told, attentive = state.evidence.of, seat.attentive
    if told or attentive:
        names = attentive | told.keys()
        rows += [row for row in newer if keys[row][:2] in names]
    if seat.filtered:
        delivered = columns.delivered_consumer_seq
        rows += [row for row in newer if not delivered[row] and keys[row][:2] in seat.filtered]
    if memory.lost:
        rows += [row for row in newer if keys[row] in memory.lost]
    rows += _ahead_of_stream(_before(seat), state, newer)
    rows += _known(board, roster, newer)
    return list(dict.fromkeys((*_waited(seat, roster), *_leaderless(columns), *rows)))


def _ahead_of_stream(before: Before | None, state: State, newer: Sequence[int]) -> list[int]:
    """Return the newer rows whose consumers received later messages than their stream has now."""
    if before is None:
        return []
    roster, streams = state.consumers.roster, state.streams.columns
    last_seq = dict(zip(streams.name, streams.last_seq, strict=True))
    names, delivered = state.consumers.columns.stream, before.consumer_columns.delivered_stream_seq
    if before.consumers is roster:
        return [row for row in newer if delivered[row] > last_seq.get(names[row], delivered[row])]
    rows = ((row, before.consumers.row_of.get(roster.keys[row])) for row in newer)
    return [
        row
        for row, then in rows
        if then is not None and delivered[then] > last_seq.get(names[row], delivered[then])
    ]


def _known(board: Board, roster: Roster, newer: Sequence[int]) -> Iterable[int]:
    """Return the newer rows whose entities are on the board.

    It goes from the board to the rows, because only few of many rows are on it.
    """
    row_of = roster.row_of
    found = (row_of.get(entity[:3]) for entity in board.entities if entity.consumer)
    rows = [row for row in found if row is not None]
    if len(newer) == len(roster.keys):
        return rows
    return sorted(set(newer).intersection(rows))


def _waited(seat: Seat, roster: Roster) -> Sequence[int]:
    """Return the current indexes of the rows that waited for their turn."""
    before = seat.consumers
    if before is None or before is roster:
        return seat.waiting
    found = (roster.row_of.get(before.keys[row]) for row in seat.waiting)
    return [row for row in found if row is not None]


def _consumers(board: Board, state: State, memory: Memory, rows: Iterable[int]) -> None:
    """Evaluate the consumers in some rows."""
    leader = state.consumers.columns.leader
    for row in rows:
        facts = ConsumerFacts(state, row, memory)
        entity = of_key(facts.key)
        mono_us, at_us = (
            (state.now_mono_us, state.now_at_us)
            if leader[row] is None
            else (facts.mono_us, facts.at_us)
        )
        causes = consumer_causes(facts, board.open_kinds(entity))
        board.settle(entity, causes, mono_us, at_us, CONSUMER_ORDER)


def _leaderless(columns: ConsumerColumns | StreamColumns) -> list[int]:
    """Return the rows without a leader, which are not sampled, but may have findings."""
    if None not in columns.leader:
        return []
    return list(compress(range(len(columns.leader)), (one is None for one in columns.leader)))


def _streams(board: Board, seat: Seat, state: State, newer: Sequence[int], memory: Memory) -> None:
    """Evaluate the streams that may have changed."""
    columns, keys = state.streams.columns, state.streams.roster.keys
    told, leader = state.evidence.of, columns.leader
    silent_us = state.now_at_us - round(STOPPED_LEAST_S * 1e6)
    rows = [
        row
        for row in newer
        if columns.peers[row]
        or columns.desired[row]
        or columns.upstreams[row]
        or columns.lost_msgs[row]
        or columns.deleted_msgs[row] >= HOLES_FEWEST
        or columns.subjects_count[row] >= SUBJECTS_OWN_FEWEST
        or columns.consumers_count[row] >= PILE_UP_FEWEST
        or ((columns.last_at_us[row] or silent_us) < silent_us and keys[row] in memory.flows)
        or keys[row] in memory.purged
        or keys[row] in memory.missing
        or columns.name[row] in memory.streams_recreated_at_us
        or board.knows(of_key(keys[row]))
        or columns.name[row] in seat.attentive_streams
        or columns.name[row] in seat.with_ephemerals
        or (told and (columns.name[row], "") in told)
    ]
    for row in dict.fromkeys((*_leaderless(columns), *rows)):
        facts = StreamFacts(state, row, memory)
        entity = of_key(facts.key)
        mono_us, at_us = (
            (state.now_mono_us, state.now_at_us)
            if leader[row] is None
            else (facts.mono_us, facts.at_us)
        )
        causes = stream_causes(facts, board.open_kinds(entity))
        board.settle(entity, causes, mono_us, at_us, STREAM_ORDER)


def _rest(board: Board, state: State, memory: Memory) -> None:
    """Evaluate the account, monitoring itself, and names without a row."""
    symptoms: dict[Entity, list[tuple[Kind, Symptom]]] = {}
    for entity, kind, symptom in (*account_conditions(state), *recreated_again(memory)):
        symptoms.setdefault(entity, []).append((kind, symptom))
    gone = board.told_of((GONE, S_GONE))
    for entity in {*symptoms, *board.others}.difference(gone):
        board.settle(entity, symptoms.get(entity, []), state.now_mono_us, state.now_at_us)


def _gone(board: Board, seat: Seat, state: State) -> None:
    """End the findings of deleted entities, and report deleted durable consumers and streams."""
    consumers, streams = state.consumers.roster, state.streams.roster
    if seat.consumers is not None and seat.consumers is not consumers:
        gone: dict[str, list[Entity]] = {}
        for key in _missing(seat.consumers, consumers):
            entity = of_key(key)
            board.end(entity)
            name = (entity.stream, entity.consumer)
            config = seat.consumer_settings.get(name)
            if config is None or not config.durable or _back(state, entity):
                continue
            # One that is recreated again and again is absent now and then.
            if entity.stream in streams.rows_of_stream and name not in seat.memory.recreated_at_us:
                gone.setdefault(entity.stream, []).append(entity)
        for stream, entities in gone.items():
            _report_deleted(board, GONE, Entity(stream, part="consumers"), entities)
    if seat.streams is not None and seat.streams is not streams:
        deleted = []
        for key in _missing(seat.streams, streams):
            entity = of_key(key)
            board.end(entity)
            known = seat.stream_settings.get(entity.stream)
            meant = known is not None and known.description == BENCHMARK_STREAM
            if not meant and not _back(state, entity):
                deleted.append(entity)
        if deleted:
            _report_deleted(board, S_GONE, Entity(part="streams"), deleted)
    for entity in board.told_of((GONE, S_GONE), GONE_KEPT_S):
        board.end(entity)
    for entity in board.told_of((GONE, S_GONE)):
        if entity.has_row and _back(state, entity):
            board.end(entity)


def _report_deleted(board: Board, kind: Kind, together: Entity, gone: list[Entity]) -> None:
    """Report deleted entities one by one, or many as one finding with their number."""
    told = board.told_of((kind,))
    known = board.open_finding(together, kind)
    alone = [each for each in told if each.has_row and together.stream in ("", each.stream)]
    if known is None and len(alone) + len(gone) <= MOST_GONE:
        for entity in gone:
            board.tell(entity, kind, Symptom("present in the poll before"))
        return
    before_count = len(alone) if known is None else round(known.numbers.get("count", 0.0))
    for entity in (*alone, together):
        board.end(entity)
    names = sorted(each.consumer or each.stream for each in (*alone, *gone))
    count = before_count + len(gone)
    listed = ", ".join(names[:MOST_GONE])
    more = f" and {count - len(names[:MOST_GONE])} more" if count > MOST_GONE else ""
    text = f"{count} were there before: {listed}{more}"
    board.tell(together, kind, Symptom(text, numbers={"count": count}))


def _back(state: State, entity: Entity) -> bool:
    """Return whether an entity with this name exists now."""
    if not entity.consumer:
        return entity.stream in state.streams.roster.rows_of_stream
    consumers = state.consumers.roster
    rows = consumers.rows_of_stream.get(entity.stream, ())
    return any(consumers.keys[row][1] == entity.consumer for row in rows)


def _missing(before: Roster, after: Roster) -> list[Key]:
    if _begins_with(after, before):
        return []
    return [key for key in before.keys if key not in after.row_of]


_US = 1_000_000
_NONE: frozenset[Kind] = frozenset()
_UNRANKED = Rank(-1, frozenset())


class Board:
    """The watched conditions of all entities during an evaluation."""

    def __init__(self, previous: Findings, state: State) -> None:
        self._previous = previous
        self._state = state
        before = previous.watched
        # Of tens of thousands, one by one would take as long as all the rest.
        self._watched = before.copy() if isinstance(before, MappingProxyType) else dict(before)
        self._counting = Counting(previous.counts, before)
        self._resolved: list[Finding] = []

    def knows(self, entity: Entity) -> bool:
        """Return whether an entity has watched conditions."""
        return entity in self._watched

    @property
    def entities(self) -> Collection[Entity]:
        """Return all entities with watched conditions."""
        return self._watched.keys()

    @property
    def others(self) -> list[Entity]:
        """Return the entities without a row: the account, monitoring, unreachable names."""
        return [entity for entity in self._counting.apart if not entity.has_row]

    def open_finding(self, entity: Entity, kind: Kind) -> Finding | None:
        """Return the open finding of a kind for an entity; None without one."""
        watched = self._watched.get(entity, ())
        return next((w.finding for w in watched if w.raised and w.finding.kind is kind), None)

    def open_kinds(self, entity: Entity) -> frozenset[Kind]:
        """Return the kinds of the open findings of an entity."""
        watched = self._watched.get(entity)
        if watched is None:
            return _NONE
        return frozenset(watch.finding.kind for watch in watched if watch.raised)

    def settle(
        self,
        entity: Entity,
        symptoms: list[tuple[Kind, Symptom]],
        mono_us: int,
        at_us: int,
        order: Order | None = None,
    ) -> None:
        """Set the conditions that hold for an entity at the time when it was sampled.

        With an order of precedence, only the first of several causes of a topic is reported, and a
        finding ends when two consecutive polls do not show it.
        """
        before = self._watched.get(entity, ())
        if not before and not symptoms:
            return
        left = {watch.finding.kind: watch for watch in before}
        after = [
            _holding(entity, kind, symptom, left.pop(kind, None), mono_us, at_us)
            for kind, symptom in symptoms
        ]
        for watch in left.values():
            kept = self._missed(watch, mono_us, at_us, two_polls=order is not None)
            if kept is not None:
                after.append(kept)
        if order is not None and len(after) > 1:
            after = self._first_of_topics(after, before, order, at_us)
        self._keep(entity, before, tuple(after))

    def _first_of_topics(
        self, after: list[Watched], before: tuple[Watched, ...], order: Order, at_us: int
    ) -> list[Watched]:
        """Return the conditions with only the first cause of each topic reported.

        A cause that will be reported soon prevents later ones from being reported, but ends none.
        """
        was_open = {watch.finding.kind for watch in before if watch.raised}
        reported: set[Topic] = set()
        coming: set[Topic] = set()
        kept = []
        # What has no rank of its own happened, and hides nothing.
        for watch in sorted(
            after, key=lambda watch: order.get(watch.finding.kind, _UNRANKED).order
        ):
            kind, topics = watch.finding.kind, order.get(watch.finding.kind, _UNRANKED).topics
            hidden = topics & reported or (topics & coming and kind not in was_open)
            if not hidden:
                (reported if watch.raised else coming).update(topics)
                kept.append(watch)
                continue
            if kind in was_open:
                self._resolved.append(replace(watch.finding, until_us=at_us))
            if watch.missed_mono_us is None:
                kept.append(replace(watch, raised=False, hidden=True))
        return kept

    def _keep(
        self, entity: Entity, before: tuple[Watched, ...], after: tuple[Watched, ...]
    ) -> None:
        """Replace the watched conditions of an entity."""
        self._counting.change(entity, before, after)
        if after:
            self._watched[entity] = after
        else:
            self._watched.pop(entity, None)

    def _missed(
        self, watch: Watched, mono_us: int, at_us: int, *, two_polls: bool
    ) -> Watched | None:
        """Return a condition that does not hold now, until it ends; None after its end."""
        if not watch.raised:
            return None
        is_first = watch.missed_mono_us is None
        since_mono_us = mono_us if watch.missed_mono_us is None else watch.missed_mono_us
        until_us = at_us if is_first else watch.missed_us
        is_seen_twice = not two_polls or mono_us > since_mono_us
        if is_seen_twice and mono_us - since_mono_us >= watch.finding.kind.leave_s * _US:
            self._resolved.append(replace(watch.finding, until_us=until_us))
            return None
        return replace(watch, missed_mono_us=since_mono_us, missed_us=until_us)

    def tell(self, entity: Entity, kind: Kind, symptom: Symptom) -> None:
        """Raise a finding about an event at this moment."""
        finding = Finding(
            kind, entity, self._state.now_at_us, symptom.text, symptom.sequences, symptom.numbers
        )
        event = Watched(finding, self._state.now_mono_us, raised=True)
        before = self._watched.get(entity, ())
        self._keep(entity, before, (*before, event))
        self._counting.happened(entity)

    def end(self, entity: Entity) -> None:
        """End all findings of a deleted entity."""
        at_us, before = self._state.now_at_us, self._watched.get(entity, ())
        self._keep(entity, before, ())
        for watch in before:
            if watch.raised:
                self._resolved.append(replace(watch.finding, until_us=at_us))

    def told_of(self, kinds: tuple[Kind, ...], after_s: float = 0.0) -> list[Entity]:
        """Return the entities with an event of one of the kinds at least `after_s` ago."""
        latest_us = self._state.now_at_us - after_s * _US
        happened = [(each, self._watched[each][0].finding) for each in self._counting.apart]
        return [
            each
            for each, finding in happened
            if finding.kind in kinds and finding.since_us <= latest_us
        ]

    def findings(self, seat: Seat) -> Findings:
        """Return the current findings."""
        resolved = self._previous.resolved
        if self._resolved:
            resolved = (*resolved, *self._resolved)[-RESOLVED_KEPT:]
        return Findings(
            MappingProxyType(self._watched),
            resolved,
            tuple(self._resolved),
            seat=seat,
            silences=in_force(self._previous, self._state),
            counts=self._counting.counts(),
        )


def in_force(previous: Findings, state: State) -> Mapping[tuple[Entity, str], Silence]:
    """Return the current silences; the same object if unchanged."""
    if not (previous.silences or state.silences):
        return previous.silences
    now = {
        (
            Entity(silence.stream, silence.consumer, silence.created_at_us, silence.part),
            code,
        ): silence
        for silence in state.silences
        for code in (successor_of(silence.code),)
        if silence.until_us > state.now_at_us
    }
    return previous.silences if now == previous.silences else now


def _holding(
    entity: Entity, kind: Kind, symptom: Symptom, before: Watched | None, mono_us: int, at_us: int
) -> Watched:
    """Return a watched condition that holds, raised if it has held for long enough."""
    raised = before is not None and before.raised
    first_mono_us = mono_us if before is None else before.first_mono_us
    since_us = at_us if before is None else before.finding.since_us
    if symptom.since_us is not None and not raised:
        since_us = min(symptom.since_us, at_us)
    hold_s = kind.enter_s if symptom.hold_s is None else symptom.hold_s
    held_us = max(mono_us - first_mono_us, at_us - since_us)
    if before is not None and not raised and symptom.since_us is not None:
        # A rule that tells since when knows better than the first look at it.
        held_us = at_us - since_us
    if symptom.hold_s is not None:
        # It must be seen for so long, whatever it says of the time before.
        held_us = mono_us - first_mono_us
    finding = Finding(kind, entity, since_us, symptom.text, symptom.sequences, symptom.numbers)
    return Watched(finding, first_mono_us, raised or held_us >= hold_s * _US)
