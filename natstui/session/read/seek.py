"""The lines that build the state of a moment, from as little of the recording as that takes.

    events_from ── facts of its keyframe, then every event
    samples_from ─ the acknowledgements that a state keeps
    reports_from ─ the benchmark of its keyframe, then what it did since; all it did, without one
    findings_from  the open ones of its keyframe, then what changed
    system_from ── the servers of its keyframe, then readings of servers and connections
    polls_from ─── its keyframe's rows; then one poll in 24 s, in 6 s, in 2 s, and at last all

The history that a state keeps is thinned out on a grid of time (`natstui.model.live.history`),
so the polls left out here are exactly those that it would not have kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import add, sub
from typing import Any

import msgspec

from natstui.decoding import decoder_of
from natstui.lines import encode_record
from natstui.model.bench.view import BenchmarkSoFar
from natstui.model.findings.finding import RESOLVED_KEPT
from natstui.model.live.history import (
    CONSUMER_COLUMNS,
    STREAM_COLUMNS,
    WINDOWS_S,
    samples_kept_count,
)
from natstui.model.live.past_polls import PastPoll, PastPolls, to_bytes
from natstui.model.live.snapshot import PollCost, Snapshot
from natstui.model.live.state import COSTS_KEPT, EVENTS_KEPT, SAMPLES_KEPT, State
from natstui.model.records.record import Record
from natstui.session.files.entry import Entry
from natstui.session.files.layout import (
    EVENTS,
    FLOW,
    FLOW_KINDS,
    HOUR,
    KEYFRAME,
    MEMBERS_COUNT,
    QUARTER,
    REST,
    SYSTEM,
    SYSTEM_KINDS,
    groups,
    needed,
)
from natstui.session.files.segment import Content, polls_of, readable
from natstui.session.read.recording import Recording, Span, follows_a_loss, whole_line

_RESERVE_S = 5
_HAPPENINGS = ("advisory", "link_changed", "noted", "outcome", "gap", "clock_stepped")
"""Kinds of which every record is an event that a state keeps."""
_SAMPLES = ("ack_sample",)
"""Those of which every record is kept; `acks_counted` is in the evidence only."""
_ACKS = (*_SAMPLES, "acks_counted")
_PLANS = ("benchmark_planned",)
_FINDINGS = ("findings_changed",)


def _back_us(window_s: int, cells_count: int) -> int:
    """Return how many µs to read before a moment for a window: one period more than it spans."""
    # Twice the cells, in case there were more rows than in the polls counted.
    period_s = -(-window_s // samples_kept_count(2 * cells_count))
    return (window_s + period_s + _RESERVE_S) * 1_000_000


def _cells_count(span: Span) -> int:
    """Return rows × columns of the larger history in a poll of a segment."""
    index, polls_count = span.index, max(1, _count(span, ("snapshot",)))
    streams_count = -(-index.stream_samples_count // polls_count)
    consumers_count = -(-index.consumer_samples_count // polls_count)
    return max(streams_count * len(STREAM_COLUMNS), consumers_count * len(CONSUMER_COLUMNS))


@dataclass(frozen=True, slots=True)
class Route:
    """The segments (numbers from 0) from which each kind of record is read."""

    last: int
    events_from: int
    samples_from: int
    findings_from: int
    reports_from: int
    benchmark: BenchmarkSoFar | None
    """The benchmark in the keyframe of the first segment of reports."""
    polls_from: int
    quarter_from: int
    minutes_from: int
    all_polls_from: int
    system_from: int

    @property
    def first(self) -> int:
        """Return the first segment that is read."""
        return min(
            self.events_from,
            self.polls_from,
            self.samples_from,
            self.findings_from,
            self.reports_from,
            self.system_from,
        )

    def members(self, number: int, span: Span) -> list[int]:
        """Return the members of a segment to read."""
        members = []
        kinds = span.index.records_count
        unknown = not span.file.sealed
        event_kinds = kinds.keys() - FLOW_KINDS - SYSTEM_KINDS - {"snapshot"}
        if unknown or any(self.happens(kind, number) for kind in event_kinds):
            members.append(EVENTS)
        if unknown or any(self.flows(kind, number) for kind in kinds.keys() & FLOW_KINDS):
            members.append(FLOW)
        depths = (self.polls_from, self.quarter_from, self.minutes_from)
        polls = (HOUR, QUARTER, REST)
        if members and number < self.polls_from:
            # Always the same two, so that they are found among the parts kept in memory.
            return [EVENTS, FLOW]
        members += [m for m, since in zip(polls, depths, strict=True) if number >= since]
        has_system = len(span.index.members) == MEMBERS_COUNT and kinds.keys() & SYSTEM_KINDS
        if has_system and number >= self.system_from:
            members.append(SYSTEM)
        return members

    def happens(self, kind: str, number: int) -> bool:
        """Return whether events of a kind are read from a segment."""
        if kind in _FINDINGS:
            return number >= self.findings_from
        if kind in SYSTEM_KINDS:
            return number >= self.system_from
        return number >= (self.reports_from if _of_benchmark(kind) else self.events_from)

    def flows(self, kind: str, number: int) -> bool:
        """Return whether samples or reports of a kind are read from a segment."""
        return number >= (self.samples_from if kind in _ACKS else self.reports_from)


def route(recording: Recording, at_us: int) -> Route:
    """Return which segments have to be read for a moment."""
    last = recording.span_at(at_us)
    spans = recording.spans
    cells_count = max(_cells_count(span) for span in spans)
    reports_from, benchmark = _benchmark_from(recording, last)
    minute_ago = recording.span_at(at_us - (WINDOWS_S[0] + 1) * 1_000_000)
    return Route(
        last=last,
        events_from=_enough(spans, last, _HAPPENINGS, EVENTS_KEPT),
        samples_from=_enough(spans, last, _SAMPLES, SAMPLES_KEPT),
        findings_from=_enough(spans, last, _FINDINGS, RESOLVED_KEPT),
        reports_from=reports_from,
        benchmark=benchmark,
        polls_from=recording.span_at(at_us - _back_us(WINDOWS_S[-1], cells_count)),
        quarter_from=recording.span_at(at_us - _back_us(WINDOWS_S[-2], cells_count)),
        minutes_from=recording.span_at(at_us - _back_us(WINDOWS_S[1], cells_count)),
        all_polls_from=min(minute_ago, _enough(spans, last, ("snapshot",), COSTS_KEPT)),
        # Rates are between two readings.
        system_from=min(minute_ago, max(0, last - 1)),
    )


def _count(span: Span, kinds: Sequence[str]) -> int:
    return sum(span.index.records_count.get(kind, 0) for kind in kinds)


def _enough(spans: Sequence[Span], last: int, kinds: Sequence[str], enough_count: int) -> int:
    """Return the latest segment from which `enough_count` records come before the end of the
    last.
    """
    count = 0
    for number in range(last - 1, -1, -1):
        count += _count(spans[number], kinds)
        if count >= enough_count:
            return number
    return 0


def _of_benchmark(kind: str) -> bool:
    return kind.startswith("benchmark_")


def _benchmark_from(recording: Recording, last: int) -> tuple[int, BenchmarkSoFar | None]:
    """Return the first segment of the benchmark, and the benchmark of its keyframe."""
    spans = recording.spans
    kinds_by_span = [span.index.records_count.keys() for span in spans[:last]]
    # A run that was over before `last` is in no keyframe after it: look where it ended.
    ran = [number for number, kinds in enumerate(kinds_by_span) if any(map(_of_benchmark, kinds))]
    for number in (last, ran[-1] if ran else 0):
        keyframe = recording.keyframe(spans[number])
        if keyframe is not None and keyframe.benchmark is not None:
            return number, keyframe.benchmark
    planned_in = [number for number in ran if _count(spans[number], _PLANS)]
    return (planned_in[-1] if planned_in else last), None


def lines_until(recording: Recording, at_us: int) -> Iterator[bytes]:
    """Yield the lines that build the state of a moment, in order."""
    if not recording.spans:
        return
    chosen_route = route(recording, at_us)
    lines = HistoryLines()
    first = chosen_route.first
    for number in range(first, chosen_route.last + 1):
        span = recording.spans[number]
        if number == chosen_route.reports_from and chosen_route.benchmark is not None:
            yield from lines.line(encode_record(chosen_route.benchmark))
        for record in _beginning(recording, span, number, chosen_route):
            if isinstance(record, Snapshot):
                yield from lines.snapshot(record)
            else:
                yield from lines.line(encode_record(record))
        members = chosen_route.members(number, span)
        if members:
            content = recording.part(span, members)
            for entry in _wanted(recording, span, content, number, chosen_route, at_us):
                yield from lines.entry(entry) if entry.is_poll else lines.line(whole_line(entry))
    yield from lines.rest()


def _beginning(recording: Recording, span: Span, number: int, chosen: Route) -> list[Record]:
    """Return the keyframe records of a segment that is the first for some kind of record."""
    facts, rows = number == chosen.events_from, number == chosen.polls_from
    # Samples before this segment are left out: what they add up to is in its keyframe.
    evidence = number == chosen.samples_from > chosen.events_from
    wrong, system = number == chosen.findings_from, number == chosen.system_from
    wanted = facts or rows or evidence or wrong or system
    if not wanted and not span.index.records_count.get("gap"):
        return []
    content = recording.part(span, (KEYFRAME, EVENTS))
    keyframe = content.keyframe
    if keyframe is None:
        return []
    after_loss = follows_a_loss(content)
    records: list[Record] = keyframe.facts() if facts or after_loss else []
    if evidence and not (facts or after_loss) and keyframe.evidence is not None:
        records.append(keyframe.evidence)
    if (rows or after_loss) and keyframe.snapshot:
        records.append(keyframe.snapshot)
    if (system or after_loss) and keyframe.servers:
        records.append(keyframe.servers)
    if (wrong or after_loss) and keyframe.findings:
        records.append(keyframe.findings)
    return records


def _wanted(
    recording: Recording, span: Span, content: Content, number: int, chosen: Route, at_us: int
) -> Iterator[Entry]:
    """Yield the needed entries of one segment up to the moment, without polls that no history
    keeps.
    """
    polls = polls_of(content) if number < chosen.all_polls_from else []
    needed_polls = needed(polls, groups(polls))
    moments_us = recording.moments(span, content)
    for entry, moment_us in zip(content.entries, moments_us, strict=True):
        if moment_us > at_us:
            return
        if _is_wanted(entry, needed_polls, number, chosen):
            yield entry


def _is_wanted(entry: Entry, needed_polls: set[int], number: int, chosen: Route) -> bool:
    if entry.is_poll:
        if number < chosen.polls_from:
            return False
        return number >= chosen.all_polls_from or entry.line_count in needed_polls
    if entry.kind in FLOW_KINDS:
        return chosen.flows(entry.kind, number)
    return chosen.happens(entry.kind, number)


BLOCK_BYTES = 512 * 1024
"""Size at which a block of lines is sent, so that the reader starts while the rest is read."""

_STREAM_KEYS = ("name", "created_at_us")
_CONSUMER_KEYS = ("stream", "name", "created_at_us")
_AHEAD, _BEHIND, _STREAM_BEHIND = (
    "delivered_stream_ahead_seq",
    "ack_floor_consumer_behind_seq",
    "ack_floor_stream_behind_seq",
)
_FLOORS = ("ack_floor_consumer_seq", "ack_floor_stream_seq")
_SEQUENCES = (*_FLOORS, "delivered_stream_seq")
"""Columns that a recording stores as differences."""
_WITHOUT_SEQUENCES = tuple(column for column in CONSUMER_COLUMNS if column not in _SEQUENCES)


def _part(consumer_columns: tuple[str, ...]) -> Any:
    """Return a decoder of the columns that a history keeps; the names of the rows stay text."""

    def table(keys: tuple[str, ...], columns: tuple[str, ...]) -> Any:
        kept = [(key, msgspec.Raw) for key in keys] + [(c, list[int]) for c in columns]
        return msgspec.defstruct("Table", kept)

    account = msgspec.defstruct("Use", [("api_requests_count", int), ("api_errors_count", int)])
    kept = [
        ("streams", table(_STREAM_KEYS, STREAM_COLUMNS)),
        ("consumers", table(_CONSUMER_KEYS, consumer_columns)),
        ("account", account | None),
        ("cost", PollCost),
    ]
    return decoder_of(msgspec.defstruct("Part", kept), strict=False)


_PLAIN = _part(CONSUMER_COLUMNS)
_DIFFERENCES = _part((*_WITHOUT_SEQUENCES, _AHEAD, _BEHIND, _STREAM_BEHIND))
_ONLY_WITH_DIFFERENCES = b'"%s":' % _STREAM_BEHIND.encode()
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class _Polled:
    """The part of a poll that is sent."""

    poll: PastPoll
    columns: tuple[bytes, ...]
    """Values of the streams, then of the consumers."""


WHOLE_POLLS_COUNT = 12
"""Number of newest polls that are sent complete: they span more than the longest delay of a
finding.
"""
WHOLE_ROWS_COUNT = 20_000
"""Limit of rows in complete polls, so that a seek in a large recording stays fast."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A poll that may be sent complete, and the lines that follow it."""

    entry: Entry
    polled: _Polled
    lines: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class HistoryLines:
    """Turns polls into short lines, except the newest few, while their rows are the same.

    Findings that need some seconds are judged over those few.

    Every other line passes through it too, because it must not overtake the polls before it.
    """

    _state: State = field(default_factory=State)
    """A state that only has the names of the rows."""
    _rows: tuple[bytes, ...] = ()
    _block: list[_Polled] = field(default_factory=list)
    _held: deque[_Held] = field(default_factory=deque)
    """The newest polls, which are sent complete unless enough others follow."""

    def line(self, line: bytes) -> Iterator[bytes]:
        """Yield a line that is no poll, after the earlier polls."""
        if self._held:
            self._held[-1].lines.append(line)
        else:
            yield line

    def snapshot(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Yield a poll that is sent complete, after all earlier ones."""
        yield from self.rest()
        yield encode_record(snapshot)
        self._keep_rows(snapshot)

    def entry(self, entry: Entry) -> Iterator[bytes]:
        """Yield the lines that may be sent before another poll, which is queued."""
        polled = self._polled(entry)
        if polled is None:
            yield from self.rest()
            yield whole_line(entry)
            snapshot = readable(entry)
            if isinstance(snapshot, Snapshot):
                self._keep_rows(snapshot)
            return
        without_account = polled.poll.api_requests_count is None
        if without_account and self._held and _has_account(self._held[-1].polled):
            # A state keeps the account of the newest poll that has one.
            yield from self.rest()
        self._held.append(_Held(entry, polled))
        rows_count = max(1, len(self._state.streams) + len(self._state.consumers))
        while len(self._held) > max(1, min(WHOLE_POLLS_COUNT, WHOLE_ROWS_COUNT // rows_count)):
            yield from self._shortened(self._held.popleft())

    def rest(self) -> Iterator[bytes]:
        """Yield all queued lines."""
        yield from self._sent()
        for queued in self._held:
            yield whole_line(queued.entry)
            yield from queued.lines
        self._held.clear()

    def _shortened(self, queued: _Held) -> Iterator[bytes]:
        self._block.append(queued.polled)
        yield from queued.lines
        if len(self._block) * sum(map(len, queued.polled.columns)) >= BLOCK_BYTES:
            yield from self._sent()

    def _sent(self) -> Iterator[bytes]:
        """Yield the polls of the block as one line."""
        if not self._block:
            return
        columns = [
            b"".join(texts) for texts in zip(*(p.columns for p in self._block), strict=True)
        ]
        streams_count = len(STREAM_COLUMNS)
        polls = tuple(polled.poll for polled in self._block)
        yield encode_record(
            PastPolls(
                polls[-1].taken_at_us,
                polls,
                dict(zip(STREAM_COLUMNS, columns[:streams_count], strict=True)),
                dict(zip(CONSUMER_COLUMNS, columns[streams_count:], strict=True)),
            )
        )
        self._block = []

    def _keep_rows(self, snapshot: Snapshot) -> None:
        """Keep the names of the rows after a poll."""
        state = self._state.after(snapshot)
        streams, consumers = state.streams.columns, state.consumers.columns
        keys = [getattr(streams, key) for key in _STREAM_KEYS]
        keys += [getattr(consumers, key) for key in _CONSUMER_KEYS]
        self._rows = tuple(msgspec.json.encode(key)[1:-1] for key in keys)
        self._state = State(streams=state.streams, consumers=state.consumers)

    def _polled(self, entry: Entry) -> _Polled | None:
        """Return the part of a poll that is sent; None when it must be sent complete."""
        if not self._rows or not entry.complete:
            return None
        differences = _ONLY_WITH_DIFFERENCES in entry.pieces[0].numbered
        decoder = _DIFFERENCES if differences else _PLAIN
        try:
            parts = [decoder.decode(piece.numbered) for piece in entry.pieces]
            if self._keys(parts) != self._rows:
                return None
            streams = [_column(parts, "streams", name) for name in STREAM_COLUMNS]
            consumers = _consumers(parts, differences=differences)
            columns = tuple(map(to_bytes, (*streams, *consumers)))
        except _DAMAGE:
            return None
        if _ragged(columns[: len(streams)]) or _ragged(columns[len(streams) :]):
            return None
        first = parts[0]
        use = (None, None)
        if first.account is not None:
            use = (first.account.api_requests_count, first.account.api_errors_count)
        return _Polled(PastPoll(entry.mono_us or 0, entry.at_us, first.cost, *use), columns)

    def _keys(self, parts: list[Any]) -> tuple[bytes, ...]:
        """Return the names of the rows, as text."""
        tables = [("streams", key) for key in _STREAM_KEYS]
        tables += [("consumers", key) for key in _CONSUMER_KEYS]
        return tuple(
            b",".join(
                text for part in parts if (text := bytes(getattr(getattr(part, table), key))[1:-1])
            )
            for table, key in tables
        )


def _ragged(columns: tuple[bytes, ...]) -> bool:
    return len({*map(len, columns)}) > 1


def _has_account(polled: _Polled) -> bool:
    return polled.poll.api_requests_count is not None


def _column(parts: list[Any], table: str, name: str) -> list[int]:
    """Return a column of all parts."""
    return list(chain.from_iterable(getattr(getattr(part, table), name) for part in parts))


def _consumers(parts: list[Any], *, differences: bool) -> list[list[int]]:
    """Return the consumer columns that a history keeps."""
    if not differences:
        return [_column(parts, "consumers", name) for name in CONSUMER_COLUMNS]
    columns = {name: _column(parts, "consumers", name) for name in _WITHOUT_SEQUENCES}
    delivered = columns["delivered_consumer_seq"]
    behind = _column(parts, "consumers", _BEHIND)
    stream_seq = list(map(add, delivered, _column(parts, "consumers", _AHEAD)))
    stream_behind = _column(parts, "consumers", _STREAM_BEHIND)
    columns["delivered_stream_seq"] = stream_seq
    columns["ack_floor_consumer_seq"] = list(map(sub, delivered, behind))
    columns["ack_floor_stream_seq"] = list(map(sub, stream_seq, stream_behind))
    return [columns[name] for name in CONSUMER_COLUMNS]
