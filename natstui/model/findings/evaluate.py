"""The evaluation of findings from poll to poll: conditions are raised, kept or ended. Pure.

A condition is reported when it has held for the `enter_s` of its kind, and ends when it is absent
for its `leave_s`, so that findings do not flicker. Of the rows polled since the last evaluation,
only those that may have findings are checked; rows above a limit wait for the next poll.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import ne, or_
from types import MappingProxyType

from natstui.model.bench.plan import BENCHMARK_STREAM_DESCRIPTION
from natstui.model.clients.watch import ClientsRead
from natstui.model.findings.attention import update_checked_assets
from natstui.model.findings.catalogue.consumers import CONSUMER_DELETED
from natstui.model.findings.catalogue.every import successor_of
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import STREAM_DELETED
from natstui.model.findings.causes.cause import CauseRank, RankByKind, Topic
from natstui.model.findings.causes.consumers import CONSUMER_ORDER, consumer_causes
from natstui.model.findings.causes.risky_settings import MANY_OPEN_PULLS_COUNT
from natstui.model.findings.causes.streams import STREAM_ORDER, stream_causes
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.memory import PreviousRows, RuleMemory
from natstui.model.findings.facts.remember import update_memory
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import (
    MAX_ENDED_FINDINGS,
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
    DELETION_REPORTED_S,
    MIN_DELETED_SEQUENCES,
    MIN_PILED_UP_CONSUMERS,
    MIN_PUBLISHER_SILENCE_S,
    MIN_UNIQUE_SUBJECTS,
)
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record, Restored, Unavailable
from natstui.model.records.silences import Silence, Silenced
from natstui.model.servers.watch import ServersRead
from natstui.values import replace

MAX_CHECKED_CONSUMERS = 1_000
"""Limit of consumers that are evaluated after a poll; others are evaluated after the next."""
_MAX_ROWS_PER_STEP = 300
MAX_LISTED_DELETED_ENTITIES = 5
"""Limit of deleted streams, or consumers of a stream, that are reported as single findings."""


RECORDS_THAT_CHANGE_FINDINGS = (
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
    """Return the state with the current findings; findings from a recording are kept.

    At most `max_rows` consumers are checked now; the others wait for the next evaluation.
    """
    if state.findings.are_from_recording:
        return state
    return replace(state, findings=evaluate(state.findings, state, max_rows))


def evaluate_in_steps(state: State) -> Generator[None, None, State]:
    """Evaluate the findings as a generator that yields after some milliseconds of work.

    It returns the same state as `evaluate_findings`.
    """
    if state.findings.are_from_recording:
        return state
    findings = yield from _evaluation_steps(state.findings, state, MAX_CHECKED_CONSUMERS)
    return replace(state, findings=findings)


def apply_and_evaluate(state: State, record: Record) -> State:
    """Return the state after one more record, with current findings."""
    state_after = state.after(record)
    return (
        evaluate_findings(state_after)
        if isinstance(record, RECORDS_THAT_CHANGE_FINDINGS)
        else state_after
    )


def evaluate(previous: Findings, state: State, max_rows: int = MAX_CHECKED_CONSUMERS) -> Findings:
    """Return the findings of the state, updated from the previous ones.

    `max_rows` is that of `evaluate_findings`.
    """
    evaluation_steps = _evaluation_steps(previous, state, max_rows)
    while True:
        try:
            next(evaluation_steps)
        except StopIteration as end:
            findings: Findings = end.value
            return findings


def _evaluation_steps(
    previous: Findings, state: State, max_rows: int
) -> Generator[None, None, Findings]:
    updater = ConditionUpdater(previous, state)
    evaluation = update_checked_assets(previous.evaluation, state)
    _end_findings_of_deleted(updater, previous.evaluation, state)
    sampled_rows, sampled_streams = (
        _find_sampled_consumers(evaluation, state),
        _find_sampled_streams(evaluation, state),
    )
    memory = update_memory(
        evaluation.memory,
        _previous_rows(previous.evaluation),
        state,
        sampled_rows,
        sampled_streams,
    )
    rows = _select_consumers(updater, evaluation, state, sampled_rows, memory)
    for first_index in range(0, min(len(rows), max_rows), _MAX_ROWS_PER_STEP):
        if first_index:
            yield
        _evaluate_consumers(
            updater,
            state,
            memory,
            rows[first_index : min(first_index + _MAX_ROWS_PER_STEP, max_rows)],
        )
    if len(rows) > _MAX_ROWS_PER_STEP:
        yield
    _evaluate_streams(updater, evaluation, state, sampled_streams, memory)
    _evaluate_rowless_entities(updater, state, memory)
    next_evaluation = Evaluation(
        mono_us=state.now_mono_us,
        consumers=state.consumers.roster,
        consumer_columns=state.consumers.columns,
        streams=state.streams.roster,
        stream_columns=state.streams.columns,
        postponed_rows=tuple(rows[max_rows:]),
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
    """Return the rows of the previous evaluation; None before the first one."""
    if evaluation.consumers is None or evaluation.consumer_columns is None:
        return None
    if evaluation.streams is None or evaluation.stream_columns is None:
        return None
    return PreviousRows(
        evaluation.consumers,
        evaluation.consumer_columns,
        evaluation.streams,
        evaluation.stream_columns,
        evaluation.consumer_settings,
    )


def _find_sampled_consumers(evaluation: Evaluation, state: State) -> Sequence[int]:
    """Return the rows of consumers sampled since the previous evaluation."""
    columns, old_columns = state.consumers.columns, evaluation.consumer_columns
    old_sampled_us = old_columns.sampled_mono_us if old_columns else None
    return _find_sampled_rows(
        columns.sampled_mono_us, state.consumers.roster, old_sampled_us, evaluation.consumers
    )


def _find_sampled_streams(evaluation: Evaluation, state: State) -> Sequence[int]:
    """Return the rows of streams sampled since the previous evaluation."""
    columns, old_columns = state.streams.columns, evaluation.stream_columns
    old_sampled_us = old_columns.sampled_mono_us if old_columns else None
    return _find_sampled_rows(
        columns.sampled_mono_us, state.streams.roster, old_sampled_us, evaluation.streams
    )


def _find_sampled_rows(
    new_sampled_us: Sequence[int],
    roster: Roster,
    old_sampled_us: Sequence[int] | None,
    old_roster: Roster | None,
) -> Sequence[int]:
    """Return the rows sampled since the previous evaluation."""
    rows = range(len(new_sampled_us))
    if old_sampled_us is None or old_roster is None:
        return rows
    if roster is old_roster:
        return (
            []
            if new_sampled_us is old_sampled_us
            else list(compress(rows, map(ne, new_sampled_us, old_sampled_us)))
        )
    if _has_only_appended(roster, old_roster):
        old_rows_count = len(old_roster.keys)
        changed_rows = compress(rows, map(ne, new_sampled_us, old_sampled_us))
        return [*changed_rows, *range(old_rows_count, len(new_sampled_us))]
    old_row_of = old_roster.row_of
    sampled_rows = []
    for row, key, sampled_us in zip(rows, roster.keys, new_sampled_us, strict=True):
        old_row = old_row_of.get(key)
        if old_row is None or old_sampled_us[old_row] != sampled_us:
            sampled_rows.append(row)
    return sampled_rows


def _has_only_appended(roster: Roster, old_roster: Roster) -> bool:
    """Return whether `roster` has the rows of `old_roster`, with or without appended rows."""
    return roster.keys[: len(old_roster.keys)] == old_roster.keys


def _filter_suspicious_rows(columns: ConsumerColumns, rows: Sequence[int]) -> list[int]:
    """Return those of `rows` whose counters or replicas may cause a finding."""
    pending_msgs, ack_pending_msgs, redelivered_msgs = (
        columns.pending_msgs, columns.ack_pending_msgs, columns.redelivered_msgs,
    )  # fmt: skip
    paused, peers, open_pulls_count = columns.paused, columns.peers, columns.waiting_pulls_count
    return [
        row
        for row in rows
        if pending_msgs[row]
        or ack_pending_msgs[row]
        or redelivered_msgs[row]
        or paused[row]
        or peers[row]
        or open_pulls_count[row] > MANY_OPEN_PULLS_COUNT
    ]


def _flag_suspicious_rows(columns: ConsumerColumns) -> Iterable[object]:
    """Return a flag for each row: true if its counters or replicas may cause a finding."""
    counts = map(or_, columns.pending_msgs, columns.ack_pending_msgs)
    flags: Iterable[object] = map(or_, counts, columns.redelivered_msgs)
    if True in columns.paused:
        flags = map(or_, flags, columns.paused)
    has_many_pulls = max(columns.waiting_pulls_count, default=0) > MANY_OPEN_PULLS_COUNT
    if not has_many_pulls and not any(columns.peers):
        return flags
    rows = zip(flags, columns.peers, columns.waiting_pulls_count, strict=True)
    return [
        flag or peers or open_pulls > MANY_OPEN_PULLS_COUNT for flag, peers, open_pulls in rows
    ]


def _select_consumers(
    updater: ConditionUpdater,
    evaluation: Evaluation,
    state: State,
    sampled_rows: Sequence[int],
    memory: RuleMemory,
) -> list[int]:
    """Return the rows of consumers to evaluate, postponed ones first."""
    columns, roster = state.consumers.columns, state.consumers.roster
    keys = roster.keys
    if not sampled_rows:
        rows = []
    elif len(sampled_rows) == len(keys):
        rows = list(compress(range(len(keys)), _flag_suspicious_rows(columns)))
    else:
        rows = _filter_suspicious_rows(columns, sampled_rows)
    advisories, checked_consumers = state.evidence.entries, evaluation.checked_consumers
    if advisories or checked_consumers:
        names = checked_consumers | advisories.keys()
        rows += [row for row in sampled_rows if keys[row][:2] in names]
    if evaluation.filtered_consumers:
        delivered_seqs = columns.delivered_consumer_seq
        rows += [
            row
            for row in sampled_rows
            if not delivered_seqs[row] and keys[row][:2] in evaluation.filtered_consumers
        ]
    if memory.losses:
        rows += [row for row in sampled_rows if keys[row] in memory.losses]
    rows += _find_consumers_ahead_of_stream(_previous_rows(evaluation), state, sampled_rows)
    rows += _find_rows_with_conditions(updater, roster, sampled_rows)
    return list(
        dict.fromkeys(
            (*_find_postponed_rows(evaluation, roster), *_find_leaderless_rows(columns), *rows)
        )
    )


def _find_consumers_ahead_of_stream(
    previous_rows: PreviousRows | None, state: State, sampled_rows: Sequence[int]
) -> list[int]:
    """Return the sampled rows of consumers that were beyond their stream's end one poll before."""
    if previous_rows is None:
        return []
    roster, streams = state.consumers.roster, state.streams.columns
    last_seq_by_stream = dict(zip(streams.name, streams.last_seq, strict=True))
    names, delivered_seq_before = (
        state.consumers.columns.stream,
        previous_rows.consumer_columns.delivered_stream_seq,
    )
    if previous_rows.consumers is roster:
        return [
            row
            for row in sampled_rows
            if delivered_seq_before[row]
            > last_seq_by_stream.get(names[row], delivered_seq_before[row])
        ]
    rows = ((row, previous_rows.consumers.row_of.get(roster.keys[row])) for row in sampled_rows)
    return [
        row
        for row, previous_row in rows
        if previous_row is not None
        and delivered_seq_before[previous_row]
        > last_seq_by_stream.get(names[row], delivered_seq_before[previous_row])
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
    previous_roster = evaluation.consumers
    if previous_roster is None or previous_roster is roster:
        return evaluation.postponed_rows
    rows = (roster.row_of.get(previous_roster.keys[row]) for row in evaluation.postponed_rows)
    return [row for row in rows if row is not None]


def _evaluate_consumers(
    updater: ConditionUpdater, state: State, memory: RuleMemory, rows: Iterable[int]
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
    memory: RuleMemory,
) -> None:
    """Update the conditions of the streams that may have changed."""
    columns, keys = state.streams.columns, state.streams.roster.keys
    advisories, leader = state.evidence.entries, columns.leader
    silent_since_us = state.now_at_us - round(MIN_PUBLISHER_SILENCE_S * 1e6)
    rows = [
        row
        for row in sampled_rows
        if columns.peers[row]
        or columns.desired[row]
        or columns.upstreams[row]
        or columns.lost_msgs[row]
        or columns.deleted_msgs[row] >= MIN_DELETED_SEQUENCES
        or columns.subjects_count[row] >= MIN_UNIQUE_SUBJECTS
        or columns.consumers_count[row] >= MIN_PILED_UP_CONSUMERS
        or (
            (columns.last_at_us[row] or silent_since_us) < silent_since_us
            and keys[row] in memory.steady_publishing
        )
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


def _evaluate_rowless_entities(
    updater: ConditionUpdater, state: State, memory: RuleMemory
) -> None:
    """Update the conditions of the account, of monitoring, and of names without a row."""
    symptoms: dict[Entity, list[tuple[Kind, Symptom]]] = {}
    for entity, kind, symptom in (*account_conditions(state), *recreation_conditions(memory)):
        symptoms.setdefault(entity, []).append((kind, symptom))
    deleted_entities = updater.find_entities_with_event((CONSUMER_DELETED, STREAM_DELETED))
    for entity in {*symptoms, *updater.rowless_entities}.difference(deleted_entities):
        updater.set_conditions(
            entity, symptoms.get(entity, []), state.now_mono_us, state.now_at_us
        )


def _end_findings_of_deleted(
    updater: ConditionUpdater, evaluation: Evaluation, state: State
) -> None:
    """End the findings of deleted entities, and report deleted durable consumers and streams."""
    consumers, streams = state.consumers.roster, state.streams.roster
    if evaluation.consumers is not None and evaluation.consumers is not consumers:
        deleted_consumers: dict[str, list[Entity]] = {}
        for key in _find_deleted_keys(evaluation.consumers, consumers):
            entity = entity_of_key(key)
            updater.end_findings(entity)
            name = (entity.stream, entity.consumer)
            config = evaluation.consumer_settings.get(name)
            if config is None or not config.durable or _entity_exists(state, entity):
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
            is_benchmark_stream = (
                stream_config is not None
                and stream_config.description == BENCHMARK_STREAM_DESCRIPTION
            )
            if not is_benchmark_stream and not _entity_exists(state, entity):
                deleted_streams.append(entity)
        if deleted_streams:
            _report_deleted(updater, STREAM_DELETED, Entity(part="streams"), deleted_streams)
    for entity in updater.find_entities_with_event(
        (CONSUMER_DELETED, STREAM_DELETED), DELETION_REPORTED_S
    ):
        updater.end_findings(entity)
    for entity in updater.find_entities_with_event((CONSUMER_DELETED, STREAM_DELETED)):
        if entity.has_row and _entity_exists(state, entity):
            updater.end_findings(entity)


def _report_deleted(
    updater: ConditionUpdater, kind: Kind, joint_entity: Entity, deleted_entities: list[Entity]
) -> None:
    """Report deleted entities as single findings, or many as one finding of `joint_entity`."""
    entities_with_event = updater.find_entities_with_event((kind,))
    joint_finding = updater.find_open_finding(joint_entity, kind)
    separately_reported_entities = [
        entity
        for entity in entities_with_event
        if entity.has_row and joint_entity.stream in ("", entity.stream)
    ]
    if (
        joint_finding is None
        and len(separately_reported_entities) + len(deleted_entities)
        <= MAX_LISTED_DELETED_ENTITIES
    ):
        for entity in deleted_entities:
            updater.add_event(entity, kind, Symptom("present in the poll before"))
        return
    reported_count = (
        len(separately_reported_entities)
        if joint_finding is None
        else round(joint_finding.numbers.get("count", 0.0))
    )
    for entity in (*separately_reported_entities, joint_entity):
        updater.end_findings(entity)
    names = sorted(
        entity.consumer or entity.stream
        for entity in (*separately_reported_entities, *deleted_entities)
    )
    count = reported_count + len(deleted_entities)
    names_text = ", ".join(names[:MAX_LISTED_DELETED_ENTITIES])
    more_text = (
        f" and {count - len(names[:MAX_LISTED_DELETED_ENTITIES])} more"
        if count > MAX_LISTED_DELETED_ENTITIES
        else ""
    )
    text = f"{count} were there before: {names_text}{more_text}"
    updater.add_event(joint_entity, kind, Symptom(text, numbers={"count": count}))


def _entity_exists(state: State, entity: Entity) -> bool:
    """Return whether an entity with this name exists now."""
    if not entity.consumer:
        return entity.stream in state.streams.roster.rows_of_stream
    consumers = state.consumers.roster
    rows = consumers.rows_of_stream.get(entity.stream, ())
    return any(consumers.keys[row][1] == entity.consumer for row in rows)


def _find_deleted_keys(old_roster: Roster, new_roster: Roster) -> list[RowKey]:
    if _has_only_appended(new_roster, old_roster):
        return []
    return [key for key in old_roster.keys if key not in new_roster.row_of]


_US_PER_S = 1_000_000
_NO_KINDS: frozenset[Kind] = frozenset()
_UNRANKED = CauseRank(-1, frozenset())


class ConditionUpdater:
    """Updates the watched conditions of all entities during an evaluation."""

    def __init__(self, previous: Findings, state: State) -> None:
        self._previous_findings = previous
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
                if condition.is_raised and condition.finding.kind is kind
            ),
            None,
        )

    def find_open_kinds(self, entity: Entity) -> frozenset[Kind]:
        """Return the kinds of the open findings of an entity."""
        conditions = self._conditions.get(entity)
        if conditions is None:
            return _NO_KINDS
        return frozenset(condition.finding.kind for condition in conditions if condition.is_raised)

    def set_conditions(
        self,
        entity: Entity,
        symptoms: list[tuple[Kind, Symptom]],
        mono_us: int,
        at_us: int,
        order: RankByKind | None = None,
    ) -> None:
        """Replace the conditions of an entity by `symptoms`, sampled at `mono_us` and `at_us`.

        With an order of precedence, only the first of several causes of a topic is reported, and a
        finding ends only when two consecutive polls do not show it.
        """
        previous = self._conditions.get(entity, ())
        if not previous and not symptoms:
            return
        previous_by_kind = {condition.finding.kind: condition for condition in previous}
        conditions = []
        for kind, symptom in symptoms:
            previous_condition = previous_by_kind.pop(kind, None)
            condition = _make_condition(entity, kind, symptom, previous_condition, mono_us, at_us)
            if previous_condition is None and self._has_ended_lately(entity, kind, at_us):
                condition = replace(condition, is_recurring=True)
            conditions.append(condition)
        for condition in previous_by_kind.values():
            absent_condition = self._update_absent_condition(
                condition, mono_us, at_us, requires_two_polls=order is not None
            )
            if absent_condition is not None:
                conditions.append(absent_condition)
        if order is not None and len(conditions) > 1:
            conditions = self._report_first_of_topics(conditions, previous, order, at_us)
        self._replace_conditions(entity, previous, tuple(conditions))

    def _has_ended_lately(self, entity: Entity, kind: Kind, at_us: int) -> bool:
        """Return whether a finding of this kind has ended within its `recurrence_s`."""
        if not kind.recurrence_s:
            return False
        until_us = self._last_end_us.get((entity, kind), 0)
        return until_us >= at_us - kind.recurrence_s * _US_PER_S

    @cached_property
    def _last_end_us(self) -> Mapping[tuple[Entity, Kind], int]:
        """Return when the newest ended findings ended, the last of each entity and kind."""
        return {
            (finding.entity, finding.kind): finding.until_us or 0
            for finding in self._previous_findings.resolved
        }

    def _report_first_of_topics(
        self,
        conditions: list[WatchedCondition],
        previous: tuple[WatchedCondition, ...],
        order: RankByKind,
        at_us: int,
    ) -> list[WatchedCondition]:
        """Return the conditions; of each topic, only the first cause is reported.

        A cause that will be reported soon prevents reports of later causes, but ends no finding.
        """
        open_kinds_before = {
            condition.finding.kind for condition in previous if condition.is_raised
        }
        reported_topics: set[Topic] = set()
        soon_reported_topics: set[Topic] = set()
        reported_conditions = []
        # A condition without a rank is an event, and hides nothing.
        for condition in sorted(
            conditions,
            key=lambda condition: order.get(condition.finding.kind, _UNRANKED).precedence_index,
        ):
            kind, topics = (
                condition.finding.kind,
                order.get(condition.finding.kind, _UNRANKED).topics,
            )
            is_hidden = topics & reported_topics or (
                topics & soon_reported_topics and kind not in open_kinds_before
            )
            if not is_hidden:
                (reported_topics if condition.is_raised else soon_reported_topics).update(topics)
                reported_conditions.append(condition)
                continue
            if kind in open_kinds_before:
                self._resolved.append(replace(condition.finding, until_us=at_us))
            if condition.absent_mono_us is None:
                reported_conditions.append(replace(condition, is_raised=False, is_hidden=True))
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
        """Return a condition that is absent now, with the start of the absence; None if ended."""
        if not condition.is_raised:
            return None
        is_first_absence = condition.absent_mono_us is None
        absent_since_mono_us = (
            mono_us if condition.absent_mono_us is None else condition.absent_mono_us
        )
        absent_since_us = at_us if is_first_absence else condition.absent_at_us
        is_absence_confirmed = not requires_two_polls or mono_us > absent_since_mono_us
        if (
            is_absence_confirmed
            and mono_us - absent_since_mono_us >= condition.leave_s * _US_PER_S
        ):
            # A row may be sampled a moment before the poll whose lists showed the condition.
            is_shown_later = condition.first_mono_us >= absent_since_mono_us
            until_us = condition.finding.since_us if is_shown_later else absent_since_us
            self._resolved.append(replace(condition.finding, until_us=until_us))
            return None
        return replace(
            condition, absent_mono_us=absent_since_mono_us, absent_at_us=absent_since_us
        )

    def add_event(self, entity: Entity, kind: Kind, symptom: Symptom) -> None:
        """Report a finding about an event at the time of the state."""
        finding = Finding(
            kind, entity, self._state.now_at_us, symptom.text, symptom.sequences, symptom.numbers
        )
        condition = WatchedCondition(finding, self._state.now_mono_us, is_raised=True)
        previous = self._conditions.get(entity, ())
        self._replace_conditions(entity, previous, (*previous, condition))
        self._counter.add_event(entity)

    def end_findings(self, entity: Entity) -> None:
        """End all findings of a deleted entity."""
        at_us, conditions = self._state.now_at_us, self._conditions.get(entity, ())
        self._replace_conditions(entity, conditions, ())
        for condition in conditions:
            if condition.is_raised:
                self._resolved.append(replace(condition.finding, until_us=at_us))

    def find_entities_with_event(
        self, kinds: tuple[Kind, ...], min_age_s: float = 0.0
    ) -> list[Entity]:
        """Return the entities with an event of one of `kinds` at least `min_age_s` ago."""
        latest_us = self._state.now_at_us - min_age_s * _US_PER_S
        entities_and_findings = [
            (entity, self._conditions[entity][0].finding)
            for entity in self._counter.always_checked
        ]
        return [
            entity
            for entity, finding in entities_and_findings
            if finding.kind in kinds and finding.since_us <= latest_us
        ]

    def make_findings(self, evaluation: Evaluation) -> Findings:
        """Return the current findings."""
        resolved_findings = self._previous_findings.resolved
        if self._resolved:
            resolved_findings = (*resolved_findings, *self._resolved)[-MAX_ENDED_FINDINGS:]
        return Findings(
            MappingProxyType(self._conditions),
            resolved_findings,
            tuple(self._resolved),
            evaluation=evaluation,
            silences=find_current_silences(self._previous_findings, self._state),
            counts=self._counter.make_counts(),
        )


