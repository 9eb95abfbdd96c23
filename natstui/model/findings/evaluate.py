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
from natstui.model.findings.attention import update_checked_assets
from natstui.model.findings.catalogue.consumers import CONSUMER_DELETED
from natstui.model.findings.catalogue.every import successor_of
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import STREAM_DELETED
from natstui.model.findings.causes.cause import Order, Rank, Topic
from natstui.model.findings.causes.consumers import CONSUMER_ORDER, consumer_causes
from natstui.model.findings.causes.settings import MANY_PULLS
from natstui.model.findings.causes.streams import STREAM_ORDER, stream_causes
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.memory import Memory, PreviousRows
from natstui.model.findings.facts.remember import update_memory
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import (
    MAX_RESOLVED,
    Entity,
    Evaluation,
    Finding,
    FindingCounter,
    Findings,
    Symptom,
    WatchedCondition,
    entity_of_key,
)
from natstui.model.findings.rules.account import account_conditions
from natstui.model.findings.rules.rowless import recreation_conditions
from natstui.model.findings.thresholds import (
    DELETED_KEPT_S,
    MIN_HOLES,
    MIN_OWN_SUBJECTS,
    MIN_PILE_UP,
    MIN_SILENCE_S,
)
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.live.state import State
from natstui.model.live.table import Key, Roster
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.silences import Silence, Silenced
from natstui.model.servers.watch import ServersRead

MAX_CHECKED_CONSUMERS = 1_000
"""Limit of consumers that are evaluated after a poll; others are evaluated after the next."""
_ROWS_PER_STEP = 300
MAX_LISTED_DELETED = 5
"""Limit of deleted streams, or consumers of a stream, that are reported as single findings."""


EVALUATED_AFTER = (
    Snapshot,
    LinkChanged,
    Unavailable,
    Restored,
    Silenced,
    ServersRead,
    ClientsRead,
)
"""Records after which findings are evaluated again."""


def evaluate_findings(state: State, max_rows: int = MAX_CHECKED_CONSUMERS) -> State:
    """Return the state with the current findings; recorded findings are kept."""
    if state.findings.recorded:
        return state
    return replace(state, findings=evaluate(state.findings, state, max_rows))


def evaluate_in_steps(state: State) -> Generator[None, None, State]:
    """Return `evaluate_findings` as a generator that yields after some milliseconds of work."""
    if state.findings.recorded:
        return state
    findings = yield from _evaluation_steps(state.findings, state, MAX_CHECKED_CONSUMERS)
    return replace(state, findings=findings)


def apply_and_evaluate(state: State, record: Record) -> State:
    """Return the state after one more record, with current findings."""
    after = state.after(record)
    return evaluate_findings(after) if isinstance(record, EVALUATED_AFTER) else after


def evaluate(previous: Findings, state: State, max_rows: int = MAX_CHECKED_CONSUMERS) -> Findings:
    """Return the findings of the state, updated from the previous ones."""
    parts = _evaluation_steps(previous, state, max_rows)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            findings: Findings = end.value
            return findings


def _evaluation_steps(
    previous: Findings, state: State, max_rows: int
) -> Generator[None, None, Findings]:
    updater = ConditionUpdater(previous, state)
    evaluation = update_checked_assets(previous.evaluation, state)
    _end_deleted(updater, previous.evaluation, state)
    sampled_rows, sampled_streams = (
        _find_sampled_consumers(evaluation, state),
        _find_sampled_streams(evaluation, state),
    )
    memory = update_memory(
        evaluation.memory, _previous_rows(evaluation), state, sampled_rows, sampled_streams
    )
    rows = _select_consumers(updater, evaluation, state, sampled_rows, memory)
    for start in range(0, min(len(rows), max_rows), _ROWS_PER_STEP):
        if start:
            yield
        _evaluate_consumers(
            updater, state, memory, rows[start : min(start + _ROWS_PER_STEP, max_rows)]
        )
    if len(rows) > _ROWS_PER_STEP:
        yield
    _evaluate_streams(updater, evaluation, state, sampled_streams, memory)
    _evaluate_others(updater, state, memory)
    next_evaluation = Evaluation(
        mono_us=state.now_mono_us,
        consumers=state.consumers.roster,
        consumer_columns=state.consumers.columns,
        streams=state.streams.roster,
        stream_columns=state.streams.columns,
        waiting_rows=tuple(rows[max_rows:]),
        consumer_settings=evaluation.consumer_settings,
        stream_settings=evaluation.stream_settings,
        checked_consumers=evaluation.checked_consumers,
        filtered_consumers=evaluation.filtered_consumers,
        checked_streams=evaluation.checked_streams,
        streams_with_ephemerals=evaluation.streams_with_ephemerals,
        memory=memory,
    )
    return updater.make_findings(next_evaluation)


