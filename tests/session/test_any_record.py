"""Whatever a record holds, it comes back the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from natstui.lines import encode_record
from natstui.model.live.column_differences import (
    SnapshotAsDifferences,
    as_differences,
    from_differences,
)
from natstui.model.records.record import (
    LinkChanged,
    Noted,
    Outcome,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import Gap
from natstui.session.files.entry import RecordSplitter, join_parts, parse_part
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.read.recording import Recording
from natstui.session.share.tables import rows
from natstui.values import replace
from tests.session.any_record import KINDS, any_record, fields_of
from tests.session.making import made
from tests.session.scenario import START_US, Scenario

SLOW = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def tells_no_loss(record: Record) -> bool:
    """Behind a gap that lost records a reader says again what the keyframe knew."""
    return not (isinstance(record, Gap) and record.lost_records_count)


@pytest.mark.slow
@SLOW
@given(st.lists(any_record().filter(tells_no_loss), max_size=8), st.integers(1, 3))
def test_records_of_every_kind_come_back_the_same(
    records: list[Record], polls_per_segment: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(made(Path(folder), records, polls_per_segment))
        assert list(recording.records()) == records


@pytest.mark.parametrize("cls", KINDS)
@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_kind_can_be_told_apart_without_decoding(cls: Any, data: st.DataObject) -> None:
    record = data.draw(fields_of(cls))
    entry = join_parts([parse_part(encode_record(record)[:-1], 0)])
    assert entry is not None
    assert entry.record() == record
    assert entry.at_us == (record.taken_at_us if entry.is_poll else record.at_us)


@settings(SLOW, max_examples=40)
@given(any_record())
def test_every_record_fits_the_exported_columns(record: Record) -> None:
    for table, values in rows(record):
        assert len(values) == len(table.columns)


def test_what_happened_is_exported_as_events_with_their_object_status_and_sentence() -> None:
    happened: dict[Record, tuple[str | None, ...]] = {
        Noted(1, "a note"): ("note", None, None, "a note"),
        Outcome(2, 1, "done", "paused", '{"secret":1}'): ("action", None, "done", "paused"),
        LinkChanged(3, "connected", "again", "n1"): ("link", "n1", "connected", "again"),
        Unavailable(4, "meta", "no"): ("unavailable", "meta", "unavailable", "no"),
        Restored(5, "meta"): ("unavailable", "meta", "restored", None),
        Gap(6, 5, 2, "the disk is full"): ("gap", None, "2 records lost", "the disk is full"),
    }
    for record, cells in happened.items():
        assert [values for _, values in rows(record)] == [(record.at_us, *cells)]


def test_a_poll_of_many_rows_is_cut_and_joined() -> None:
    poll = Scenario(streams=70, consumers=900).poll(3)
    lines = RecordSplitter().lines(poll, 5)
    assert len(lines) > 4
    assert max(map(len, lines)) < 32_768
    entry = join_parts([parse_part(line[:-1], 0) for line in lines])
    assert entry is not None and entry.record() == poll
    assert join_parts([parse_part(line[:-1], 0) for line in lines[:-1]]) is None


def test_a_poll_is_written_as_differences_and_strange_values_are_kept() -> None:
    poll = Scenario(consumers=4).poll(100)
    written = as_differences(poll)
    assert isinstance(written, SnapshotAsDifferences) and from_differences(written) == poll
    consumers = written.consumers
    assert consumers.ack_floor_stream_behind_seq == poll.consumers.ack_pending_msgs
    assert max(map(abs, consumers.delivered_near_us[:2])) < 900_000  # type: ignore[arg-type]
    assert consumers.delivered_near_us[3] == poll.consumers.delivered_at_us[3], "it rests"
    for strange in ((None, 5, -1, 10**9), (2**63, 2**63 - 1, 0, -(2**63)), (None,) * 4):
        for name in ("delivered_at_us", "acked_at_us"):
            rows = replace(poll.consumers, **{name: strange})
            lines = RecordSplitter().lines(replace(poll, consumers=rows), 1)
            entry = join_parts([parse_part(line[:-1], 0) for line in lines])
            assert entry is not None
            assert entry.record().consumers == rows  # type: ignore[union-attr]


def test_a_keyframe_is_complete_after_any_history() -> None:
    scenario, memory = Scenario(), KeyframeBuilder()
    for record in [*scenario.beginning(), *scenario.records(0, 300)]:
        memory.add(record)
    keyframe = memory.keyframe(START_US)
    again = KeyframeBuilder()
    for record in keyframe.records():
        again.add(record)
    assert again.keyframe(START_US) == keyframe