def find_current_silences(
    previous: Findings, state: State
) -> Mapping[tuple[Entity, str], Silence]:
    """Return the silences that are not over, by entity and code; the same object if unchanged."""
    if not (previous.silences or state.silences):
        return previous.silences
    current_silences = {
        (
            Entity(silence.stream, silence.consumer, silence.created_at_us, silence.part),
            code,
        ): silence
        for silence in state.silences
        for code in (successor_of(silence.code),)
        if silence.until_us > state.now_at_us
    }
    return previous.silences if current_silences == previous.silences else current_silences


def _make_condition(
    entity: Entity,
    kind: Kind,
    symptom: Symptom,
    previous_condition: WatchedCondition | None,
    mono_us: int,
    at_us: int,
) -> WatchedCondition:
    """Return the watched condition of a symptom, raised if it has lasted for long enough."""
    was_raised = previous_condition is not None and previous_condition.is_raised
    first_mono_us = mono_us if previous_condition is None else previous_condition.first_mono_us
    since_us = at_us if previous_condition is None else previous_condition.finding.since_us
    if symptom.since_us is not None and not was_raised:
        since_us = min(symptom.since_us, at_us)
    raise_after_s = kind.enter_s if symptom.report_after_s is None else symptom.report_after_s
    lasted_us = max(mono_us - first_mono_us, at_us - since_us)
    if previous_condition is not None and not was_raised and symptom.since_us is not None:
        # The start that a rule reports is better than the time of the first evaluation.
        lasted_us = at_us - since_us
    if symptom.report_after_s is not None:
        # The condition must be seen for `report_after_s`, whatever its start.
        lasted_us = mono_us - first_mono_us
    finding = Finding(kind, entity, since_us, symptom.text, symptom.sequences, symptom.numbers)
    return WatchedCondition(
        finding,
        first_mono_us,
        was_raised or lasted_us >= raise_after_s * _US_PER_S,
        is_recurring=previous_condition is not None and previous_condition.is_recurring,
    )