def _previous_rows(evaluation: Evaluation) -> PreviousRows | None:
    """Return the rows of the previous evaluation."""
    if evaluation.consumers is None or evaluation.consumer_columns is None:
        return None
    if evaluation.streams is None or evaluation.stream_columns is None:
        return None
    return PreviousRows(
        evaluation.consumers,
        evaluation.consumer_columns,
        evaluation.streams,
        evaluation.stream_columns,
    )


def _find_sampled_consumers(evaluation: Evaluation, state: State) -> Sequence[int]:
    """Return the rows of consumers sampled since the previous evaluation."""
    columns, before = state.consumers.columns, evaluation.consumer_columns
    sampled = before.sampled_mono_us if before else None
    return _find_sampled_rows(
        columns.sampled_mono_us, state.consumers.roster, sampled, evaluation.consumers
    )


def _find_sampled_streams(evaluation: Evaluation, state: State) -> Sequence[int]:
    """Return the rows of streams sampled since the previous evaluation."""
    columns, before = state.streams.columns, evaluation.stream_columns
    sampled = before.sampled_mono_us if before else None
    return _find_sampled_rows(
        columns.sampled_mono_us, state.streams.roster, sampled, evaluation.streams
    )


def _find_sampled_rows(
    new: Sequence[int], roster: Roster, old: Sequence[int] | None, before: Roster | None
) -> Sequence[int]:
    """Return the rows sampled since the previous evaluation."""
    rows = range(len(new))
    if old is None or before is None:
        return rows
    if roster is before:
        return [] if new is old else list(compress(rows, map(ne, new, old)))
    if _has_only_appended(roster, before):
        known_count = len(before.keys)
        changed = compress(rows, map(ne, new, old))
        return [*changed, *range(known_count, len(new))]
    row_of = before.row_of
    sampled_rows = []
    for row, key, sampled_us in zip(rows, roster.keys, new, strict=True):
        old_row = row_of.get(key)
        if old_row is None or old[old_row] != sampled_us:
            sampled_rows.append(row)
    return sampled_rows


def _has_only_appended(roster: Roster, before: Roster) -> bool:
    """Return whether `roster` is `before` with rows appended, as in the first polls."""
    return roster.keys[: len(before.keys)] == before.keys


def _filter_suspicious(columns: ConsumerColumns, rows: Sequence[int]) -> list[int]:
    """Return the suspicious rows among `rows`."""
    pending, unacked, redelivered = (
        columns.pending_msgs, columns.ack_pending_msgs, columns.redelivered_msgs,
    )  # fmt: skip
    paused, peers, open_pulls = columns.paused, columns.peers, columns.waiting_pulls_count
    return [
        row
        for row in rows
        if pending[row]
        or unacked[row]
        or redelivered[row]
        or paused[row]
        or peers[row]
        or open_pulls[row] > MANY_PULLS
    ]


def _flag_suspicious(columns: ConsumerColumns) -> Iterable[object]:
    """Return for each row whether a counter or replica is suspicious."""
    counts = map(or_, columns.pending_msgs, columns.ack_pending_msgs)
    flags: Iterable[object] = map(or_, counts, columns.redelivered_msgs)
    if True in columns.paused:
        flags = map(or_, flags, columns.paused)
    has_many_pulls = max(columns.waiting_pulls_count, default=0) > MANY_PULLS
    if not has_many_pulls and not any(columns.peers):
        return flags
    rows = zip(flags, columns.peers, columns.waiting_pulls_count, strict=True)
    return [flag or peers or open_pulls > MANY_PULLS for flag, peers, open_pulls in rows]


