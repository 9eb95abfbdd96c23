"""The lines that build the state of a time, read from as few segments as possible.

    first_events_segment: the base records of its keyframe, then every event
    first_samples_segment: the ack samples that a state keeps
    first_reports_segment: the benchmark of its keyframe, then later records; or all records
    first_findings_segment: the open findings of its keyframe, then the changes
    first_system_segment: the servers of its keyframe, then readings of servers and connections
    first_polls_segment: the rows of its keyframe, then a poll in 24 s, in 6 s, in 2 s, then all

A state keeps a history on a grid of time (`natstui.model.live.history`): the polls that are not
read here are exactly the polls that the history would not have kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import add, sub
from typing import Any

import msgspec
from msgspec import Struct

from natstui.decoding import decoder_of
from natstui.lines import encode_record
from natstui.model.bench.view import BenchmarkSoFar
from natstui.model.findings.finding import MAX_ENDED_FINDINGS
from natstui.model.live.history import (
    CONSUMER_COLUMNS,
    STREAM_COLUMNS,
    WINDOWS_S,
    max_samples_count,
)
from natstui.model.live.past_polls import PastPoll, PastPolls, to_bytes
from natstui.model.live.snapshot import PollCost, Snapshot
from natstui.model.live.state import ACK_SAMPLES_KEPT, COSTS_KEPT, EVENTS_KEPT, State
from natstui.model.records.record import Record
from natstui.session.files.entry import Entry
from natstui.session.files.layout import (
    EVENTS_MEMBER,
    FREQUENT_KINDS,
    FREQUENT_MEMBER,
    HOUR_POLLS_MEMBER,
    KEYFRAME_MEMBER,
    MEMBERS_COUNT,
    OTHER_POLLS_MEMBER,
    QUARTER_POLLS_MEMBER,
    SYSTEM_KINDS,
    SYSTEM_MEMBER,
    find_needed_polls,
    group_polls,
)
from natstui.session.files.segment import SegmentContent, decode_or_none, list_polls
from natstui.session.read.recording import Recording, Span, begins_after_loss, line_or_empty

_READ_MARGIN_S = 5
_EVENT_KINDS = ("advisory", "link_changed", "noted", "outcome", "gap", "clock_stepped")
"""Kinds of records that a state keeps as events."""
_SAMPLE_KINDS = ("ack_sample",)
"""Kinds of records that a state keeps as samples; `acks_counted` is in the evidence only."""
_ACK_KINDS = (*_SAMPLE_KINDS, "acks_counted")
_PLAN_KINDS = ("benchmark_planned",)
_FINDING_KINDS = ("findings_changed",)


def _read_back_us(window_s: int, cells_count: int) -> int:
    """Return how many µs before a time polls are read for a window of `window_s`.

    These are its length, one period of its grid and a margin.
    """
    # Twice the cells, in case there were more rows than in the polls counted.
    period_s = -(-window_s // max_samples_count(2 * cells_count))
    return (window_s + period_s + _READ_MARGIN_S) * 1_000_000


def _count_cells(span: Span) -> int:
    """Return rows × columns in an average poll of a segment.

    It is the larger number of the two histories, of streams and of consumers.
    """
    index, polls_count = span.index, max(1, _count_records(span, ("snapshot",)))
    streams_count = -(-index.stream_samples_count // polls_count)
    consumers_count = -(-index.consumer_samples_count // polls_count)
    return max(streams_count * len(STREAM_COLUMNS), consumers_count * len(CONSUMER_COLUMNS))


class SeekPlan(Struct, frozen=True):
    """The first segment (numbers from 0) from which each kind of record is read for a seek."""

    last_segment: int
    first_events_segment: int
    first_samples_segment: int
    first_findings_segment: int
    first_reports_segment: int
    benchmark: BenchmarkSoFar | None
    """The benchmark in the keyframe of the first segment of reports."""
    first_polls_segment: int
    first_quarter_polls_segment: int
    first_minutes_polls_segment: int
    first_all_polls_segment: int
    first_system_segment: int

    @property
    def first_segment(self) -> int:
        """Return the number of the first segment that is read."""
        return min(
            self.first_events_segment,
            self.first_polls_segment,
            self.first_samples_segment,
            self.first_findings_segment,
            self.first_reports_segment,
            self.first_system_segment,
        )

    def members(self, segment_number: int, span: Span) -> list[int]:
        """Return the numbers of the gzip members of a segment that are read."""
        members = []
        kinds = span.index.records_count
        is_open = not span.file.sealed
        event_kinds = kinds.keys() - FREQUENT_KINDS - SYSTEM_KINDS - {"snapshot"}
        if is_open or any(self.reads_events(kind, segment_number) for kind in event_kinds):
            members.append(EVENTS_MEMBER)
        if is_open or any(
            self.reads_frequent(kind, segment_number) for kind in kinds.keys() & FREQUENT_KINDS
        ):
            members.append(FREQUENT_MEMBER)
        first_segments = (
            self.first_polls_segment,
            self.first_quarter_polls_segment,
            self.first_minutes_polls_segment,
        )
        poll_members = (HOUR_POLLS_MEMBER, QUARTER_POLLS_MEMBER, OTHER_POLLS_MEMBER)
        if members and segment_number < self.first_polls_segment:
            # Always the same two members, because the cache has them together.
            return [EVENTS_MEMBER, FREQUENT_MEMBER]
        members += [
            member
            for member, first_segment in zip(poll_members, first_segments, strict=True)
            if segment_number >= first_segment
        ]
        has_system_member = (
            len(span.index.members) == MEMBERS_COUNT and kinds.keys() & SYSTEM_KINDS
        )
        if has_system_member and segment_number >= self.first_system_segment:
            members.append(SYSTEM_MEMBER)
        return members

    def reads_events(self, kind: str, segment_number: int) -> bool:
        """Return whether events of a kind are read from a segment."""
        if kind in _FINDING_KINDS:
            return segment_number >= self.first_findings_segment
        if kind in SYSTEM_KINDS:
            return segment_number >= self.first_system_segment
        return segment_number >= (
            self.first_reports_segment if _is_benchmark_kind(kind) else self.first_events_segment
        )

    def reads_frequent(self, kind: str, segment_number: int) -> bool:
        """Return whether samples or reports of a kind are read from a segment."""
        return segment_number >= (
            self.first_samples_segment if kind in _ACK_KINDS else self.first_reports_segment
        )


def plan_seek(recording: Recording, at_us: int) -> SeekPlan:
    """Return the segments that must be read to build the state of a time."""
    last_segment = recording.span_index_at(at_us)
    spans = recording.spans
    cells_count = max(_count_cells(span) for span in spans)
    first_reports_segment, benchmark = _find_benchmark_segment(recording, last_segment)
    minute_ago_segment = recording.span_index_at(at_us - (WINDOWS_S[0] + 1) * 1_000_000)
    return SeekPlan(
        last_segment=last_segment,
        first_events_segment=_find_first_segment(spans, last_segment, _EVENT_KINDS, EVENTS_KEPT),
        first_samples_segment=_find_first_segment(
            spans, last_segment, _SAMPLE_KINDS, ACK_SAMPLES_KEPT
        ),
        first_findings_segment=_find_first_segment(
            spans, last_segment, _FINDING_KINDS, MAX_ENDED_FINDINGS
        ),
        first_reports_segment=first_reports_segment,
        benchmark=benchmark,
        first_polls_segment=recording.span_index_at(
            at_us - _read_back_us(WINDOWS_S[-1], cells_count)
        ),
        first_quarter_polls_segment=recording.span_index_at(
            at_us - _read_back_us(WINDOWS_S[-2], cells_count)
        ),
        first_minutes_polls_segment=recording.span_index_at(
            at_us - _read_back_us(WINDOWS_S[1], cells_count)
        ),
        first_all_polls_segment=min(
            minute_ago_segment, _find_first_segment(spans, last_segment, ("snapshot",), COSTS_KEPT)
        ),
        # Rates are between two readings.
        first_system_segment=min(minute_ago_segment, max(0, last_segment - 1)),
    )


def _count_records(span: Span, kinds: Sequence[str]) -> int:
    return sum(span.index.records_count.get(kind, 0) for kind in kinds)


def _find_first_segment(
    spans: Sequence[Span], last_segment: int, kinds: Sequence[str], min_count: int
) -> int:
    """Return the number of the latest segment such that it and the later ones before segment
    `last_segment` have `min_count` records of these kinds; 0 if there are fewer records.
    """
    count = 0
    for number in range(last_segment - 1, -1, -1):
        count += _count_records(spans[number], kinds)
        if count >= min_count:
            return number
    return 0


def _is_benchmark_kind(kind: str) -> bool:
    return kind.startswith("benchmark_")


def _find_benchmark_segment(
    recording: Recording, last_segment: int
) -> tuple[int, BenchmarkSoFar | None]:
    """Return the number of the segment from which the benchmark's records are read, and the
    benchmark in the keyframe of this segment or None.
    """
    spans = recording.spans
    kinds_by_segment = [span.index.records_count.keys() for span in spans[:last_segment]]
    # A run that was over before is in no later keyframe, but in the segment of its end.
    benchmark_segments = [
        number
        for number, kinds in enumerate(kinds_by_segment)
        if any(map(_is_benchmark_kind, kinds))
    ]
    for number in (last_segment, benchmark_segments[-1] if benchmark_segments else 0):
        keyframe = recording.keyframe(spans[number])
        if keyframe is not None and keyframe.benchmark is not None:
            return number, keyframe.benchmark
    planned_segments = [
        number for number in benchmark_segments if _count_records(spans[number], _PLAN_KINDS)
    ]
    return (planned_segments[-1] if planned_segments else last_segment), None


def lines_until(recording: Recording, at_us: int) -> Iterator[bytes]:
    """Yield, in order, the lines that build the state at `at_us`."""
    if not recording.spans:
        return
    seek_plan = plan_seek(recording, at_us)
    line_builder = HistoryLineBuilder()
    first_segment = seek_plan.first_segment
    for number in range(first_segment, seek_plan.last_segment + 1):
        span = recording.spans[number]
        if number == seek_plan.first_reports_segment and seek_plan.benchmark is not None:
            yield from line_builder.add_line(encode_record(seek_plan.benchmark))
        for record in _keyframe_records(recording, span, number, seek_plan):
            if isinstance(record, Snapshot):
                yield from line_builder.add_snapshot(record)
            else:
                yield from line_builder.add_line(encode_record(record))
        members = seek_plan.members(number, span)
        if members:
            content = recording.read_members(span, members)
            for entry in _needed_entries(recording, span, content, number, seek_plan, at_us):
                yield from (
                    line_builder.add_poll(entry)
                    if entry.is_poll
                    else line_builder.add_line(line_or_empty(entry))
                )
    yield from line_builder.flush()


def _keyframe_records(
    recording: Recording, span: Span, number: int, seek_plan: SeekPlan
) -> list[Record]:
    """Return the keyframe records of segment `number` for the kinds of record that `seek_plan`
    reads from this segment on.
    """
    is_first_events_segment, is_first_polls_segment = (
        number == seek_plan.first_events_segment,
        number == seek_plan.first_polls_segment,
    )
    # Samples before this segment are not read: its keyframe has their sums.
    is_first_samples_segment = (
        number == seek_plan.first_samples_segment > seek_plan.first_events_segment
    )
    is_first_findings_segment, is_first_system_segment = (
        number == seek_plan.first_findings_segment,
        number == seek_plan.first_system_segment,
    )
    is_keyframe_needed = (
        is_first_events_segment
        or is_first_polls_segment
        or is_first_samples_segment
        or is_first_findings_segment
        or is_first_system_segment
    )
    if not is_keyframe_needed and not span.index.records_count.get("gap"):
        return []
    content = recording.read_members(span, (KEYFRAME_MEMBER, EVENTS_MEMBER))
    keyframe = content.keyframe
    if keyframe is None:
        return []
    is_after_loss = begins_after_loss(content)
    records: list[Record] = (
        keyframe.base_records() if is_first_events_segment or is_after_loss else []
    )
    if (
        is_first_samples_segment
        and not (is_first_events_segment or is_after_loss)
        and keyframe.evidence is not None
    ):
        records.append(keyframe.evidence)
    if (is_first_polls_segment or is_after_loss) and keyframe.snapshot:
        records.append(keyframe.snapshot)
    if (is_first_system_segment or is_after_loss) and keyframe.servers:
        records.append(keyframe.servers)
    if (is_first_findings_segment or is_after_loss) and keyframe.findings:
        records.append(keyframe.findings)
    return records


def _needed_entries(
    recording: Recording,
    span: Span,
    content: SegmentContent,
    number: int,
    seek_plan: SeekPlan,
    at_us: int,
) -> Iterator[Entry]:
    """Yield the entries of segment `number` that `seek_plan` reads, up to `at_us`, without polls
    that no history keeps.
    """
    polls = list_polls(content) if number < seek_plan.first_all_polls_segment else []
    needed_poll_lines = find_needed_polls(polls, group_polls(polls))
    times_us = recording.entry_times(span, content)
    for entry, time_us in zip(content.entries, times_us, strict=True):
        if time_us > at_us:
            return
        if _is_needed(entry, needed_poll_lines, number, seek_plan):
            yield entry


def _is_needed(
    entry: Entry, needed_poll_lines: set[int], number: int, seek_plan: SeekPlan
) -> bool:
    if entry.is_poll:
        if number < seek_plan.first_polls_segment:
            return False
        return (
            number >= seek_plan.first_all_polls_segment or entry.line_number in needed_poll_lines
        )
    if entry.kind in FREQUENT_KINDS:
        return seek_plan.reads_frequent(entry.kind, number)
    return seek_plan.reads_events(entry.kind, number)


BLOCK_BYTES = 512 * 1024
"""Size at which a block of lines is sent, so that the reader starts while the rest is read."""

_STREAM_KEYS = ("name", "created_at_us")
_CONSUMER_KEYS = ("stream", "name", "created_at_us")
_STREAM_AHEAD_COLUMN, _CONSUMER_FLOOR_BEHIND_COLUMN, _STREAM_FLOOR_BEHIND_COLUMN = (
    "delivered_stream_ahead_seq",
    "ack_floor_consumer_behind_seq",
    "ack_floor_stream_behind_seq",
)
_FLOOR_COLUMNS = ("ack_floor_consumer_seq", "ack_floor_stream_seq")
_SEQUENCE_COLUMNS = (*_FLOOR_COLUMNS, "delivered_stream_seq")
"""Columns that a recording stores as differences."""
_CONSUMER_COLUMNS_WITHOUT_SEQUENCES = tuple(
    column for column in CONSUMER_COLUMNS if column not in _SEQUENCE_COLUMNS
)


def _part_decoder(consumer_columns: tuple[str, ...]) -> Any:
    """Return a decoder of a part of a poll that decodes only the columns that a history keeps.

    The names of the rows stay JSON text.
    """

    def make_table_type(keys: tuple[str, ...], columns: tuple[str, ...]) -> Any:
        struct_fields = [(key, msgspec.Raw) for key in keys] + [
            (column, list[int]) for column in columns
        ]
        return msgspec.defstruct("Table", struct_fields)

    account_type = msgspec.defstruct(
        "Use", [("api_requests_count", int), ("api_errors_count", int)]
    )
    struct_fields = [
        ("streams", make_table_type(_STREAM_KEYS, STREAM_COLUMNS)),
        ("consumers", make_table_type(_CONSUMER_KEYS, consumer_columns)),
        ("account", account_type | None),
        ("cost", PollCost),
    ]
    return decoder_of(msgspec.defstruct("Part", struct_fields), strict=False)


_PLAIN_DECODER = _part_decoder(CONSUMER_COLUMNS)
_DIFFERENCES_DECODER = _part_decoder(
    (
        *_CONSUMER_COLUMNS_WITHOUT_SEQUENCES,
        _STREAM_AHEAD_COLUMN,
        _CONSUMER_FLOOR_BEHIND_COLUMN,
        _STREAM_FLOOR_BEHIND_COLUMN,
    )
)
_DIFFERENCES_KEY = b'"%s":' % _STREAM_FLOOR_BEHIND_COLUMN.encode()
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)


class _HistoryPoll(Struct, frozen=True):
    """The values of a poll that a history keeps."""

    poll: PastPoll
    columns: tuple[bytes, ...]
    """Values of the streams, then of the consumers."""


COMPLETE_POLLS_COUNT = 12
"""Number of newest polls that are sent complete: more than the longest delay of a finding."""
MAX_COMPLETE_ROWS = 20_000
"""Limit of rows in complete polls, so that a seek in a large recording stays fast."""


class _DelayedPoll(Struct, frozen=True):
    """A poll that is delayed until it is known whether it is sent complete, and the lines after
    it.
    """

    entry: Entry
    history_poll: _HistoryPoll
    lines: list[bytes] = msgspec.field(default_factory=list)


@dataclass(slots=True)
class HistoryLineBuilder:
    """Shortens polls to the columns that a history keeps.

    A poll stays complete if its rows differ from those of the previous poll. The newest polls
    stay complete, too, because findings may need their other columns. All other lines pass
    through the builder, so that the order of lines is kept.
    """

    _state: State = field(default_factory=State)
    """A state that only has the names of the rows."""
    _current_row_names: tuple[bytes, ...] = ()
    _block_polls: list[_HistoryPoll] = field(default_factory=list)
    """Shortened polls that will be sent as one line."""
    _delayed_polls: deque[_DelayedPoll] = field(default_factory=deque)
    """The newest polls, which are sent complete unless enough others follow."""

    def add_line(self, line: bytes) -> Iterator[bytes]:
        """Yield a line that is not a poll, or delay it with the polls before it."""
        if self._delayed_polls:
            self._delayed_polls[-1].lines.append(line)
        else:
            yield line

    def add_snapshot(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Yield all delayed lines, then a poll that is sent complete."""
        yield from self.flush()
        yield encode_record(snapshot)
        self._update_row_names(snapshot)

    def add_poll(self, entry: Entry) -> Iterator[bytes]:
        """Delay a poll until enough others follow; yield the lines that can be sent before it."""
        history_poll = self._decode_poll(entry)
        if history_poll is None:
            yield from self.flush()
            yield line_or_empty(entry)
            snapshot = decode_or_none(entry)
            if isinstance(snapshot, Snapshot):
                self._update_row_names(snapshot)
            return
        lacks_account_counts = history_poll.poll.api_requests_count is None
        if (
            lacks_account_counts
            and self._delayed_polls
            and _has_account_counts(self._delayed_polls[-1].history_poll)
        ):
            # A state keeps the account of the newest poll that has one.
            yield from self.flush()
        self._delayed_polls.append(_DelayedPoll(entry, history_poll))
        rows_count = max(1, len(self._state.streams) + len(self._state.consumers))
        while len(self._delayed_polls) > max(
            1, min(COMPLETE_POLLS_COUNT, MAX_COMPLETE_ROWS // rows_count)
        ):
            yield from self._add_to_block(self._delayed_polls.popleft())

    def flush(self) -> Iterator[bytes]:
        """Yield all delayed lines."""
        yield from self._flush_block()
        for delayed_poll in self._delayed_polls:
            yield line_or_empty(delayed_poll.entry)
            yield from delayed_poll.lines
        self._delayed_polls.clear()

    def _add_to_block(self, delayed_poll: _DelayedPoll) -> Iterator[bytes]:
        self._block_polls.append(delayed_poll.history_poll)
        yield from delayed_poll.lines
        if (
            len(self._block_polls) * sum(map(len, delayed_poll.history_poll.columns))
            >= BLOCK_BYTES
        ):
            yield from self._flush_block()

    def _flush_block(self) -> Iterator[bytes]:
        """Yield the shortened polls of the block as one line."""
        if not self._block_polls:
            return
        columns = [
            b"".join(column_parts)
            for column_parts in zip(*(poll.columns for poll in self._block_polls), strict=True)
        ]
        streams_count = len(STREAM_COLUMNS)
        polls = tuple(history_poll.poll for history_poll in self._block_polls)
        yield encode_record(
            PastPolls(
                polls[-1].taken_at_us,
                polls,
                dict(zip(STREAM_COLUMNS, columns[:streams_count], strict=True)),
                dict(zip(CONSUMER_COLUMNS, columns[streams_count:], strict=True)),
            )
        )
        self._block_polls = []

    def _update_row_names(self, snapshot: Snapshot) -> None:
        """Store the names of the rows of a poll."""
        state = self._state.after(snapshot)
        streams, consumers = state.streams.columns, state.consumers.columns
        keys = [getattr(streams, key) for key in _STREAM_KEYS]
        keys += [getattr(consumers, key) for key in _CONSUMER_KEYS]
        self._current_row_names = tuple(msgspec.json.encode(key)[1:-1] for key in keys)
        self._state = State(streams=state.streams, consumers=state.consumers)

    def _decode_poll(self, entry: Entry) -> _HistoryPoll | None:
        """Return the values of a poll that a history keeps; None if the poll must be sent
        complete.
        """
        if not self._current_row_names or not entry.is_complete:
            return None
        has_differences = _DIFFERENCES_KEY in entry.parts[0].numbered_line
        decoder = _DIFFERENCES_DECODER if has_differences else _PLAIN_DECODER
        try:
            parts = [decoder.decode(part.numbered_line) for part in entry.parts]
            if self._row_names(parts) != self._current_row_names:
                return None
            streams = [_join_column(parts, "streams", name) for name in STREAM_COLUMNS]
            consumers = _join_consumer_columns(parts, has_differences=has_differences)
            columns = tuple(map(to_bytes, (*streams, *consumers)))
        except _DECODE_ERRORS:
            return None
        if _have_different_lengths(columns[: len(streams)]) or _have_different_lengths(
            columns[len(streams) :]
        ):
            return None
        first_part = parts[0]
        account_counts = (None, None)
        if first_part.account is not None:
            account_counts = (
                first_part.account.api_requests_count,
                first_part.account.api_errors_count,
            )
        return _HistoryPoll(
            PastPoll(entry.mono_us or 0, entry.at_us, first_part.cost, *account_counts), columns
        )

    def _row_names(self, parts: list[Any]) -> tuple[bytes, ...]:
        """Return the names of the rows, as JSON text."""
        tables = [("streams", key) for key in _STREAM_KEYS]
        tables += [("consumers", key) for key in _CONSUMER_KEYS]
        return tuple(
            b",".join(
                text for part in parts if (text := bytes(getattr(getattr(part, table), key))[1:-1])
            )
            for table, key in tables
        )


def _have_different_lengths(columns: tuple[bytes, ...]) -> bool:
    return len({*map(len, columns)}) > 1


def _has_account_counts(history_poll: _HistoryPoll) -> bool:
    return history_poll.poll.api_requests_count is not None


def _join_column(parts: list[Any], table: str, name: str) -> list[int]:
    """Return a column of a table, joined from all parts."""
    return list(chain.from_iterable(getattr(getattr(part, table), name) for part in parts))


def _join_consumer_columns(parts: list[Any], *, has_differences: bool) -> list[list[int]]:
    """Return the consumer columns that a history keeps, computed from differences if needed."""
    if not has_differences:
        return [_join_column(parts, "consumers", name) for name in CONSUMER_COLUMNS]
    columns = {
        name: _join_column(parts, "consumers", name)
        for name in _CONSUMER_COLUMNS_WITHOUT_SEQUENCES
    }
    delivered_seqs = columns["delivered_consumer_seq"]
    consumer_floor_distances = _join_column(parts, "consumers", _CONSUMER_FLOOR_BEHIND_COLUMN)
    stream_seqs = list(
        map(add, delivered_seqs, _join_column(parts, "consumers", _STREAM_AHEAD_COLUMN))
    )
    stream_floor_distances = _join_column(parts, "consumers", _STREAM_FLOOR_BEHIND_COLUMN)
    columns["delivered_stream_seq"] = stream_seqs
    columns["ack_floor_consumer_seq"] = list(map(sub, delivered_seqs, consumer_floor_distances))
    columns["ack_floor_stream_seq"] = list(map(sub, stream_seqs, stream_floor_distances))
    return [columns[name] for name in CONSUMER_COLUMNS]
