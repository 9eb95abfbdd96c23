"""What a list of recordings says of each."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from natstui.model.live.snapshot import ConsumerColumns, Snapshot
from natstui.session.library import summary
from natstui.session.read.recording import Recording
from tests.session.making import made
from tests.session.scenario import Scenario


def turn(poll: Snapshot, number: int) -> Snapshot:
    """Return a poll of a large server: all streams, the consumers of one of them."""
    stream = poll.streams.name[number]
    rows = [row for row, name in enumerate(poll.consumers.stream) if name == stream]
    columns = (getattr(poll.consumers, column.name) for column in fields(ConsumerColumns))
    consumers = ConsumerColumns(*(tuple(values[row] for row in rows) for values in columns))
    return replace(poll, consumers=consumers, consumers_complete=False, swept_streams=(stream,))


@pytest.mark.parametrize("polls_per_segment", [4, 60])
def test_a_server_polled_in_turns_is_listed_with_all_its_consumers(
    tmp_path: Path, polls_per_segment: int
) -> None:
    scenario = Scenario(streams=3, consumers=12)
    polls = [turn(scenario.poll(second), second % 3) for second in range(9)]
    folder = made(tmp_path, [*scenario.beginning(), *polls], polls_per_segment)
    listed = summary(Recording(folder))
    assert (listed.streams_count, listed.consumers_count) == (3, 12)


def test_a_recording_without_a_poll_is_listed_with_unknown_counts(tmp_path: Path) -> None:
    listed = summary(Recording(made(tmp_path, Scenario().beginning())))
    assert (listed.streams_count, listed.consumers_count) == (None, None)