def _select_consumers(
    updater: ConditionUpdater,
    evaluation: Evaluation,
    state: State,
    sampled_rows: Sequence[int],
    memory: Memory,
) -> list[int]:
    """Return the rows of consumers to evaluate, postponed ones first."""
    columns, roster = state.consumers.columns, state.consumers.roster
    keys = roster.keys
    if not sampled_rows:
        rows = []
    elif len(sampled_rows) == len(keys):
        rows = list(compress(range(len(keys)), _flag_suspicious(columns)))
    else:
        rows = _filter_suspicious(columns, sampled_rows)
    advisories, checked_consumers = state.evidence.entries, evaluation.checked_consumers
    if advisories or checked_consumers:
        names = checked_consumers | advisories.keys()
        rows += [row for row in sampled_rows if keys[row][:2] in names]
    if evaluation.filtered_consumers:
        delivered = columns.delivered_consumer_seq
        rows += [
            row
            for row in sampled_rows
            if not delivered[row] and keys[row][:2] in evaluation.filtered_consumers
        ]
    if memory.losses:
        rows += [row for row in sampled_rows if keys[row] in memory.losses]
    rows += _find_ahead_of_stream(_previous_rows(evaluation), state, sampled_rows)
    rows += _find_rows_with_conditions(updater, roster, sampled_rows)
    return list(
        dict.fromkeys(
            (*_find_postponed_rows(evaluation, roster), *_find_leaderless_rows(columns), *rows)
        )
    )


def _find_ahead_of_stream(
    before: PreviousRows | None, state: State, sampled_rows: Sequence[int]
) -> list[int]:
    """Return the sampled rows whose consumers were, one poll ago, beyond the stream's end."""
    if before is None:
        return []
    roster, streams = state.consumers.roster, state.streams.columns
    last_seq = dict(zip(streams.name, streams.last_seq, strict=True))
    names, delivered = state.consumers.columns.stream, before.consumer_columns.delivered_stream_seq
    if before.consumers is roster:
        return [
            row
            for row in sampled_rows
            if delivered[row] > last_seq.get(names[row], delivered[row])
        ]
    rows = ((row, before.consumers.row_of.get(roster.keys[row])) for row in sampled_rows)
    return [
        row
        for row, row_before in rows
        if row_before is not None
        and delivered[row_before] > last_seq.get(names[row], delivered[row_before])
    ]


def _find_rows_with_conditions(
    updater: ConditionUpdater, roster: Roster, sampled_rows: Sequence[int]
) -> Iterable[int]:
    """Return the sampled rows whose entities have watched conditions.

    The search starts from the entities, because only few of many rows have conditions.
    """
    row_of = roster.row_of
    rows_with_conditions = (
        row_of.get(entity[:3]) for entity in updater.entities if entity.consumer
    )
    rows = [row for row in rows_with_conditions if row is not None]
    if len(sampled_rows) == len(roster.keys):
        return rows
    return sorted(set(sampled_rows).intersection(rows))


def _find_postponed_rows(evaluation: Evaluation, roster: Roster) -> Sequence[int]:
    """Return the current indexes of the rows that the previous evaluation postponed."""
    before = evaluation.consumers
    if before is None or before is roster:
        return evaluation.waiting_rows
    rows = (roster.row_of.get(before.keys[row]) for row in evaluation.waiting_rows)
    return [row for row in rows if row is not None]


def _evaluate_consumers(
    updater: ConditionUpdater, state: State, memory: Memory, rows: Iterable[int]
) -> None:
    """Update the conditions of the consumers in `rows`."""
    leader = state.consumers.columns.leader
    for row in rows:
        facts = ConsumerFacts(state, row, memory)
        entity = entity_of_key(facts.key)
        mono_us, at_us = (
            (state.now_mono_us, state.now_at_us)
            if leader[row] is None
            else (facts.mono_us, facts.at_us)
        )
        causes = consumer_causes(facts, updater.find_open_kinds(entity))
        updater.set_conditions(entity, causes, mono_us, at_us, CONSUMER_ORDER)


def _find_leaderless_rows(columns: ConsumerColumns | StreamColumns) -> list[int]:
    """Return the rows without a leader, which are not sampled, but may have findings."""
    if None not in columns.leader:
        return []
    return list(
        compress(range(len(columns.leader)), (leader is None for leader in columns.leader))
    )


def _evaluate_streams(
    updater: ConditionUpdater,
    evaluation: Evaluation,
    state: State,
    sampled_rows: Sequence[int],
    memory: Memory,
) -> None:
    """Update the conditions of the streams that may have changed."""
    columns, keys = state.streams.columns, state.streams.roster.keys
    advisories, leader = state.evidence.entries, columns.leader
    silent_us = state.now_at_us - round(MIN_SILENCE_S * 1e6)
    rows = [
        row
        for row in sampled_rows
        if columns.peers[row]
        or columns.desired[row]
        or columns.upstreams[row]
        or columns.lost_msgs[row]
        or columns.deleted_msgs[row] >= MIN_HOLES
        or columns.subjects_count[row] >= MIN_OWN_SUBJECTS
        or columns.consumers_count[row] >= MIN_PILE_UP
        or ((columns.last_at_us[row] or silent_us) < silent_us and keys[row] in memory.flows)
        or keys[row] in memory.purges
        or keys[row] in memory.missing_messages
        or columns.name[row] in memory.streams_recreated_at_us
        or updater.has_conditions(entity_of_key(keys[row]))
        or columns.name[row] in evaluation.checked_streams
        or columns.name[row] in evaluation.streams_with_ephemerals
        or (advisories and (columns.name[row], "") in advisories)
    ]
    for row in dict.fromkeys((*_find_leaderless_rows(columns), *rows)):
        facts = StreamFacts(state, row, memory)
        entity = entity_of_key(facts.key)
        mono_us, at_us = (
            (state.now_mono_us, state.now_at_us)
            if leader[row] is None
            else (facts.mono_us, facts.at_us)
        )
        causes = stream_causes(facts, updater.find_open_kinds(entity))
        updater.set_conditions(entity, causes, mono_us, at_us, STREAM_ORDER)


def _evaluate_others(updater: ConditionUpdater, state: State, memory: Memory) -> None:
    """Update the conditions of the account, of monitoring, and of names without a row."""
    symptoms: dict[Entity, list[tuple[Kind, Symptom]]] = {}
    for entity, kind, symptom in (*account_conditions(state), *recreation_conditions(memory)):
        symptoms.setdefault(entity, []).append((kind, symptom))
    deleted = updater.find_entities_with_event((CONSUMER_DELETED, STREAM_DELETED))
    for entity in {*symptoms, *updater.rowless_entities}.difference(deleted):
        updater.set_conditions(
            entity, symptoms.get(entity, []), state.now_mono_us, state.now_at_us
        )


def _end_deleted(updater: ConditionUpdater, evaluation: Evaluation, state: State) -> None:
    """End the findings of deleted entities, and report deleted durable consumers and streams."""
    consumers, streams = state.consumers.roster, state.streams.roster
    if evaluation.consumers is not None and evaluation.consumers is not consumers:
        deleted_consumers: dict[str, list[Entity]] = {}
        for key in _find_deleted_keys(evaluation.consumers, consumers):
            entity = entity_of_key(key)
            updater.end_findings(entity)
            name = (entity.stream, entity.consumer)
            config = evaluation.consumer_settings.get(name)
            if config is None or not config.durable or _exists(state, entity):
                continue
            # A consumer that is recreated repeatedly is absent now and then.
            if (
                entity.stream in streams.rows_of_stream
                and name not in evaluation.memory.recreated_at_us
            ):
                deleted_consumers.setdefault(entity.stream, []).append(entity)
        for stream, entities in deleted_consumers.items():
            _report_deleted(updater, CONSUMER_DELETED, Entity(stream, part="consumers"), entities)
    if evaluation.streams is not None and evaluation.streams is not streams:
        deleted_streams = []
        for key in _find_deleted_keys(evaluation.streams, streams):
            entity = entity_of_key(key)
            updater.end_findings(entity)
            stream_config = evaluation.stream_settings.get(entity.stream)
            is_benchmark = (
                stream_config is not None and stream_config.description == BENCHMARK_STREAM
            )
            if not is_benchmark and not _exists(state, entity):
                deleted_streams.append(entity)
        if deleted_streams:
            _report_deleted(updater, STREAM_DELETED, Entity(part="streams"), deleted_streams)
    for entity in updater.find_entities_with_event(
        (CONSUMER_DELETED, STREAM_DELETED), DELETED_KEPT_S
    ):
        updater.end_findings(entity)
    for entity in updater.find_entities_with_event((CONSUMER_DELETED, STREAM_DELETED)):
        if entity.has_row and _exists(state, entity):
            updater.end_findings(entity)


def _report_deleted(
    updater: ConditionUpdater, kind: Kind, joint_entity: Entity, deleted: list[Entity]
) -> None:
    """Report deleted entities as single findings, or many as one finding of `joint_entity`."""
    reported_entities = updater.find_entities_with_event((kind,))
    joint_finding = updater.find_open_finding(joint_entity, kind)
    single_entities = [
        entity
        for entity in reported_entities
        if entity.has_row and joint_entity.stream in ("", entity.stream)
    ]
    if joint_finding is None and len(single_entities) + len(deleted) <= MAX_LISTED_DELETED:
        for entity in deleted:
            updater.add_event(entity, kind, Symptom("present in the poll before"))
        return
    before_count = (
        len(single_entities)
        if joint_finding is None
        else round(joint_finding.numbers.get("count", 0.0))
    )
    for entity in (*single_entities, joint_entity):
        updater.end_findings(entity)
    names = sorted(entity.consumer or entity.stream for entity in (*single_entities, *deleted))
    count = before_count + len(deleted)
    names_text = ", ".join(names[:MAX_LISTED_DELETED])
    more_text = (
        f" and {count - len(names[:MAX_LISTED_DELETED])} more"
        if count > MAX_LISTED_DELETED
        else ""
    )
    text = f"{count} were there before: {names_text}{more_text}"
    updater.add_event(joint_entity, kind, Symptom(text, numbers={"count": count}))


def _exists(state: State, entity: Entity) -> bool:
    """Return whether an entity with this name exists now."""
    if not entity.consumer:
        return entity.stream in state.streams.roster.rows_of_stream
    consumers = state.consumers.roster
    rows = consumers.rows_of_stream.get(entity.stream, ())
    return any(consumers.keys[row][1] == entity.consumer for row in rows)


def _find_deleted_keys(before: Roster, after: Roster) -> list[Key]:
    if _has_only_appended(after, before):
        return []
    return [key for key in before.keys if key not in after.row_of]


_US = 1_000_000
_NONE: frozenset[Kind] = frozenset()
_UNRANKED = Rank(-1, frozenset())


class ConditionUpdater:
    """Updates the watched conditions of all entities during an evaluation."""

    def __init__(self, previous: Findings, state: State) -> None:
        self._previous = previous
        self._state = state
        before = previous.conditions
        # Copying tens of thousands one by one would double the time of an evaluation.
        self._conditions = before.copy() if isinstance(before, MappingProxyType) else dict(before)
        self._counter = FindingCounter(previous.counts, before)
        self._resolved: list[Finding] = []

    def has_conditions(self, entity: Entity) -> bool:
        """Return whether an entity has watched conditions."""
        return entity in self._conditions

    @property
    def entities(self) -> Collection[Entity]:
        """Return all entities with watched conditions."""
        return self._conditions.keys()

    @property
    def rowless_entities(self) -> list[Entity]:
        """Return the entities without a row that have conditions, as the account."""
        return [entity for entity in self._counter.always_checked if not entity.has_row]

    def find_open_finding(self, entity: Entity, kind: Kind) -> Finding | None:
        """Return the open finding of a kind about an entity; None without one."""
        conditions = self._conditions.get(entity, ())
        return next(
            (
                condition.finding
                for condition in conditions
                if condition.raised and condition.finding.kind is kind
            ),
            None,
        )

    def find_open_kinds(self, entity: Entity) -> frozenset[Kind]:
        """Return the kinds of the open findings of an entity."""
        conditions = self._conditions.get(entity)
        if conditions is None:
            return _NONE
        return frozenset(condition.finding.kind for condition in conditions if condition.raised)

    def set_conditions(
        self,
        entity: Entity,
        symptoms: list[tuple[Kind, Symptom]],
        mono_us: int,
        at_us: int,
        order: Order | None = None,
    ) -> None:
        """Replace the conditions of an entity by `symptoms`, sampled at `mono_us` and `at_us`.

        With an order of precedence, only the first of several causes of a topic is reported, and a
        finding ends only when two consecutive polls do not show it.
        """
        before = self._conditions.get(entity, ())
        if not before and not symptoms:
            return
        previous_by_kind = {condition.finding.kind: condition for condition in before}
        conditions = [
            _make_condition(
                entity, kind, symptom, previous_by_kind.pop(kind, None), mono_us, at_us
            )
            for kind, symptom in symptoms
        ]
        for condition in previous_by_kind.values():
            absent_condition = self._update_absent_condition(
                condition, mono_us, at_us, requires_two_polls=order is not None
            )
            if absent_condition is not None:
                conditions.append(absent_condition)
        if order is not None and len(conditions) > 1:
            conditions = self._report_first_of_topics(conditions, before, order, at_us)
        self._replace_conditions(entity, before, tuple(conditions))

    def _report_first_of_topics(
        self,
        conditions: list[WatchedCondition],
        previous: tuple[WatchedCondition, ...],
        order: Order,
        at_us: int,
    ) -> list[WatchedCondition]:
        """Return the conditions; of each topic, only the first cause is reported.

        A cause that will be reported soon prevents reports of later causes, but ends no finding.
        """
        open_kinds_before = {condition.finding.kind for condition in previous if condition.raised}
        reported: set[Topic] = set()
        upcoming: set[Topic] = set()
        reported_conditions = []
        # A condition without a rank is an event, and hides nothing.
        for condition in sorted(
            conditions, key=lambda condition: order.get(condition.finding.kind, _UNRANKED).order
        ):
            kind, topics = (
                condition.finding.kind,
                order.get(condition.finding.kind, _UNRANKED).topics,
            )
            hidden = topics & reported or (topics & upcoming and kind not in open_kinds_before)
            if not hidden:
                (reported if condition.raised else upcoming).update(topics)
                reported_conditions.append(condition)
                continue
            if kind in open_kinds_before:
                self._resolved.append(replace(condition.finding, until_us=at_us))
            if condition.absent_mono_us is None:
                reported_conditions.append(replace(condition, raised=False, hidden=True))
        return reported_conditions

    def _replace_conditions(
        self,
        entity: Entity,
        previous: tuple[WatchedCondition, ...],
        current: tuple[WatchedCondition, ...],
    ) -> None:
        """Store the conditions of an entity, and update the counts of findings."""
        self._counter.replace_counts(entity, previous, current)
        if current:
            self._conditions[entity] = current
        else:
            self._conditions.pop(entity, None)

    def _update_absent_condition(
        self, condition: WatchedCondition, mono_us: int, at_us: int, *, requires_two_polls: bool
    ) -> WatchedCondition | None:
        """Return a condition that does not hold now; None when it ends."""
        if not condition.raised:
            return None
        is_first = condition.absent_mono_us is None
        since_mono_us = mono_us if condition.absent_mono_us is None else condition.absent_mono_us
        until_us = at_us if is_first else condition.absent_at_us
        is_seen_twice = not requires_two_polls or mono_us > since_mono_us
        if is_seen_twice and mono_us - since_mono_us >= condition.finding.kind.leave_s * _US:
            self._resolved.append(replace(condition.finding, until_us=until_us))
            return None
        return replace(condition, absent_mono_us=since_mono_us, absent_at_us=until_us)

    def add_event(self, entity: Entity, kind: Kind, symptom: Symptom) -> None:
        """Report a finding about an event at the time of the state."""
        finding = Finding(
            kind, entity, self._state.now_at_us, symptom.text, symptom.sequences, symptom.numbers
        )
        condition = WatchedCondition(finding, self._state.now_mono_us, raised=True)
        previous = self._conditions.get(entity, ())
        self._replace_conditions(entity, previous, (*previous, condition))
        self._counter.add_event(entity)

    def end_findings(self, entity: Entity) -> None:
        """End all findings of a deleted entity."""
        at_us, conditions = self._state.now_at_us, self._conditions.get(entity, ())
        self._replace_conditions(entity, conditions, ())
        for condition in conditions:
            if condition.raised:
                self._resolved.append(replace(condition.finding, until_us=at_us))

    def find_entities_with_event(
        self, kinds: tuple[Kind, ...], after_s: float = 0.0
    ) -> list[Entity]:
        """Return the entities with an event of one of `kinds` at least `after_s` ago."""
        latest_us = self._state.now_at_us - after_s * _US
        events = [
            (entity, self._conditions[entity][0].finding)
            for entity in self._counter.always_checked
        ]
        return [
            entity
            for entity, finding in events
            if finding.kind in kinds and finding.since_us <= latest_us
        ]

    def make_findings(self, evaluation: Evaluation) -> Findings:
        """Return the current findings."""
        resolved = self._previous.resolved
        if self._resolved:
            resolved = (*resolved, *self._resolved)[-MAX_RESOLVED:]
        return Findings(
            MappingProxyType(self._conditions),
            resolved,
            tuple(self._resolved),
            evaluation=evaluation,
            silences=find_current_silences(self._previous, self._state),
            counts=self._counter.make_counts(),
        )


def find_current_silences(
    previous: Findings, state: State
) -> Mapping[tuple[Entity, str], Silence]:
    """Return the current silences; the same object if unchanged."""
    if not (previous.silences or state.silences):
        return previous.silences
    current = {
        (
            Entity(silence.stream, silence.consumer, silence.created_at_us, silence.part),
            code,
        ): silence
        for silence in state.silences
        for code in (successor_of(silence.code),)
        if silence.until_us > state.now_at_us
    }
    return previous.silences if current == previous.silences else current


def _make_condition(
    entity: Entity,
    kind: Kind,
    symptom: Symptom,
    previous: WatchedCondition | None,
    mono_us: int,
    at_us: int,
) -> WatchedCondition:
    """Return the watched condition of a symptom; it is raised after lasting for long enough."""
    raised = previous is not None and previous.raised
    first_mono_us = mono_us if previous is None else previous.first_mono_us
    since_us = at_us if previous is None else previous.finding.since_us
    if symptom.since_us is not None and not raised:
        since_us = min(symptom.since_us, at_us)
    hold_s = kind.enter_s if symptom.hold_s is None else symptom.hold_s
    lasted_us = max(mono_us - first_mono_us, at_us - since_us)
    if previous is not None and not raised and symptom.since_us is not None:
        # The start that a rule reports is better than the time of the first evaluation.
        lasted_us = at_us - since_us
    if symptom.hold_s is not None:
        # The condition must be seen for `hold_s`, whatever its start.
        lasted_us = mono_us - first_mono_us
    finding = Finding(kind, entity, since_us, symptom.text, symptom.sequences, symptom.numbers)
    return WatchedCondition(finding, first_mono_us, raised or lasted_us >= hold_s * _US)
